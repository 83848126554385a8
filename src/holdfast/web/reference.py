"""/docs: the API's description as one page for people. Pure: takes the description, returns the page.

The page loads nothing from anywhere and has no script, and its Content-Security-Policy says so. So it works without the
internet, and nobody else learns who reads it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

_CODE = re.compile(r"`([^`]+)`")
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, h3 { font-family: ui-monospace, monospace; }
h3 { margin: 2rem 0 .25rem; font-size: 1rem; }
table { border-collapse: collapse; margin: .5rem 0; }
th, td { text-align: left; vertical-align: top; padding: .15rem 1rem .15rem 0; }
th { font-weight: 600; }
"""
_DIGEST = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode("ascii")
POLICY = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What a browser may load for the page: only the style inside it."""


def page(description: Mapping[str, Any]) -> str:
    """The whole page, from an OpenAPI description."""
    about = description["info"]
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(about['title'])}</title>\n<style>{_STYLE}</style>\n</head>\n<body>",
            f"<h1>{escape(about['title'])}</h1>\n<p>{_text(about['description'])}</p>",
            # A relative link: the application may be mounted below another path.
            '<p>The same for programs: <a href="v1/openapi.json">v1/openapi.json</a></p>',
            *_operations(description),
            '<h2 id="refusals">Refusals</h2>',
            _refusals(description),
            "<h2>Shapes</h2>",
            *(_shape(name, schema) for name, schema in sorted(description["components"]["schemas"].items())),
            "</body>\n</html>\n",
        ]
    )


def _operations(description: Mapping[str, Any]) -> Iterator[str]:
    """Operations by tag, in the order in which tags come up. An operation with two paths is listed once, with both."""
    tagged: dict[str, dict[str, _Listed]] = {}
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            tag = next(iter(operation.get("tags", ())), "others")
            shorter = f"{method} {path.replace('/workflows/{workflow}/runs/', '/runs/')}"
            known = tagged.setdefault(tag, {}).setdefault(shorter, _Listed(operation, []))
            known.titles.append(f"{method.upper()} {path}")
    for tag, told in tagged.items():
        yield f"<h2>{escape(tag.capitalize())}</h2>"
        yield from map(_operation, told.values())


class _Listed(NamedTuple):
    """An operation and its titles: each a method and a path."""

    operation: Mapping[str, Any]
    titles: list[str]


def _operation(told: _Listed) -> str:
    operation = told.operation
    parts = [f"<h3>{escape(title)}</h3>" for title in told.titles]
    parts.append(f"<p><strong>{_text(operation['summary'])}</strong> {_text(operation['description'])}</p>")
    parameters = [
        (one["name"], f"{one['in']}, {_type(one['schema'])}", "needed" if one.get("required") else "", _about(one))
        for one in operation.get("parameters", ())
    ]
    if parameters:
        parts.append(_table(("parameter", "", "", ""), parameters))
    body = operation.get("requestBody")
    if body is not None:
        [(kind, content), *_] = body["content"].items()
        needed = "needed" if body.get("required") else "may be left out"
        parts.append(f"<p>Body: {_type(content['schema'])}, as <code>{escape(kind)}</code>; {needed}.</p>")
    answers = [
        (status, ", ".join(_type(one["schema"]) for one in answer.get("content", {}).values()), _meaning(answer))
        for status, answer in sorted(operation["responses"].items())
        if status < "400"
    ]
    refusals = sorted(status for status in operation["responses"] if status >= "400")
    parts.append(_table(("answer", "", ""), answers))
    if refusals:
        parts.append(f'<p>Or <a href="#refusals">refused</a> with {", ".join(refusals)}.</p>')
    return "\n".join(parts)


def _refusals(description: Mapping[str, Any]) -> str:
    """What each status of a refusal means. It is the same for all operations."""
    met = {
        status: _meaning(answer)
        for operations in description["paths"].values()
        for operation in operations.values()
        for status, answer in operation["responses"].items()
        if status >= "400"
    }
    return _table(("status", ""), sorted(met.items()))


def _meaning(answer: Mapping[str, Any]) -> str:
    # FastAPI's description where none was given.
    return "" if answer["description"] == "Successful Response" else _text(answer["description"])


def _shape(name: str, schema: Mapping[str, Any]) -> str:
    needed = schema.get("required", ())
    fields = [
        (field, _type(one), "needed" if field in needed else "", _text(one.get("description", "")))
        for field, one in schema.get("properties", {}).items()
    ]
    head = f'<h3 id="{escape(name)}">{escape(name)}</h3>\n<p>{_text(schema.get("description", ""))}</p>'
    return f"{head}\n{_table(('field', '', '', ''), fields)}"


def _table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A table. The first cell of a row is plain text; the others are HTML."""
    lines = ["<table>", f"<tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr>"]
    for name, *cells in rows:
        told = "".join(f"<td>{cell}</td>" for cell in cells)
        lines.append(f"<tr><td><code>{escape(name)}</code></td>{told}</tr>")
    return "\n".join([*lines, "</table>"])


def _about(parameter: Mapping[str, Any]) -> str:
    schema = parameter["schema"]
    told = _text(parameter.get("description", ""))
    return f"{told} By default {escape(json.dumps(schema['default']))}." if "default" in schema else told


def _type(schema: Mapping[str, Any]) -> str:
    """A schema in a few words."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    branches = schema.get("anyOf") or schema.get("oneOf")
    if branches:
        return " or ".join(dict.fromkeys(map(_type, branches)))
    if "enum" in schema or "const" in schema:
        values = schema.get("enum") or [schema["const"]]
        return " or ".join(f"<code>{escape(json.dumps(one))}</code>" for one in values)
    kind = schema.get("type")
    if kind == "array":
        return f"array of {_type(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"
    return escape(str(schema.get("format") or kind or "any JSON"))


def _text(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(text, quote=False)).replace("\n\n", "</p>\n<p>")

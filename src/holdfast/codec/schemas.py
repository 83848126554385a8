"""JSON schemas of annotations, and whether plain data fits one, so that a sender learns that its payload is wrong.

A schema is a first check and lets through what it can't decide: `{}` stands for a part that no schema can describe, and
the receiver's own annotation decides in the end. So only keywords about structure are read (including those added by
`refining`), the formats and encodings of texts that the codec itself reads, and the bounds that pydantic puts on values
(see `bounds`). In a pydantic model formats are not checked, since it reads them in its own way, and 1.0 is an integer.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import UnionType
from typing import Any, Union, get_args, get_origin
from uuid import UUID

import msgspec
from msgspec import inspect

from holdfast.codec.bounds import beyond, generator, literals_of
from holdfast.codec.hints import known_hints
from holdfast.codec.refining import referred, refine
from holdfast.codec.texts import TEXTS, UNREADABLE

Schema = Mapping[str, Any]
_TYPES: dict[str, tuple[type, ...]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "array": (list,),
    "object": (dict,),
}
_READERS: dict[str, Callable[[str], Any]] = {
    "date-time": TEXTS[datetime].read,
    "date": TEXTS[date].read,
    "time": TEXTS[time].read,
    "duration": TEXTS[timedelta].read,
    "decimal": TEXTS[Decimal].read,
    "uuid": TEXTS[UUID].read,
    "base64": TEXTS[bytes].read,
    # For keys, which are text in JSON.
    "integer": int,
}
"""The reader of each format or encoding."""
_MODEL = "x-model"
"""Marks the schema of a pydantic model, which reads values in its own way."""
_ONE = "x-one"
"""Marks a union of which only one member may read a value as it was sent: JSON alone does not tell them apart."""
_VERBATIM = frozenset({"format", "contentEncoding", "enum"})
"""Keywords that the schemas of text and numbers don't have which stand for themselves, and not for a date, say."""
_LARGEST = 64_000


def schema_of(annotation: Any) -> dict[str, Any] | None:
    """The schema of an annotation; None if no schema can describe it, so that anything fits."""
    try:
        model_schema = getattr(annotation, "model_json_schema", None)
        if getattr(annotation, "__pydantic_root_model__", False):
            return None
        if isinstance(annotation, type) and callable(model_schema):
            given = model_schema(by_alias=False, mode="validation", **_bounding())
            found: dict[str, Any] = _as_stored(_without_tuples(given))
            found[_MODEL] = True
        else:
            found = _as_stored(_described(annotation))
        size = len(msgspec.json.encode(found))
    except Exception:
        # No schema describes it, such as a mix of libraries. Each library raises errors of its own for that, and so
        # may a class that makes its schema itself.
        return None
    return found if found and size <= _LARGEST else None


def _bounding() -> dict[str, Any]:
    pydantic = sys.modules.get("pydantic.json_schema")
    return {} if pydantic is None else {"schema_generator": generator(pydantic.GenerateJsonSchema)}


def _described(annotation: Any) -> dict[str, Any]:
    try:
        found = msgspec.json.schema(annotation)
    except TypeError:
        members = get_args(annotation)
        if get_origin(annotation) not in (Union, UnionType):
            raise
        # A union of classes, which msgspec can't tell apart. The codec can.
        schemas, parts = msgspec.json.schema_components(members, ref_template="#/$defs/{name}")
        found = {"anyOf": [*schemas], "$defs": parts, _ONE: True}
        for schema, member in zip(schemas, members, strict=True):
            refine(schema, inspect.type_info(member), found)
    else:
        refine(found, inspect.type_info(annotation), found)
    return found


def _as_stored(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without the parts in which the codec's JSON differs from the library's.

    The codec writes every class as an object with its fields: not as an array, not as a root model's value, and without
    a Struct's tag.
    """
    for name, part in schema.get("$defs", {}).items():
        if "properties" not in part and "enum" not in part:
            schema["$defs"][name] = {}
        elif "required" in part:
            part["required"] = [field for field in part["required"] if not _is_tag(part["properties"][field])]
    return schema


def _without_tuples(schema: Any) -> Any:
    """A model's schema with `{}` for tuples: pydantic describes NamedTuples so, too, and the codec writes objects."""
    if isinstance(schema, dict):
        is_tuple = "prefixItems" in schema
        return {} if is_tuple else {name: _without_tuples(part) for name, part in schema.items()}
    return [_without_tuples(part) for part in schema] if isinstance(schema, list) else schema


def _is_tag(schema: Schema) -> bool:
    return len(schema.get("enum", ())) == 1


def parameter_schemas(fn: Callable[..., Any]) -> dict[str, bytes]:
    """The schemas of a function's parameters as JSON, by name. Parameters without a schema are left out."""
    found = {name: schema_of(hint) for name, hint in known_hints(fn).items()}
    return {name: msgspec.json.encode(schema) for name, schema in found.items() if schema is not None}


def misfit(schema: Schema, value: Any) -> str | None:
    """Why plain data does not fit the schema, with the culprit's path; None if it fits."""
    return _misfit(schema, value, schema, "$", 0)


def _misfit(schema: Any, given: Any, root: Schema, path: str, depth: int) -> str | None:
    if not isinstance(schema, Mapping) or depth > 100:
        return None
    if "$ref" in schema:
        return _misfit(referred(root, schema["$ref"]), given, root, path, depth + 1)
    value, is_strict = _unwrapped(given), _MODEL not in root
    if isinstance(given, dict) and given.keys() == {"~enum"}:
        # Only the receiver knows whether this member's class is a subtype of the expected type.
        return None
    for word in ("anyOf", "oneOf"):
        if word in schema:
            reasons = [_misfit(one, given, root, path, depth + 1) for one in schema[word]]
            if reasons and all(reasons):
                return reasons[0] if len(reasons) == 1 else f"{path}: {_shown(value)} fits none of {len(reasons)} kinds"
            if _ONE in schema and value is given and _is_unclear(schema[word], reasons, value, root):
                return f"{path}: {_shown(value)} fits several of {len(reasons)} kinds alike: {_TELL_APART}"
    literals = literals_of(schema)
    if literals is not None and value not in literals:
        return f"{path}: {_shown(value)} is none of {literals}"
    if literals is None and "enum" in schema and not _is_one(schema, value, is_strict):
        # In a model, an enum's member may be stored by its name, or have any value, which only the receiver knows.
        is_known = is_strict or isinstance(value, (int, float, type(None)))
        return f"{path}: {_shown(value)} is none of {schema['enum']}" if is_known else None
    wrong = _wrong_type(schema, value, path, is_strict) or _wrong_inside(schema, value, root, path, depth)
    if wrong is None and (bound := beyond(schema, value, _shown(value), is_text=value is given)) is not None:
        wrong = f"{path}: {bound}"
    # Not for text from an envelope: it may be of a subtype, such as a datetime for a date, in that type's own format.
    return wrong or (_wrong_text(schema, value, path) if is_strict and value is given else None)


_TELL_APART = (
    "send what only one of them reads; classes are told apart by a field of their own, such as "
    'kind: Literal["approved"] = "approved"'
)


def _is_unclear(kinds: list[Any], reasons: list[str | None], value: Any, root: Schema) -> bool:
    """Whether a union can't tell which of its members a value is for."""
    fitting = [referred(root, one["$ref"]) if "$ref" in one else one for one in kinds]
    # What no schema describes fits here, and may not fit in the end.
    fitting = [one for one, reason in zip(fitting, reasons, strict=True) if reason is None and one]
    if not isinstance(value, (list, dict)) and any(_VERBATIM.isdisjoint(one) for one in fitting):
        return False
    return len(fitting) > 1


def _is_one(schema: Schema, value: Any, is_strict: bool) -> bool:
    known = schema["enum"]
    # A Literal has no title. In place of its 1 the codec takes neither True nor 1.0.
    is_class = "title" in schema
    if any(one == value and (is_class or not is_strict or type(one) is type(value)) for one in known):
        return True
    # A combination of flags is one number.
    is_number = is_class and type(value) is int and all(type(one) is int for one in known)
    return is_number and not value & ~functools.reduce(operator.or_, known, 0)


def _wrong_type(schema: Schema, value: Any, path: str, is_strict: bool) -> str | None:
    declared = schema.get("type")
    if declared is None:
        return None
    wanted = declared if isinstance(declared, list) else [declared]
    allowed = tuple(kind for name in wanted for kind in _TYPES.get(name, (object,)))
    # A bool is an int, as for the codec and for type checkers.
    if not isinstance(value, allowed):
        if "integer" in wanted and isinstance(value, float) and value.is_integer() and not is_strict:
            return None
        return f"{path}: expected {' or '.join(map(str, wanted))}, not {_shown(value)}"
    return None


def _wrong_text(schema: Schema, value: Any, path: str) -> str | None:
    text_format = schema.get("format") or schema.get("contentEncoding", "")
    read = _READERS.get(text_format)
    if read is None or not isinstance(value, str):
        return None
    try:
        read(value)
    except UNREADABLE:
        return f"{path}: expected {text_format}, not {_shown(value)}"
    return None


def _wrong_name(schema: Any, name: str, root: Schema, path: str, depth: int) -> str | None:
    """Why a name in an object can't be a key of the dict. A model reads keys in its own way, so there any name may."""
    path = f"{path}.key({name!r:.60})"
    if schema is False and _MODEL not in root:
        return f"{path}: expected a key that is no text, and the names of an object are text"
    return _misfit(schema, name, root, path, depth + 1)


def _wrong_inside(schema: Schema, value: Any, root: Schema, path: str, depth: int) -> str | None:
    if isinstance(value, dict):
        for name in schema.get("required", ()):
            if name not in value:
                return f"{path}: {name!r} is missing"
        rest = schema.get("additionalProperties")
        for name, one in value.items():
            inner = schema.get("properties", {}).get(name, rest)
            names = schema.get("propertyNames") if isinstance(name, str) else None
            reason = _wrong_name(names, name, root, path, depth)
            reason = reason or _misfit(inner, one, root, f"{path}.{name}", depth + 1)
            if reason is not None:
                return reason
    elif isinstance(value, list):
        first = schema.get("prefixItems", ())
        if first and not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            # The length of an array matters only if it is a tuple.
            return f"{path}: expected an array of {schema.get('maxItems', len(first))}, not of {len(value)}"
        for index, one in enumerate(value):
            inner = first[index] if index < len(first) else schema.get("items")
            reason = _misfit(inner, one, root, f"{path}[{index}]", depth + 1)
            if reason is not None:
                return reason
    return None


def _unwrapped(value: Any) -> Any:
    """The JSON inside an envelope: a date's text, a set's array, an object from pairs."""
    if isinstance(value, dict) and len(value) == 1:
        [(name, inner)] = value.items()
        if name == "~float":
            return float(inner)
        if name.startswith("~:"):
            return _unwrapped(inner)
        if name.startswith("~") and name != "~dict":
            return inner
        if name == "~dict":
            # A key that is no text is no name, so its place stands for it: what is behind it is looked at, too.
            pairs = enumerate(inner if isinstance(inner, list) and all(map(_is_pair, inner)) else ())
            return {key if isinstance(key, str) else place: one for place, (key, one) in pairs}
    return value


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else f"{text[:57]}..."

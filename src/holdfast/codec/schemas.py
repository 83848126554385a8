"""JSON schemas of annotations, and whether plain data fits one: how a sender learns that its payload will not do.

A schema is a first sieve and errs on the side of letting through: what can't be said in one is said by `{}`, which
everything fits, and the receiver's own annotation has the last word. So only the words that decide about structure are
read; formats, lengths and patterns are the receiver's affair.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from holdfast.codec.hints import Unresolved, function_hints

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
_LARGEST = 64_000


def schema_of(annotation: Any) -> dict[str, Any] | None:
    """The schema of an annotation; None if anything fits it, as far as can be said."""
    model_schema = getattr(annotation, "model_json_schema", None)
    try:
        if isinstance(annotation, type) and callable(model_schema):
            found: dict[str, Any] = model_schema(mode="validation")
        else:
            found = msgspec.json.schema(annotation)
    except (TypeError, ValueError, NameError, AttributeError, RecursionError):
        # Not an annotation that both sides can say in a schema: a mix of libraries, a class of its own kind.
        return None
    if not found or len(msgspec.json.encode(found)) > _LARGEST:
        return None
    return found


def parameter_schemas(fn: Callable[..., Any]) -> dict[str, bytes]:
    """The schemas of a function's parameters as JSON, by name: of those that have one."""
    found = {name: schema_of(hint) for name, hint in function_hints(fn).items() if not isinstance(hint, Unresolved)}
    return {name: msgspec.json.encode(schema) for name, schema in found.items() if schema is not None}


def misfit(schema: Schema, value: Any) -> str | None:
    """Why plain data does not fit, with the path of the culprit; None if it does."""
    return _misfit(schema, _unwrapped(value), schema, "$", 0)


def _misfit(schema: Any, value: Any, root: Schema, path: str, depth: int) -> str | None:
    if not isinstance(schema, Mapping) or depth > 100:
        return None
    if "$ref" in schema:
        return _misfit(_target(root, schema["$ref"]), value, root, path, depth + 1)
    for word in ("anyOf", "oneOf"):
        if word in schema:
            reasons = [_misfit(one, value, root, path, depth + 1) for one in schema[word]]
            if reasons and all(reasons):
                return reasons[0] if len(reasons) == 1 else f"{path}: {_shown(value)} fits none of {len(reasons)} kinds"
    if "enum" in schema and isinstance(value, (str, int, float, bool, type(None))) and value not in schema["enum"]:
        # An enum member may be stored by its name: only the receiver knows.
        return None if isinstance(value, str) else f"{path}: {_shown(value)} is none of {schema['enum']}"
    return _wrong_type(schema, value, path) or _wrong_inside(schema, value, root, path, depth)


def _wrong_type(schema: Schema, value: Any, path: str) -> str | None:
    said = schema.get("type")
    if said is None:
        return None
    wanted = said if isinstance(said, list) else [said]
    allowed = tuple(kind for name in wanted for kind in _TYPES.get(name, (object,)))
    is_bool = isinstance(value, bool) and bool not in allowed and object not in allowed
    if is_bool or not isinstance(value, allowed):
        if "integer" in wanted and isinstance(value, float) and value.is_integer():
            return None
        return f"{path}: expected {' or '.join(map(str, wanted))}, not {_shown(value)}"
    return None


def _wrong_inside(schema: Schema, value: Any, root: Schema, path: str, depth: int) -> str | None:
    if isinstance(value, dict):
        for name in schema.get("required", ()):
            if name not in value:
                return f"{path}: {name!r} is missing"
        rest = schema.get("additionalProperties")
        for name, one in value.items():
            inner = schema.get("properties", {}).get(name, rest)
            reason = _misfit(inner, _unwrapped(one), root, f"{path}.{name}", depth + 1)
            if reason is not None:
                return reason
    elif isinstance(value, list):
        first = schema.get("prefixItems", ())
        for index, one in enumerate(value):
            inner = first[index] if index < len(first) else schema.get("items")
            reason = _misfit(inner, _unwrapped(one), root, f"{path}[{index}]", depth + 1)
            if reason is not None:
                return reason
    return None


def _target(root: Schema, reference: Any) -> Any:
    found: Any = root
    for step in str(reference).removeprefix("#/").split("/"):
        found = found.get(step.replace("~1", "/").replace("~0", "~"), {}) if isinstance(found, Mapping) else {}
    return found


def _unwrapped(value: Any) -> Any:
    """What is inside an envelope of a bare value: a date is text, a set is an array."""
    if isinstance(value, dict) and len(value) == 1:
        [(name, inner)] = value.items()
        if name.startswith("~") and name != "~dict":
            return inner
        if name == "~dict":
            return {}
    return value


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else f"{text[:57]}..."

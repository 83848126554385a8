"""What msgspec knows of a type and does not say in its schema: that a text is a time, that an enum takes other values,
what the keys of a dict are.

It says that a text is a datetime only of those that must have a zone. Where it can't be told which part of a schema is
which part of a type, nothing is added: a schema lets through what it does not mention.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, Flag, FlagBoundary
from typing import Any

from msgspec import inspect

_FORMATS: dict[type[inspect.Type], str] = {
    inspect.DateTimeType: "date-time",
    inspect.DateType: "date",
    inspect.TimeType: "time",
    inspect.TimeDeltaType: "duration",
    inspect.DecimalType: "decimal",
    inspect.UUIDType: "uuid",
}


def refine(schema: dict[str, Any], info: inspect.Type) -> None:
    """Add it to the schema of a type, in place."""
    _refine(schema, info, schema, set())


def referred(root: Mapping[str, Any], reference: Any) -> Any:
    """The part of a schema that a `$ref` in it means; one that is not there says nothing."""
    found: Any = root
    for step in str(reference).removeprefix("#/").split("/"):
        found = found.get(step.replace("~1", "/").replace("~0", "~"), {}) if isinstance(found, Mapping) else {}
    return found


def _refine(schema: Any, info: inspect.Type, root: dict[str, Any], seen: set[int]) -> None:
    while isinstance(info, inspect.Metadata):
        info = info.type
    if isinstance(schema, dict) and "$ref" in schema:
        schema = referred(root, schema["$ref"])
    if not isinstance(schema, dict) or id(schema) in seen:
        return
    # A class may hold itself.
    seen.add(id(schema))
    for part, of in _parts(schema, info):
        _refine(part, of, root, seen)
    match info:
        case inspect.DateTimeType():
            schema["format"] = "date-time"
        case inspect.TimeType():
            schema["format"] = "time"
        case inspect.EnumType(cls=cls) if _takes_others(cls):
            schema.pop("enum", None)
        case inspect.DictType(key_type=key):
            names = _names(key)
            if names is not None:
                schema["propertyNames"] = names


def _names(key: inspect.Type) -> dict[str, Any] | bool | None:
    """What the names of an object must be to be read as such keys; None: whatever they are, as far as can be said."""
    match key:
        case inspect.Metadata(type=inner):
            return _names(inner)
        case inspect.FloatType() | inspect.BoolType() | inspect.NoneType():
            # A name is text, and the codec reads none of these from one: it writes such a dict as pairs.
            return False
        case inspect.IntType():
            return {"format": "integer"}
        case inspect.BytesType() | inspect.ByteArrayType():
            return {"contentEncoding": "base64"}
        case inspect.EnumType(cls=cls) if not _takes_others(cls):
            values = [member.value for member in cls]
            # Of a number there are several ways to write it.
            return {"enum": values} if all(type(one) is str for one in values) else None
    formats = [name for kind, name in _FORMATS.items() if isinstance(key, kind)]
    return {"format": formats[0]} if formats else None


def _parts(schema: dict[str, Any], info: inspect.Type) -> Iterable[tuple[Any, inspect.Type]]:
    match info:
        case (
            inspect.ListType(item_type=item)
            | inspect.SetType(item_type=item)
            | inspect.FrozenSetType(item_type=item)
            | inspect.VarTupleType(item_type=item)
        ):
            return [(schema.get("items"), item)]
        case inspect.TupleType(item_types=items):
            return zip(schema.get("prefixItems", ()), items, strict=False)
        case inspect.DictType(value_type=value):
            return [(schema.get("additionalProperties"), value)]
        case inspect.UnionType(types=types):
            # Structs stand together at the end, wherever they stand in the type.
            others = [one for one in types if not isinstance(one, inspect.StructType)]
            return zip(schema.get("anyOf", ()), others, strict=False)
        case (
            inspect.DataclassType(fields=fields)
            | inspect.StructType(fields=fields)
            | inspect.TypedDictType(fields=fields)
        ):
            properties = schema.get("properties", {})
            return [(properties.get(field.encode_name), field.type) for field in fields]
    return []


def _takes_others(cls: type[Enum]) -> bool:
    """Whether it makes members of values that none of them has."""
    if issubclass(cls, Flag):
        # As an IntFlag does, unless it says otherwise.
        return cls._boundary_ in (FlagBoundary.KEEP, FlagBoundary.EJECT)  # type: ignore[attr-defined]
    return cls._missing_.__func__ is not Enum._missing_.__func__  # type: ignore[attr-defined]

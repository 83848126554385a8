"""Adds to a msgspec schema what msgspec leaves out: formats of dates and times, open enums, the keys of dicts.

A NamedTuple is described as the object that the codec writes. msgspec gives a datetime its format only if it must have
a zone. Where a part of the schema can't be matched with its part of the type nothing is added, since a schema lets
through what it does not mention.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, Flag, FlagBoundary
from itertools import filterfalse
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


def refine(schema: dict[str, Any], info: inspect.Type, root: dict[str, Any]) -> None:
    """Add to the schema of a type, in place. Its references lead into `root`."""
    _refine(schema, info, root, set())


def referred(root: Mapping[str, Any], reference: Any) -> Any:
    """The part of a schema that a `$ref` names; an empty schema if there is none."""
    found: Any = root
    for step in str(reference).removeprefix("#/").split("/"):
        found = found.get(step.replace("~1", "/").replace("~0", "~"), {}) if isinstance(found, Mapping) else {}
    return found


def _refine(schema: Any, info: inspect.Type, root: dict[str, Any], seen: set[int]) -> None:
    info = _bare(info)
    if isinstance(schema, dict) and "$ref" in schema:
        schema = referred(root, schema["$ref"])
    if not isinstance(schema, dict) or id(schema) in seen:
        return
    # A class may contain itself.
    seen.add(id(schema))
    for part, part_info in _parts(schema, info):
        _refine(part, part_info, root, seen)
    match info:
        case inspect.DateTimeType():
            schema["format"] = "date-time"
        case inspect.TimeType():
            schema["format"] = "time"
        case inspect.EnumType(cls=cls) if _accepts_other_values(cls):
            schema.pop("enum", None)
        case inspect.DictType(key_type=key):
            names = _names_schema(key)
            if names is not None:
                schema["propertyNames"] = names
        case inspect.NamedTupleType(fields=fields) if "prefixItems" in schema:
            schema["properties"] = dict(zip((field.name for field in fields), schema.pop("prefixItems"), strict=True))
            schema["required"] = [field.name for field in fields if field.required]
            schema["type"] = "object"


def _names_schema(key: inspect.Type) -> dict[str, Any] | bool | None:
    """The schema of an object's names that can be read as keys of this type; None if nothing can be said of them."""
    key = _bare(key)
    match key:
        case inspect.FloatType() | inspect.BoolType() | inspect.NoneType():
            # The codec does not read these from text: it writes such a dict as pairs.
            return False
        case inspect.IntType():
            return {"format": "integer"}
        case inspect.BytesType() | inspect.ByteArrayType():
            return {"contentEncoding": "base64"}
        case inspect.EnumType(cls=cls) if not _accepts_other_values(cls):
            values = [member.value for member in cls]
            # Not for numbers: one number can be written in several ways.
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
        case inspect.NamedTupleType(fields=fields):
            return zip(schema.get("prefixItems", ()), (field.type for field in fields), strict=False)
        case inspect.DictType(value_type=value):
            return [(schema.get("additionalProperties"), value)]
        case inspect.UnionType(types=types):
            # None is last or in its place, as the version of msgspec has it.
            parts = [part for part in schema.get("anyOf", ()) if part != {"type": "null"}]
            return zip(parts, filterfalse(_is_elsewhere, map(_bare, types)), strict=False)
        case (
            inspect.DataclassType(fields=fields)
            | inspect.StructType(fields=fields)
            | inspect.TypedDictType(fields=fields)
        ):
            properties = schema.get("properties", {})
            return [(properties.get(field.encode_name), field.type) for field in fields]
    return []


def _bare(info: inspect.Type) -> inspect.Type:
    while isinstance(info, inspect.Metadata):
        info = info.type
    return info


def _is_elsewhere(info: inspect.Type) -> bool:
    """Whether the schema of a union may have this member in another place than the type: None, and objects of Structs,
    which are behind the others."""
    return isinstance(info, inspect.NoneType) or (isinstance(info, inspect.StructType) and not info.array_like)


def _accepts_other_values(cls: type[Enum]) -> bool:
    """Whether an enum class accepts values that none of its members has."""
    if issubclass(cls, Flag):
        # An IntFlag does by default.
        return cls._boundary_ in (FlagBoundary.KEEP, FlagBoundary.EJECT)  # type: ignore[attr-defined]
    return cls._missing_.__func__ is not Enum._missing_.__func__  # type: ignore[attr-defined]

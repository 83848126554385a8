"""Bounds that pydantic puts on values: limits of numbers, lengths, patterns, and the values of a Literal.

Only pydantic keeps them when a value is read, so they are checked only in schemas that were made by `generator`. It
notes those that hold for the value as it is stored, under a keyword of its own: beside them, pydantic writes what holds
only after a validator has run, or a text was stripped. A check that can't decide lets the value through, and the
receiver decides.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from typing import Any, TypeGuard

from holdfast.extras import find_extra

_BOUNDS = "x-bounds"
_LITERAL = "x-literal"
"""The values of a Literal. The values of an enum don't tell how its members are stored."""
_LIMITS: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "minimum": (operator.lt, "at least"),
    "exclusiveMinimum": (operator.le, "more than"),
    "maximum": (operator.gt, "at most"),
    "exclusiveMaximum": (operator.ge, "less than"),
}
_COUNTS: dict[type, tuple[str, str]] = {
    str: ("Length", "characters"),
    list: ("Items", "items"),
    dict: ("Properties", "names"),
}
_WORDS = (
    *_LIMITS,
    "multipleOf",
    "pattern",
    *(f"{end}{word}" for word, _ in _COUNTS.values() for end in ("min", "max")),
)


def generator(base: Any) -> type:
    """Pydantic's maker of schemas, so that it notes the bounds of stored values, and warns of nothing.

    It would warn of a default that is no JSON, such as bytes: nobody here reads defaults. `base` is pydantic's class,
    which this module does not import.
    """
    kinds = ("int", "float", "str", "list", "set", "frozenset", "dict")
    makers = {f"{kind}_schema": _noting(getattr(base, f"{kind}_schema")) for kind in kinds}
    # The code of such a validator runs first, and may turn the stored value into one that is within the bounds.
    early = {name: _forgetting(getattr(base, name)) for name in ("function_before_schema", "function_wrap_schema")}
    ignored = {*base.ignored_warning_kinds, "non-serializable-default"}

    def decimal_schema(self: Any, schema: Any) -> dict[str, Any]:
        found: dict[str, Any] = base.decimal_schema(self, schema)
        # One schema for both of its forms: in text the same limits hold as in a number.
        return {**found["anyOf"][0], "type": ["number", "string"]} if "anyOf" in found else found

    def literal_schema(self: Any, schema: Any) -> dict[str, Any]:
        found, values = base.literal_schema(self, schema), schema["expected"]
        is_json = all(isinstance(one, str | int | None) and not isinstance(one, Enum) for one in values)
        return {**found, _LITERAL: list(values)} if is_json else found

    own = {"ignored_warning_kinds": ignored, "decimal_schema": decimal_schema, "literal_schema": literal_schema}
    return type("Noting", (base,), {**makers, **early, **own})


def _noting(make: Any) -> Any:
    def made(self: Any, schema: Any) -> dict[str, Any]:
        found: dict[str, Any] = make(self, schema)
        bounds = {word: found[word] for word in _WORDS if word in found}
        config = getattr(self, "_config", None)
        if schema.get("strip_whitespace") or getattr(config, "str_strip_whitespace", None):
            bounds = {}
        engine = schema.get("regex_engine") or getattr(config, "regex_engine", None)
        if engine == "python-re" or not isinstance(schema.get("pattern", ""), str):
            # A compiled pattern has flags, too, and some texts keep Python's own engine busy for hours.
            bounds.pop("pattern", None)
        if found.get("uniqueItems"):
            # It may be sent with repeated items.
            bounds.pop("maxItems", None)
        return {**found, _BOUNDS: bounds} if bounds else found

    return made


def _forgetting(make: Any) -> Any:
    return lambda self, schema: _forgotten(make(self, schema))


def _forgotten(schema: Any) -> Any:
    """The schema without its own bounds, and without those of its kinds."""
    if not isinstance(schema, dict):
        return schema
    found = {name: part for name, part in schema.items() if name not in (_BOUNDS, _LITERAL)}
    for kinds in ("anyOf", "oneOf"):
        if kinds in found:
            found[kinds] = [_forgotten(one) for one in found[kinds]]
    return found


def literals_of(schema: Mapping[str, Any]) -> list[Any] | None:
    """The values of a pydantic model's Literal; None for any other schema."""
    found: list[Any] | None = schema.get(_LITERAL)
    return found


def beyond(schema: Mapping[str, Any], value: Any, shown: str, *, is_text: bool) -> str | None:
    """Which bound of the schema a value breaks; None if it breaks none, or if nobody here can tell.

    `is_text` says that a text is stored as it is, and is no other value that was written as text.
    """
    bounds = schema.get(_BOUNDS)
    if not bounds:
        return None
    if isinstance(value, str) and schema.get("type") != "string":
        return _beyond_limits(bounds, _decimal(value), shown)
    if isinstance(value, (int, float)):
        return _beyond_limits(bounds, value, shown)
    if isinstance(value, str) and not is_text:
        return None
    return _wrong_count(bounds, value, shown) or (_wrong_pattern(bounds, value) if isinstance(value, str) else None)


def _decimal(text: str) -> Decimal | None:
    try:
        return Decimal(text)
    except ArithmeticError:
        return None


def _beyond_limits(bounds: Mapping[str, Any], value: Any, shown: str) -> str | None:
    if value is None or value != value:
        return None
    for word, (is_beyond, limit) in _LIMITS.items():
        bound = bounds.get(word)
        if _is_number(bound) and is_beyond(value, bound):
            return f"expected {limit} {bound}, not {shown}"
    unit = bounds.get("multipleOf")
    if _is_number(unit) and unit and not _is_multiple(value, unit):
        return f"expected a multiple of {unit}, not {shown}"
    return None


def _is_number(bound: Any) -> TypeGuard[float]:
    return isinstance(bound, (int, float)) and not isinstance(bound, bool)


def _is_multiple(value: Any, unit: Any) -> bool:
    if isinstance(value, int) and isinstance(unit, int):
        return not value % unit
    try:
        # As pydantic has it: 0.3 is a multiple of 0.1, although floats have a remainder.
        rest, slack = abs(float(value)) % abs(unit), abs(float(value)) / 1e9
    except (OverflowError, ArithmeticError):
        return True
    return not (rest > slack and abs(unit) - rest > slack)


def _wrong_count(bounds: Mapping[str, Any], value: Any, shown: str) -> str | None:
    word, what = _COUNTS.get(type(value), ("", ""))
    least, most = bounds.get(f"min{word}"), bounds.get(f"max{word}")
    if not word:
        return None
    if _is_number(least) and len(value) < least:
        return f"expected at least {least} {what}, not {len(value)}: {shown}"
    if _is_number(most) and len(value) > most:
        return f"expected at most {most} {what}, not {len(value)}: {shown}"
    return None


def _wrong_pattern(bounds: Mapping[str, Any], text: str) -> str | None:
    pattern = bounds.get("pattern")
    matches = _matcher(pattern) if isinstance(pattern, str) else None
    # The text is not shown again: patterns are for what people type, such as passwords.
    return None if matches is None or matches(text) else f"expected text that matches {pattern!r}"


@functools.lru_cache(maxsize=256)
def _matcher(pattern: str) -> Callable[[str], bool] | None:
    """Whether a text matches, as pydantic itself tells; None without pydantic, or if it can't read the pattern.

    Python's `re` reads some patterns otherwise, and a text made for it can keep it busy for hours. Pydantic's engine
    takes time in proportion to the text.
    """
    pydantic = find_extra("pydantic_core")
    if pydantic is None:
        return None
    try:
        schema = pydantic.core_schema.str_schema(pattern=pattern)
        matches: Callable[[str], bool] = pydantic.SchemaValidator(schema).isinstance_python
    except pydantic.SchemaError:
        return None
    return matches

"""Values without an annotation, written so that they keep their types.

JSON's own values (null, booleans, numbers, strings, lists, dicts with string keys) are written as they are. Any other
is put into an envelope: an object with one key that begins with a tilde, `{"~tuple": [1, 2]}`. A dict that looks like
an envelope is put into one itself, so no value can be mistaken for another.

Instances of user classes other than enums are refused: without an annotation, replay can't know which class to rebuild.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterable
from enum import Enum, Flag
from typing import Any

from holdfast.codec.advice import in_place_of
from holdfast.codec.loaded import MAINS, find_class, main_name
from holdfast.codec.printable import shown
from holdfast.codec.shapes import (
    ANY_KIND,
    AWAIT,
    Lacking,
    Misfit,
    Mismatch,
    Secret,
    Shape,
    Unstorable,
    encode_json,
    envelope,
    type_name,
)
from holdfast.codec.texts import TEXTS, TEXTS_BY_TAG, UNREADABLE, is_drivers_uuid


class Bare(Shape):
    """The shape of `Any`, of `object`, and of everything that has no annotation."""

    __slots__ = ()

    def __init__(self) -> None:
        self.name = "any plain value"
        self.kinds = ANY_KIND

    def lower(self, value: Any) -> Any:
        return lower(value)

    def load(self, plain: Any) -> Any:
        return load(plain)


def lower(value: Any) -> Any:
    cls = type(value)
    if cls is str or cls is int or value is None or cls is bool:
        return value
    writer = _LOWER.get(cls)
    if writer is not None:
        return writer(value)
    text = TEXTS.get(cls)
    if text is not None:
        return {"~" + text.tag: text.write(value)}
    if isinstance(value, Enum):
        return {"~enum": _enum_name(value)}
    if is_drivers_uuid(cls):
        return {"~uuid": str(value)}
    raise _refusal(value)


def load(plain: Any) -> Any:
    # Never changes `plain`: a union may try several members on the same data.
    cls = type(plain)
    if cls is list:
        return _load_items(plain)
    if cls is not dict:
        return plain
    tag = envelope(plain)
    if tag is None:
        return _load_object(plain)
    made = _COLLECTIONS.get(tag)
    if made is None:
        return _open(plain)
    # Not in a function of its own: reading must not need more stack than writing did, or deep values can't be read.
    try:
        return made(_load_items(plain[tag]))
    except TypeError as error:
        raise Mismatch(f"{tag[1:]} can't be read: {error}") from error


def _load_object(plain: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    key = ""
    try:
        for key, item in plain.items():
            out[key] = load(item) if type(item) is dict or type(item) is list else item
    except Misfit as misfit:
        raise misfit.under(f"[{key!r}]") from None
    return out


def _load_items(plain: list[Any]) -> list[Any]:
    out: list[Any] = []
    try:
        for item in plain:
            out.append(load(item) if type(item) is dict or type(item) is list else item)
    except Misfit as misfit:
        raise misfit.under(f"[{len(out)}]") from None
    return out


def sort_plain(items: list[Any]) -> list[Any]:
    """Sort the lowered elements of a set by their JSON, so that the order never depends on hashes."""
    try:
        return sorted(items, key=encode_json)
    except UnicodeEncodeError:
        raise Unstorable(f"an element of a set is {SURROGATE}") from None
    except (ValueError, OverflowError):
        raise Unstorable(f"an element of a set is {HUGE}") from None


HUGE = "int of too many digits: store it as bytes"
SURROGATE = "str with a lone surrogate, which is no text: encode it to bytes, or repair it"


def special_float(value: float) -> Any:
    """JSON has no NaN and no infinity; msgspec would write null."""
    return {"~float": str(value)}


def _lower_float(value: float) -> Any:
    return value if math.isfinite(value) else special_float(value)


def _lower_items(value: Iterable[Any]) -> list[Any]:
    out: list[Any] = []
    try:
        for item in value:
            out.append(lower(item))
    except Misfit as misfit:
        raise misfit.under(f"[{len(out)}]") from None
    return out


def _lower_dict(value: dict[Any, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    key: Any = None
    try:
        for key, item in value.items():
            if type(key) is not str:
                break
            out[key] = lower(item)
        else:
            # A dict that looks like an envelope is escaped, or it would be read as one.
            return out if envelope(out) is None else {"~dict": [[key, out[key]] for key in out]}
    except Misfit as misfit:
        raise misfit.under(f"[{key!r}]") from None
    return {"~dict": _lower_pairs(value)}


def _lower_pairs(value: dict[Any, Any]) -> list[Any]:
    pairs: list[Any] = []
    for key, item in value.items():
        try:
            plain_key = lower(key)
        except Misfit as misfit:
            raise misfit.under(f".key[{len(pairs)}]") from None
        try:
            pairs.append([plain_key, lower(item)])
        except Misfit as misfit:
            raise misfit.under(f"[{shown(key)}]") from None
    return pairs


def _enum_name(value: Enum) -> list[Any]:
    cls = type(value)
    if find_class(cls.__module__, cls.__qualname__) is not cls:
        raise Unstorable(
            f"{type_name(cls)} can't be found again by its name: annotate it, or define it at module level"
        )
    module = (main_name() or "__main__") if cls.__module__ in MAINS else cls.__module__
    # By value for flags: a combination of them may have no name.
    return [f"{module}:{cls.__qualname__}", value.value if isinstance(value, Flag) else value.name]


def _load_enum(content: Any) -> Enum:
    name, member = content
    module, _, qualname = name.partition(":")
    cls = find_class(module, qualname)
    if cls is None or not issubclass(cls, Enum):
        raise Lacking(f"the enum {name} is in no loaded module: import it where the worker starts")
    try:
        return cls(member) if issubclass(cls, Flag) else cls[member]
    except (KeyError, ValueError):
        raise Lacking(f"the enum {name} has no member {member!r}: the value is of newer or older code") from None


def _load_dict(content: Any) -> dict[Any, Any]:
    out = {}
    for key, item in content:
        out[_hashable(load(key))] = load(item)
    return out


def _hashable(key: Any) -> Any:
    """The key with lists turned into tuples: written by an annotation and read without it, a tuple is a list."""
    return tuple(map(_hashable, key)) if type(key) is list else key


_LOWER: dict[type, Callable[[Any], Any]] = {
    float: _lower_float,
    list: _lower_items,
    dict: _lower_dict,
    tuple: lambda value: {"~tuple": _lower_items(value)},
    set: lambda value: {"~set": sort_plain(_lower_items(value))},
    frozenset: lambda value: {"~frozenset": sort_plain(_lower_items(value))},
}

_COLLECTIONS: dict[str, type] = {"~tuple": tuple, "~set": set, "~frozenset": frozenset}

_ANNOTATED = {deque, OrderedDict, Counter}
_MARKS = (
    "__dataclass_fields__",
    "__attrs_attrs__",
    "__struct_fields__",
    "model_fields",
    "__get_pydantic_core_schema__",
)

_OPEN: dict[str, Callable[[Any], Any]] = {
    "~float": float,
    "~dict": _load_dict,
    "~enum": _load_enum,
}


def is_ours(tag: str) -> bool:
    """Whether the codec writes this tag for values other than dicts."""
    return tag[:2] == "~:" or tag in _COLLECTIONS or tag[1:] in TEXTS_BY_TAG or (tag in _OPEN and tag != "~dict")


def load_sent(shape: Shape, plain: Any) -> Any:
    """Load data that was encoded without the shape's annotation. Raises Misfit.

    Data that does not fit as it is may fit as JSON, by which it was checked when it was sent: a tuple for a list, or a
    UUID for text.
    """
    try:
        return shape.load(plain)
    except Misfit:
        with contextlib.suppress(Misfit):
            return shape.load(_as_json(plain))
        raise


def _as_json(plain: Any) -> Any:
    """The same data without envelopes around what JSON has a form for: arrays for tuples and sets, text for dates."""
    if type(plain) is list:
        return [_as_json(item) for item in plain]
    if type(plain) is not dict:
        return plain
    tag = envelope(plain)
    if tag is None:
        return {key: _as_json(item) for key, item in plain.items()}
    if tag in _COLLECTIONS:
        return _as_json(plain[tag])
    if tag == "~dict":
        return {tag: _as_json(plain[tag])}
    return plain[tag] if tag[1:] in TEXTS_BY_TAG else plain


def _open(plain: dict[str, Any]) -> Any:
    ((tag, content),) = plain.items()
    reader = _OPEN.get(tag)
    if reader is None:
        text = TEXTS_BY_TAG.get(tag[1:])
        if text is None:
            # The value had an annotation when it was written and has none now.
            raise Mismatch(f"{tag[1:].lstrip(':')} was written by an annotation that is gone: annotate it again")
        reader = text.read
    try:
        return reader(content)
    except UNREADABLE as error:
        raise Mismatch(f"{tag[1:]} can't be read: {error}") from error


def is_secret(cls: type) -> bool:
    pydantic = sys.modules.get("pydantic")
    if pydantic is None:
        return False
    classes = tuple(getattr(pydantic, name, type(None)) for name in ("SecretStr", "SecretBytes", "Secret"))
    return issubclass(cls, classes) and cls is not type(None)


def _refusal(value: Any) -> Misfit:
    cls = type(value)
    name = type_name(cls)
    if is_secret(cls):
        return Secret(f"{name} is a secret: annotate it and give the codec a chain that encrypts")
    if isinstance(value, Awaitable):
        return Unstorable(f"{name} can't be stored: {AWAIT}")
    for base in (dict, list, tuple, set, frozenset, str, int, float, bytes):
        if isinstance(value, base):
            advice = "annotate it, or convert" if _may_be_annotated(cls) else "convert"
            return Unstorable(f"{name} would come back as {base.__name__}: {advice} it to {base.__name__}")
    better = None if _may_be_annotated(cls) else in_place_of(cls)
    if better is not None:
        return Unstorable(f"{name} can't be stored: {better}")
    if cls.__module__ == "builtins" or cls.__module__ in sys.builtin_module_names:
        return Unstorable(
            f"{name} can't be stored: keep what describes it, such as an id or text, and make it anew where it is used"
        )
    if _may_be_annotated(cls):
        return Unstorable(
            f"{name} has no annotation, so nothing says what to rebuild: annotate it with {cls.__qualname__}"
        )
    return Unstorable(
        f"{name} has no annotation, and as it is none would do: keep what describes it, such as an id or text, "
        f"or make it a dataclass, a pydantic model, an attrs class or a msgspec Struct and "
        f"annotate it with {cls.__qualname__}"
    )


def _may_be_annotated(cls: type) -> bool:
    """Whether instances could be stored with an annotation, as far as the class tells."""
    is_named = issubclass(cls, tuple) and hasattr(cls, "_fields")
    return is_named or cls in _ANNOTATED or any(hasattr(cls, mark) for mark in _MARKS)

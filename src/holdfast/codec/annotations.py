"""From an annotation to its shape.

A builder compiles one annotation with all that it contains, and is not used again. It remembers which classes it is
building, so that a type may refer to itself, and whether any part of the annotation can't be proven to round trip.
"""

from __future__ import annotations

import collections
import collections.abc
import contextlib
import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.codec.advice import in_place_of
from holdfast.codec.bare import Bare, is_secret
from holdfast.codec.containers import Dict, Items, Row
from holdfast.codec.fields import MISSING, Field, accepts, describe, is_attrs
from holdfast.codec.hints import (
    Unresolved,
    class_hints,
    is_required,
    is_typed_dict,
    is_unpacked,
    resolve_reference,
    substitute,
)
from holdfast.codec.making import is_ordinary, makes_itself
from holdfast.codec.models import Adapted, Model, has_core_schema, is_model
from holdfast.codec.records import Keyed, NamedRow, Record
from holdfast.codec.scalars import PLAIN, Hidden, Member, OneValue, Written
from holdfast.codec.shapes import Deferred, Lacking, Mismatch, Opaque, Shape, type_name
from holdfast.codec.showing import Shown, ShownShape
from holdfast.codec.texts import CONCRETE, TEXTS
from holdfast.codec.unions import Union

_BARE = {Any, object, inspect.Parameter.empty, typing.NoReturn, typing.Never, collections.abc.Hashable}
_WRAPPERS = (typing.Required, typing.NotRequired, typing.Final, typing.ClassVar)
_TUPLES = (tuple, typing.Tuple)  # noqa: UP006  # both may be written
_LISTS = {list, collections.deque, set, frozenset}
_DICTS = {
    dict: dict,
    collections.OrderedDict: collections.OrderedDict,
    collections.abc.Mapping: dict,
    collections.abc.MutableMapping: dict,
}
_ABSTRACT: dict[object, tuple[type, ...]] = {
    collections.abc.Sequence: (list, tuple),
    collections.abc.MutableSequence: (list,),
    collections.abc.Collection: (list, tuple, set, frozenset),
    collections.abc.Iterable: (list, tuple, set, frozenset),
    collections.abc.Set: (set, frozenset),
    collections.abc.MutableSet: (set,),
}


class Builder:
    """Compiles one annotation."""

    def __init__(self, is_encrypted: bool, pickles: bool = False) -> None:
        self.is_unproven = False
        self._unread: type[Mismatch] = Mismatch if pickles else Lacking
        """What says that a value is not read by an annotation by which only pickles are stored."""
        self._is_encrypted = is_encrypted
        self._open: dict[Any, Shape] = {}
        self._innermost: Shape | None = None
        """The shape of the class whose fields are being built: the meaning of Self in them."""
        self.records: list[list[Field]] = []
        """The fields of each record type that was built."""

    def build(self, annotation: Any, module: str | None = None) -> Shape:
        """`module` is where names in a forward reference are looked up."""
        if isinstance(annotation, Unresolved):
            return Opaque("an unknown type", annotation.reason)
        if isinstance(annotation, typing.ForwardRef | str):
            return self._reference(annotation, module)
        try:
            if annotation in PLAIN:
                return PLAIN[annotation]
            if annotation in _BARE:
                return Bare()
            if annotation is Shown:
                return ShownShape()
        except TypeError:  # unhashable, so it is none of these
            pass
        origin = typing.get_origin(annotation)
        if origin is not None:
            return self._generic(annotation, origin, typing.get_args(annotation), module)
        if isinstance(annotation, type):
            return self._class(annotation, ())
        return self._special(annotation, module)

    def _special(self, annotation: Any, module: str | None) -> Shape:
        if annotation is typing.Self and self._innermost is not None:
            return self._innermost
        if isinstance(annotation, typing.NewType):
            return self.build(annotation.__supertype__, annotation.__module__)
        if isinstance(annotation, typing.TypeVar):
            if annotation.__constraints__:
                return self._union(annotation.__constraints__, module)
            return Bare() if annotation.__bound__ is None else self.build(annotation.__bound__, annotation.__module__)
        if hasattr(annotation, "__value__"):  # `type Name = ...` of Python 3.12
            return self._alias(annotation, annotation, ())
        if annotation is typing.LiteralString:
            return PLAIN[str]
        if isinstance(annotation, dataclasses.InitVar):
            return self.build(annotation.type, module)
        return self._unknown(annotation)

    def _alias(self, alias: Any, key: Any, arguments: tuple[Any, ...]) -> Shape:
        if key in self._open:
            return self._open[key]
        held = self._open[key] = Deferred(str(alias))
        known = dict(zip(alias.__type_params__, arguments, strict=False))
        held.target = self.build(substitute(alias.__value__, known), alias.__module__)
        return held.target

    def _reference(self, reference: typing.ForwardRef | str, module: str | None) -> Shape:
        text = reference if isinstance(reference, str) else reference.__forward_arg__
        module = getattr(reference, "__forward_module__", None) or module
        key = (text, module)
        if key in self._open:
            return self._open[key]
        held = self._open[key] = Deferred(text)
        held.target = self.build(resolve_reference(text, module), module)
        return held.target

    def _generic(self, annotation: Any, origin: Any, arguments: tuple[Any, ...], module: str | None) -> Shape:
        if origin is typing.Annotated:
            shape = self.build(arguments[0], module)
            if isinstance(shape, Opaque) and has_core_schema_in(annotation):
                return self._adapted(annotation)
            return shape
        if origin is typing.Union or origin is types.UnionType:
            return self._union(arguments, module)
        if origin is typing.Literal:
            return OneValue(arguments)
        if origin in _WRAPPERS or str(origin).endswith("ReadOnly"):
            return self.build(arguments[0], module)
        if hasattr(origin, "__value__"):
            return self._alias(origin, annotation, arguments)
        if isinstance(origin, typing.ParamSpec):  # `*args: P.args`
            return Bare()
        if not isinstance(origin, type):
            return self._unknown(annotation)
        return self._collection(annotation, origin, arguments, module) or self._class(origin, arguments, annotation)

    def _collection(self, annotation: Any, origin: Any, arguments: tuple[Any, ...], module: str | None) -> Shape | None:
        name = _text(annotation)
        if origin in _LISTS:
            return Items(origin, self._argument(arguments, 0, module), name)
        if origin is tuple:
            if any(map(is_unpacked, arguments)):
                return Opaque(
                    name, "a tuple with an unpacked part is not supported: annotate tuple[X, ...]", self._unread
                )
            if annotation in _TUPLES or (len(arguments) == 2 and arguments[1] is Ellipsis):
                return Items(tuple, self._argument(arguments, 0, module), name)
            return Row([self.build(argument, module) for argument in arguments], name)
        if origin in _DICTS:
            key, value = self._argument(arguments, 0, module), self._argument(arguments, 1, module)
            return Dict(_DICTS[origin], key, value, name)
        if origin is collections.Counter:
            return Dict(origin, self._argument(arguments, 0, module), PLAIN[int], name)
        if origin in _ABSTRACT:
            item = self._argument(arguments, 0, module)
            shapes: list[Shape] = [Items(cls, item, name) for cls in _ABSTRACT[origin]]
            return Union(shapes, [cls.__name__ for cls in _ABSTRACT[origin]], natural=shapes[0])
        return None

    def _argument(self, arguments: tuple[Any, ...], index: int, module: str | None) -> Shape:
        return self.build(arguments[index], module) if index < len(arguments) else Bare()

    def _union(self, arguments: tuple[Any, ...], module: str | None) -> Shape:
        members = [self.build(argument, module) for argument in arguments]
        if all(isinstance(member, Bare) or member is PLAIN[None] for member in members):
            return Bare()
        names = [member.name for member in members]
        if len(set(names)) < len(names):
            names = [type_name(argument) if isinstance(argument, type) else _text(argument) for argument in arguments]
        return Union(members, names)

    def _class(self, cls: type, arguments: tuple[Any, ...], annotation: Any = None) -> Shape:
        key = annotation or cls
        if key in self._open:
            return self._open[key]
        cls = CONCRETE.get(cls, cls)
        if cls in TEXTS:
            return Written(TEXTS[cls])
        found = self._collection(cls, cls, (), None)
        if found is not None:
            return found
        if issubclass(cls, enum.Enum):
            return Member(cls)
        if is_secret(cls):
            return self._secret(cls, arguments)
        if is_model(cls):
            return self._model(cls)
        name = _text(annotation) if annotation is not None else cls.__name__
        if is_typed_dict(cls):
            return self._typed_dict(cls, key, name, arguments)
        if issubclass(cls, tuple) and hasattr(cls, "_fields"):
            return self._named_tuple(cls, key, name, arguments)
        if dataclasses.is_dataclass(cls) or is_attrs(cls) or issubclass(cls, msgspec.Struct):
            return self._record(cls, key, name, arguments)
        if has_core_schema(cls):
            return self._adapted(annotation or cls)
        return self._unknown(cls)

    @contextlib.contextmanager
    def _inside(self, shape: Shape, key: Any) -> Iterator[None]:
        """Make the type known to its own fields while they are built."""
        self._open[key] = shape
        outer, self._innermost = self._innermost, shape
        yield
        self._innermost = outer

    def _record(self, cls: type, key: Any, name: str, arguments: tuple[Any, ...]) -> Shape:
        described = describe(cls)
        init = [argument for _, _, argument, _, _ in described if argument is not None]
        takes_fields = accepts(cls, init)
        is_plain = takes_fields and is_ordinary(cls, [name for name, *_ in described])
        self.is_unproven |= not is_plain
        hidden = [name for name, field in getattr(cls, "__pydantic_fields__", {}).items() if field.exclude]
        record = Record(
            cls,
            name,
            is_restored=not is_plain,
            rebuilds_others=takes_fields and makes_itself(cls),
            make=cls if takes_fields else None,
            hides=hidden[0] if hidden and not self._is_encrypted else "",
        )
        hints = class_hints(cls, arguments)
        with self._inside(record, key):
            fields = [
                Field(name, wire, argument, self.build(hints.get(name, Any), cls.__module__), default, factory)
                for name, wire, argument, default, factory in described
            ]
        record.set_fields(fields)
        self.records.append(fields)
        return record

    def _named_tuple(self, cls: Any, key: Any, name: str, arguments: tuple[Any, ...]) -> Shape:
        row = NamedRow(cls, name)
        hints = class_hints(cls, arguments)
        defaults = cls._field_defaults
        with self._inside(row, key):
            fields = [
                Field(name, name, name, self.build(hints.get(name, Any), cls.__module__), defaults.get(name, MISSING))
                for name in cls._fields
            ]
        row.set_fields(fields)
        self.records.append(fields)
        return row

    def _typed_dict(self, cls: Any, key: Any, name: str, arguments: tuple[Any, ...]) -> Shape:
        hints = class_hints(cls, arguments)
        required = {field for field, hint in hints.items() if is_required(hint, field in cls.__required_keys__)}
        keyed = Keyed(name, required)
        with self._inside(keyed, key):
            fields = [Field(field, field, field, self.build(hint, cls.__module__)) for field, hint in hints.items()]
        keyed.set_fields(fields)
        return keyed

    def _model(self, cls: Any) -> Shape:
        self.is_unproven = True
        if not cls.__pydantic_complete__:
            cls.model_rebuild(raise_errors=False)
        model = Model(cls, self._is_encrypted)
        fields = []
        with self._inside(model, cls):
            for name, info in cls.model_fields.items():
                shape = self.build(info.annotation, cls.__module__)
                if isinstance(shape, Opaque) and info.metadata:
                    shape = self._adapted(typing.Annotated[(info.annotation, *info.metadata)])
                default = MISSING if info.is_required() or info.default_factory is not None else info.default
                fields.append(Field(name, name, name, shape, default, info.default_factory or MISSING))
        model.set_fields(fields)
        self.records.append(fields)
        return model

    def _secret(self, cls: Any, arguments: tuple[Any, ...]) -> Shape:
        if arguments:
            inner = self.build(arguments[0])
        else:
            inner = self.build(bytes if "Bytes" in cls.__name__ else getattr(cls, "_inner_type", str))
        return Hidden(cls, inner, self._is_encrypted)

    def _adapted(self, annotation: Any) -> Shape:
        self.is_unproven = True
        try:
            return Adapted(annotation, _text(annotation))
        except Exception as error:
            return Opaque(_text(annotation), f"pydantic can't build a schema for it: {error}", self._unread)

    def _unknown(self, annotation: Any) -> Shape:
        name = _text(annotation)
        advice = in_place_of(typing.get_origin(annotation) or annotation) or (
            "keep what describes it, such as an id, text or numbers, or make it a dataclass, a pydantic model, an "
            "attrs class, a msgspec Struct or a TypedDict"
        )
        return Opaque(name, f"values annotated {name} can't be stored: {advice}", self._unread)


def has_core_schema_in(annotation: Any) -> bool:
    return any(has_core_schema(item) for item in getattr(annotation, "__metadata__", ()))


def _text(annotation: Any) -> str:
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return annotation.__name__
    return str(annotation).replace("typing.", "")

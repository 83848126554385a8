"""The arguments of one call, by the function's parameters ⇄ plain bytes.

A call is written as a JSON array of its positional arguments. An argument given by name is moved to its position if no
argument before it is missing, so that `f(1, b=2)` and `f(1, 2)` have the same bytes and the same digest. A call with
further named arguments is written as an object: `{"": [positional, ...], "name": value}`.

Defaults are not filled in: a new parameter with a default changes neither the bytes nor the digest of earlier calls.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import msgspec

from holdfast.codec.annotations import Builder
from holdfast.codec.bare import load_sent
from holdfast.codec.earlier import earlier
from holdfast.codec.hints import (
    Unresolved,
    class_hints,
    function_hints,
    is_required,
    is_typed_dict,
    is_unpack,
    is_unpacked,
)
from holdfast.codec.pickles import pickled, unpickled
from holdfast.codec.scalars import PLAIN, Plain
from holdfast.codec.seals import PICKLED, Seal
from holdfast.codec.shapes import Misfit, Mismatch, Shape, Unstorable, decode_json, encode_json
from holdfast.codec.unions import Union
from holdfast.codec.values import TOO_DEEP, changed, json_bytes, parsed, unreadable
from holdfast.errors import BadArguments, IOInBody, NotDecodable, NotEncodable
from holdfast.model import counted

_Kind = inspect._ParameterKind


class _Parameters:
    """A signature, compiled."""

    def __init__(self, fn: Callable[..., Any], skip: int, is_encrypted: bool) -> None:
        builder = Builder(is_encrypted)
        self.positional: list[tuple[str, Shape]] = []
        self.by_name: dict[str, Shape] = {}
        self.is_positional_only: set[str] = set()
        self.required: list[str] = []
        self.rest: Shape | None = None
        self.named_rest: Shape | None = None
        self.is_complete = True
        self.records = builder.records
        hints = function_hints(fn)
        for parameter in _parameters(fn)[skip:]:
            hint = hints.get(parameter.name, parameter.empty)
            self.is_complete &= not isinstance(hint, Unresolved)
            if is_unpacked(hint):
                self._add_unpacked(parameter, hint, builder)
            else:
                self._add(parameter, builder.build(hint, getattr(fn, "__module__", None)))
        self.is_unproven = builder.is_unproven

    def _add_unpacked(self, parameter: inspect.Parameter, hint: Any, builder: Builder) -> None:
        """Add the keys of the TypedDict for `**kwargs: Unpack[Options]`; the types of `*args: *Ts` stay unknown."""
        content: Any = typing.get_args(hint)[0] if is_unpack(hint) else None
        if not is_typed_dict(content):
            return self._add(parameter, builder.build(parameter.empty))
        for name, inner in class_hints(content).items():
            self.by_name[name] = builder.build(inner, content.__module__)
            if is_required(inner, name in content.__required_keys__):
                self.required.append(name)

    def _add(self, parameter: inspect.Parameter, shape: Shape) -> None:
        if parameter.kind is _Kind.VAR_POSITIONAL:
            self.rest = shape
            return
        if parameter.kind is _Kind.VAR_KEYWORD:
            self.named_rest = shape
            return
        if parameter.default is None and "null" not in shape.kinds:
            shape = Union([shape, PLAIN[None]], [shape.name, "None"])
        if parameter.default is parameter.empty:
            self.required.append(parameter.name)
        if parameter.kind is _Kind.KEYWORD_ONLY:
            self.by_name[parameter.name] = shape
            return
        self.positional.append((parameter.name, shape))
        if parameter.kind is _Kind.POSITIONAL_ONLY:
            self.is_positional_only.add(parameter.name)
        else:
            self.by_name[parameter.name] = shape

    def scalars(self) -> tuple[type, ...] | None:
        """The types of all parameters if each is a plain scalar that can be given by position, else None."""
        names = {name for name, _ in self.positional}
        shapes = [shape for _, shape in self.positional]
        if not set(self.required) <= names or not all(isinstance(shape, Plain) for shape in shapes):
            return None
        return tuple(shape.type for shape in shapes if isinstance(shape, Plain))

    def place(self, index: int) -> tuple[str, Shape] | None:
        if index < len(self.positional):
            return self.positional[index]
        return None if self.rest is None else (f"*[{index - len(self.positional)}]", self.rest)


class ArgumentsCodec:
    """Packs and unpacks the arguments of one function. Made by `Codec.arguments`.

    Works on plain bytes: callers make digests of them, and seal them separately.
    """

    __slots__ = ("_fn", "_known", "_name", "_pickles", "_read", "_seal", "_skip", "_types")

    def __init__(self, seal: Seal, pickles: bool, fn: Callable[..., Any], skip: int) -> None:
        self._seal = seal
        self._pickles = pickles
        self._fn: Callable[..., Any] | None = fn
        self._skip = skip
        self._name = f"{getattr(fn, '__qualname__', type(fn).__qualname__)}()".replace("<locals>.", "")
        self._known: _Parameters | None = None
        self._types: tuple[type, ...] | None = None
        self._read: Callable[[bytes], tuple[Any, ...]] | None = None

    def pack(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        """The call as bytes, the same for every way to write the call.

        Raises BadArguments if the signature or the annotations don't allow the call, NotEncodable if a value can't be
        stored, and PayloadTooLarge.
        """
        if not kwargs and tuple(map(type, args)) == self._types:
            try:
                plain = encode_json(args)
            except (ValueError, OverflowError):
                plain = self._pack(args, kwargs)
        else:
            plain = self._pack(args, kwargs)
        if len(plain) > self._seal.limit:
            self._seal.check_size(plain, f"the arguments of {self._name}")
        return plain

    def unpack(self, plain: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Fresh copies of the arguments. Raises NotDecodable."""
        if self._read is not None:
            try:
                return self._read(plain), {}
            except msgspec.DecodeError:
                pass
        return self._unpack(plain)

    def earlier(self, plain: bytes) -> Iterator[bytes]:
        """Other bytes of the same call: as packed before types in it got fields with defaults."""
        return earlier(plain, self._resolve().records)

    def check(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        """Pack, and prove that the bytes unpack to the same, so that no worker meets arguments that it can't read."""
        plain = self.pack(args, kwargs)
        try:
            args, kwargs = self.unpack(plain)
        except NotDecodable as error:
            raise BadArguments(str(error)) from error.__cause__
        if plain[:1] != PICKLED and self._resolve().is_unproven:
            again = self.pack(args, kwargs)
            if again != plain and self.unpack(again) != (args, kwargs):
                raise NotEncodable(f"the arguments of {self._name}{changed(decode_json(plain), decode_json(again))}")
        return plain

    def _pack(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        known = self._resolve()
        given, named = self._bind(known, args, kwargs)
        try:
            positional = [self._lower(*_placed(known, index), value) for index, value in enumerate(given)]
            rest = {name: self._lower(name, _named(known, name), value) for name, value in named.items()}
        except Unstorable as misfit:
            if self._pickles:
                return pickled((tuple(given), named), f"the arguments of {self._name}", self._seal.encrypts)
            raise NotEncodable(f"{misfit.path}: {misfit.why} (argument of {self._name})") from None
        content: Any = positional
        if rest:
            content = {"": positional, **rest} if positional else rest
        return json_bytes(content, "arguments", f" (calling {self._name})")

    def _lower(self, name: str, shape: Shape, value: Any) -> Any:
        try:
            return shape.lower(value)
        except Mismatch as misfit:
            raise BadArguments(f"{self._name}: argument {name}{misfit.path}: {misfit.why}") from misfit.__cause__
        except Unstorable as misfit:
            raise misfit.under(name) from None
        except Misfit as misfit:
            raise NotEncodable(f"{name}{misfit.path}: {misfit.why} (argument of {self._name})") from None
        except RecursionError:
            raise NotEncodable(f"{name}: {TOO_DEEP} (argument of {self._name})") from None
        except IOInBody:  # a lazy attribute did I/O in a body: the run is blocked, and the code has to change
            raise
        except Exception as error:
            raise unreadable(name, error, f" (argument of {self._name})", deed="give") from error

    def _bind(
        self, known: _Parameters, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """The call's canonical form: positional arguments, then named ones, both in the signature's order."""
        if len(args) > len(known.positional) and known.rest is None:
            raise BadArguments(
                f"{self._name} takes {counted(len(known.positional), 'positional argument')} "
                f"({', '.join(name for name, _ in known.positional) or 'none'}), {len(args)} were given"
            )
        given = list(args)
        left = dict(kwargs)
        for name, _ in known.positional[: len(args)]:
            if name in left and name not in known.is_positional_only:
                raise BadArguments(f"{self._name}: argument {name} was given twice, by position and by name")
        for name, _ in known.positional[len(args) :]:
            if name not in left or name in known.is_positional_only:
                break
            given.append(left.pop(name))
        named = {name: left.pop(name) for name in known.by_name if name in left}
        for name in left:
            if known.named_rest is None or not name:  # the empty name is the key of the positional arguments
                names = ", ".join(known.by_name) or "none"
                raise BadArguments(f"{self._name} has no parameter {name!r}: its names are {names}")
        taken = {name for name, _ in known.positional[: len(given)]} | named.keys()
        missing = [name for name in known.required if name not in taken]
        if missing:
            raise BadArguments(f"{self._name} needs {', '.join(missing)}, which the call doesn't give")
        return given, {**named, **left}

    def _unpack(self, plain: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        what = f"the arguments of {self._name}"
        if plain[:1] == PICKLED:
            args, kwargs = unpickled(plain, what, self._pickles)
            return args, kwargs
        known = self._resolve()
        positional, named = plain_call(plain, what)
        args = tuple(self._load(known, index, item) for index, item in enumerate(positional))
        kwargs = {name: self._load(known, name, item) for name, item in named.items()}
        taken = {name for name, _ in known.positional[: len(args)]} | kwargs.keys()
        for name in known.required:
            if name not in taken:
                raise NotDecodable(f"{self._name} needs {name}, which was not stored: give it a default")
        return args, kwargs

    def _load(self, known: _Parameters, at: int | str, item: Any) -> Any:
        place = known.place(at) if isinstance(at, int) else (at, known.by_name.get(at, known.named_rest))
        if place is None or place[1] is None:
            self._refuse_unknown(at)
        name, shape = place
        assert shape is not None
        try:
            # A start by name has encoded it without the annotation.
            return load_sent(shape, item)
        except Misfit as misfit:
            raise NotDecodable(f"{self._name}: argument {name}{misfit.path}: {misfit.why}") from misfit.__cause__
        except RecursionError:
            raise NotDecodable(f"{self._name}: argument {name}: {TOO_DEEP}") from None

    def _refuse_unknown(self, at: int | str) -> NoReturn:
        which = f"argument number {at + 1}" if isinstance(at, int) else f"the argument {at!r}"
        raise NotDecodable(
            f"{self._name} has no place for {which}, which is stored: keep the parameter while runs need it"
        )

    def _resolve(self) -> _Parameters:
        if self._known is not None:
            return self._known
        fn = self._fn
        if fn is None:  # another thread has just resolved it
            assert self._known is not None
            return self._known
        known = _Parameters(fn, self._skip, self._seal.encrypts)
        if not known.is_complete:
            return known  # a name may exist by the next use
        types = known.scalars()
        if types is not None:
            self._read = msgspec.json.Decoder(tuple[types]).decode  # type: ignore[valid-type]
            self._types = types
        self._known = known
        self._fn = None
        return known


def plain_call(plain: bytes, what: str = "the arguments") -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call as plain data: positional ones, named ones. Raises NotDecodable."""
    if plain[:1] == PICKLED:
        raise NotDecodable(f"{what}: stored as a pickle, which is no plain data")
    content = parsed(plain, what)
    if type(content) is list:
        return content, {}
    positional = content.pop("", []) if type(content) is dict else None
    if type(positional) is not list:
        raise NotDecodable(f"{what}: expected an array or an object")
    return positional, content


def _placed(known: _Parameters, index: int) -> tuple[str, Shape]:
    place = known.place(index)
    assert place is not None
    return place


def _named(known: _Parameters, name: str) -> Shape:
    shape = known.by_name.get(name, known.named_rest)
    assert shape is not None
    return shape


def _parameters(fn: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):  # some callables written in C have no signature
        return [
            inspect.Parameter("args", _Kind.VAR_POSITIONAL),
            inspect.Parameter("kwargs", _Kind.VAR_KEYWORD),
        ]

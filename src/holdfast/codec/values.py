"""One value by one annotation ⇄ stored bytes.

How is a value proven to come back unchanged? Shapes check types exactly while they write. For a value that is rebuilt
without user code this is proof enough: a scalar costs one type check, and nothing is decoded twice. Where user code
runs on reading (a `__post_init__`, a validator, a pydantic model), `encode` reads its own bytes once before it returns
them, and writes what it has read. So a value that can't be read back, or comes back as another, fails where it was
made, and never on a replay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.codec.annotations import Builder
from holdfast.codec.bare import HUGE, SURROGATE, load_sent
from holdfast.codec.exceptions import message_of
from holdfast.codec.hints import Unresolved
from holdfast.codec.pickles import pickled, unpickled
from holdfast.codec.scalars import Plain
from holdfast.codec.seals import PICKLED, Seal
from holdfast.codec.shapes import Lacking, Misfit, Shape, Unstorable, decode_json, encode_json
from holdfast.codec.unions import Union
from holdfast.errors import IOInBody, MissingCode, NotDecodable, NotEncodable

Source = Callable[[], tuple[Any, str | None]]

TOO_DEEP = "nested too deeply, or it contains itself"


class _Nothing:
    """A type without values: no value is encoded directly unless the annotation is a plain scalar."""


class ValueCodec:
    """Encodes and decodes values of one annotation. Made by `Codec.value` and `Codec.result`.

    `encode` raises NotEncodable, which names the culprit's path and type, or PayloadTooLarge. `decode` raises
    NotDecodable.
    """

    __slots__ = (
        "_direct",
        "_is_sealed",
        "_is_unproven",
        "_limit",
        "_pickles",
        "_read",
        "_seal",
        "_shape",
        "_source",
        "_suffix",
        "_what",
    )

    def __init__(self, seal: Seal, pickles: bool, source: Source, what: str, suffix: str = "") -> None:
        """`source` returns the annotation and its module. Errors begin with `what` and end with `suffix`."""
        self._seal = seal
        self._pickles = pickles
        self._what = what
        self._suffix = suffix
        self._limit = seal.limit
        self._is_sealed = not seal.is_empty
        self._source: Source | None = source
        self._shape: Shape | None = None
        self._is_unproven = False
        self._direct: type = _Nothing
        self._read: Callable[[bytes], Any] = self._decode

    def encode(self, value: Any) -> bytes:
        if type(value) is self._direct:
            try:
                plain = encode_json(value)
            except (ValueError, OverflowError):
                plain = self._encode(value)
        else:
            plain = self._encode(value)
        if len(plain) > self._limit:
            self._seal.check_size(plain, self._what + self._suffix)
        return self._seal.close(plain) if self._is_sealed else plain

    def decode(self, stored: bytes) -> Any:
        try:
            return self._read(stored)
        except msgspec.DecodeError:  # sealed, a subtype in an envelope, or invalid
            return self._decode(stored)

    def decode_message(self, stored: bytes) -> Any:
        """Read a payload, which its sender encoded without this annotation. Raises NotDecodable."""
        try:
            return self.decode(stored)
        except NotDecodable:
            return self._decode(stored, is_sent=True)

    def _encode(self, value: Any) -> bytes:
        shape = self._resolve()
        try:
            plain = shape.lower(value)
        except Unstorable as misfit:
            if self._pickles:
                return pickled(value, self._what + self._suffix, self._seal.encrypts)
            raise self._refusal(misfit) from None
        except Misfit as misfit:
            raise self._refusal(misfit) from misfit.__cause__
        except RecursionError:
            raise NotEncodable(f"{self._what}: {TOO_DEEP}{self._suffix}") from None
        except IOInBody:  # a lazy attribute did I/O in a body: the run is blocked, and the code has to change
            raise
        except Exception as error:
            raise self._unreadable(error) from error
        data = json_bytes(plain, self._what, self._suffix)
        if self._is_unproven:
            self._prove(value, data)
        return data

    def _prove(self, value: Any, data: bytes) -> None:
        """Refuse a value that code of its own class does not read back, or reads as another."""
        shape = self._resolve()
        try:
            again = shape.load(decode_json(data))
            written = encode_json(shape.lower(again))
            # A value that only pydantic can write may be written in another order, and be the same.
            is_same = written == data or again == value
        except Misfit as misfit:
            raise NotEncodable(
                f"{self._what}{misfit.path}: could be written but not read back: {misfit.why}{self._suffix}"
            ) from misfit.__cause__
        except Exception as error:
            raise self._unreadable(error) from error
        if not is_same:
            raise NotEncodable(f"{self._what}{changed(decode_json(data), decode_json(written))}{self._suffix}")

    def _decode(self, stored: bytes, *, is_sent: bool = False) -> Any:
        plain = self._seal.open(stored)
        if plain[:1] == PICKLED:
            return unpickled(plain, self._what + self._suffix, self._pickles)
        shape = self._resolve()
        try:
            data = parsed(plain, self._what + self._suffix)
            if not is_sent:
                return shape.load(data)
            if isinstance(shape, Union) and type(data) is not dict and type(data) is not list:
                return shape.load_own(data)
            return load_sent(shape, data)
        except Misfit as misfit:
            error = MissingCode if isinstance(misfit, Lacking) else NotDecodable
            raise error(f"{self._what}{misfit.path}: {misfit.why}{self._suffix}") from misfit.__cause__
        except RecursionError:
            raise NotDecodable(f"{self._what}: {TOO_DEEP}{self._suffix}") from None

    def _refusal(self, misfit: Misfit) -> NotEncodable:
        return NotEncodable(f"{self._what}{misfit.path}: {misfit.why}{self._suffix}")

    def _unreadable(self, error: Exception) -> NotEncodable:
        return unreadable(self._what, error, self._suffix, deed="return" if self._what == "result" else "give")

    def _resolve(self) -> Shape:
        if self._shape is not None:
            return self._shape
        source = self._source
        if source is None:  # another thread has just resolved it
            assert self._shape is not None
            return self._shape
        annotation, module = source()
        builder = Builder(self._seal.encrypts, self._pickles)
        shape = builder.build(annotation, module)
        if isinstance(annotation, Unresolved):
            return shape  # the name may exist by the next use
        self._is_unproven = builder.is_unproven
        if isinstance(shape, Plain):
            self._direct = shape.type
            self._read = msgspec.json.Decoder(shape.type).decode
        self._shape = shape
        self._source = None
        return shape


def unreadable(what: str, cause: BaseException, suffix: str = "", *, deed: str = "return") -> NotEncodable:
    """The error for a value whose own code raises while it is read, such as a property of a detached object."""
    return NotEncodable(
        f"{what} can't be stored: {type(cause).__name__}: {message_of(cause)}; "
        f"{deed} plain data, read while its source is open{suffix}"
    )


def changed(plain: Any, again: Any) -> str:
    """The end of the error for a value that is written as `plain`, and as `again` once it was read."""
    path = _difference(plain, again)
    return (
        f"{path}: code of its class changes it each time it is read: let an __init__, a __post_init__ or a validator "
        "leave what the fields hold as it is, or keep what it makes of them beside them"
    )


def _difference(plain: Any, again: Any) -> str:
    if type(plain) is type(again) is dict and plain.keys() == again.keys():
        return next(
            (f"[{key!r}]{_difference(plain[key], again[key])}" for key in plain if plain[key] != again[key]), ""
        )
    if type(plain) is type(again) is list and len(plain) == len(again):
        pairs = enumerate(zip(plain, again, strict=True))
        return next((f"[{index}]{_difference(one, other)}" for index, (one, other) in pairs if one != other), "")
    return ""


def json_bytes(plain: Any, what: str, suffix: str) -> bytes:
    try:
        return encode_json(plain)
    except UnicodeEncodeError:
        raise NotEncodable(f"{what}{_find(plain, _is_surrogate) or ''}: {SURROGATE}{suffix}") from None
    except (ValueError, OverflowError):
        raise NotEncodable(f"{what}{_find(plain, _is_huge) or ''}: {HUGE}{suffix}") from None
    except RecursionError:
        raise NotEncodable(f"{what}: {TOO_DEEP}{suffix}") from None


def parsed(plain: bytes, what: str) -> Any:
    try:
        return decode_json(plain)
    except ValueError as error:
        raise NotDecodable(f"{what}: the stored bytes are no JSON: {error}") from error


def _is_surrogate(item: object) -> bool:
    return isinstance(item, str) and any("\ud800" <= letter <= "\udfff" for letter in item)


def _is_huge(item: object) -> bool:
    try:
        encode_json(item)
    except (ValueError, OverflowError):
        return isinstance(item, int)
    return False


def _find(plain: Any, is_culprit: Callable[[object], bool]) -> str | None:
    """The path to the first culprit inside plain data, or None."""
    if isinstance(plain, dict):
        for key, item in plain.items():
            if is_culprit(key):
                return f".key({key!r:.60})"
            if (path := _find(item, is_culprit)) is not None:
                return f"[{key!r}]{path}"
    elif isinstance(plain, list):
        for index, item in enumerate(plain):
            if (path := _find(item, is_culprit)) is not None:
                return f"[{index}]{path}"
    elif is_culprit(plain):
        return ""
    return None

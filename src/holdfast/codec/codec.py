"""The codec of a client or worker: its options, and caches of the codecs made for single types and functions."""

from __future__ import annotations

import base64
import copy
import inspect
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, Self
from weakref import WeakKeyDictionary, ref

from holdfast.codec.arguments import ArgumentsCodec, plain_call
from holdfast.codec.exceptions import Relayed, load_exception, lower_exception, shortened, tell_exception
from holdfast.codec.hints import function_hints
from holdfast.codec.pickles import pickled_call
from holdfast.codec.schemas import schema_of
from holdfast.codec.seals import PICKLED, Seal
from holdfast.codec.shapes import decode_json, encode_json
from holdfast.codec.transforms import Transform
from holdfast.codec.values import ValueCodec
from holdfast.errors import NotDecodable, NotEncodable, PayloadTooLarge

_LIMIT = 4 * 1024 * 1024
_SEALED = "sealed:"
"""How a sealed message begins."""


class Codec:
    """Values and exceptions ⇄ stored bytes.

        Client(url, codec=Codec(chain=[Zstd(), AesGcm(keys, primary="2026")]))

    `max_payload` limits the plain size of one value, in bytes; a larger one raises PayloadTooLarge. Without it the
    limit comes from the client's or worker's settings, 4 MiB by default. `pickle=True` allows values that JSON can't
    hold to be pickled, and pickles to be read: use it only where nobody else can write to the database. `chain` is
    applied to every payload in order, and undone in reverse; an item that is no transform raises DefinitionError.

    All clients and workers of one database need the same codec. A codec is thread-safe. It never imports a module,
    and its only state is caches.
    """

    def __init__(
        self, *, max_payload: int | None = None, pickle: bool = False, chain: Sequence[Transform] = ()
    ) -> None:
        self._seal = Seal(chain, _LIMIT if max_payload is None else max_payload)
        self._has_limit = max_payload is not None
        self._pickles = pickle
        self._values: dict[Any, ValueCodec] = {}
        self._functions: WeakKeyDictionary[Any, dict[int | None, Any]] = WeakKeyDictionary()
        self._lock = threading.Lock()
        self._loaded: frozenset[str] | None = None
        """The modules whose exceptions come back as their own class. None: all that are loaded when one is written."""

    def for_worker(self) -> Self:
        """The same codec for a worker that starts now: exceptions of modules loaded later come back as StepFailed.

        A step may import modules while it executes, and a worker that replays its run later may not have them.
        """
        made = copy.copy(self)
        made._loaded = frozenset(sys.modules)
        return made

    def limited(self, given: int | None, setting: int | None) -> Self:
        """The same codec with the limit that applies: `given` if set, else the codec's own, else `setting`."""
        limit = setting if given is None and not self._has_limit else given
        if limit is None:
            return self
        made = copy.copy(self)
        made._seal, made._has_limit = self._seal.limited(limit), True
        made._values, made._functions, made._lock = {}, WeakKeyDictionary(), threading.Lock()
        return made

    @property
    def max_payload(self) -> int:
        """The limit of one value's plain size, in bytes."""
        return self._seal.limit

    @property
    def encrypts(self) -> bool:
        """Whether the chain encrypts what it is applied to."""
        return self._seal.encrypts

    def value(self, annotation: object) -> ValueCodec:
        """The codec of one annotation. With `Any` and `inspect.Parameter.empty` values keep whatever type they have."""
        try:
            return self._values[annotation]
        except KeyError:
            made = self._values[annotation] = ValueCodec(self._seal, self._pickles, lambda: (annotation, None), "value")
            return made
        except TypeError:  # unhashable, as Annotated[int, {}] is
            return ValueCodec(self._seal, self._pickles, lambda: (annotation, None), "value")

    def result(self, fn: Callable[..., Any]) -> ValueCodec:
        """The codec of a function's return value. The annotation is resolved at the first use, while `fn` is alive."""
        if inspect.ismethod(fn):
            # A bound method is a new object each time it is looked up: remember its function.
            return self.result(fn.__func__)
        name = getattr(fn, "__qualname__", type(fn).__qualname__).replace("<locals>.", "")
        find = _weakly(fn)

        def source() -> tuple[Any, str | None]:
            found = find()
            hints = {} if found is None else function_hints(found)
            return hints.get("return", inspect.Parameter.empty), getattr(found, "__module__", None)

        made: ValueCodec = self._cached(
            fn, None, lambda: ValueCodec(self._seal, self._pickles, source, "result", f" (returned by {name}())")
        )
        return made

    def arguments(self, fn: Callable[..., Any], *, skip: int = 0) -> ArgumentsCodec:
        """The codec of a function's arguments, without the first `skip` parameters."""
        if inspect.ismethod(fn):
            # A bound method is a new object each time it is looked up: remember its function.
            return self.arguments(fn.__func__, skip=skip + 1)
        made: ArgumentsCodec = self._cached(fn, skip, lambda: ArgumentsCodec(self._seal, self._pickles, fn, skip))
        return made

    def plain_arguments(self, stored: bytes) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a stored call as plain data: positional ones, named ones. Raises NotDecodable."""
        return plain_call(self.open(stored))

    def call_with(self, stored: bytes) -> bytes:
        """The stored form of a call whose only argument is a stored value.

        The size is not checked: the value was accepted when it was stored, whatever the limit is now.
        """
        plain = self.open(stored)
        return self._seal.apply(pickled_call(plain) if plain[:1] == PICKLED else b"[" + plain + b"]")

    def plain_json(self, value: Any) -> Any:
        """The plain JSON that a value is stored as, to compare payloads with. Raises NotEncodable."""
        return decode_json(self.open(self.value(Any).encode(value)))

    def schema(self, annotation: object) -> bytes | None:
        """The JSON schema that stored values of an annotation fit, as JSON text. None: any value fits."""
        found = None if annotation is Any else schema_of(annotation)
        return None if found is None else encode_json(found)

    def message(self, payload: Any, call: str, name: str = "") -> bytes:
        """Encode a payload for receivers that declare a type of their own.

        A record is encoded by its own class, any other payload as a value without an annotation. Errors name the
        payload by `call` and its `name` argument, as in `signal('paid')`.
        """
        kind = type(payload)
        is_record = hasattr(kind, "__dataclass_fields__") or hasattr(kind, "__struct_fields__")
        is_record = is_record or hasattr(kind, "model_fields") or hasattr(kind, "__attrs_attrs__")
        try:
            return self.value(kind if is_record or hasattr(kind, "_fields") else Any).encode(payload)
        except (NotEncodable, PayloadTooLarge) as error:
            label = f"{call}({name!r})" if name else f"{call}()"
            raise type(error)(f"{label}: {error}") from error.__cause__

    def seal(self, plain: bytes) -> bytes:
        """The bytes to store for a plain payload: the same object if the chain is empty. Raises PayloadTooLarge."""
        if self._seal.is_empty and len(plain) <= self._seal.limit and plain[:1] != b"\x00":
            return plain
        return self._seal.close(plain)

    def open(self, stored: bytes) -> bytes:
        """The plain payload of stored bytes, with or without a chain. Raises NotDecodable."""
        return self._seal.open(stored) if stored[:1] == b"\x00" else stored

    def sealed_text(self, text: str) -> str:
        """What to store, as text, of a message that may quote values: the message itself unless the chain encrypts."""
        if not self._seal.encrypts:
            return text
        try:
            sealed = self._seal.apply(text.encode(errors="replace"))
        except Exception as error:
            # It says why a run stands still, and is not worth an error of its own; but it must not go in plain.
            return f"{text.partition(':')[0]}: what it says could not be encrypted ({type(error).__name__})"
        return _SEALED + base64.b64encode(sealed).decode("ascii")

    def opened_text(self, stored: str) -> str:
        """The message that `sealed_text` was given. If it can't be read here, a message that says so."""
        if not stored.startswith(_SEALED):
            return stored
        try:
            sealed = base64.b64decode(stored.removeprefix(_SEALED), validate=True)
            return self.open(sealed).decode() if sealed[:1] == b"\x00" else stored
        except NotDecodable as error:
            return f"encrypted: {error}"
        except ValueError:  # a message that only begins like a sealed one
            return stored

    def encode_exception(self, error: BaseException, *, notes: Sequence[str] = ()) -> bytes:
        """An exception as sealed bytes. A part that can't be kept becomes a note; only the chain may raise."""
        plain = error.kept(notes) if type(error) is Relayed else lower_exception(error, notes, self._loaded)
        data = encode_json(plain)
        if len(data) > self._seal.limit:
            data = encode_json(shortened(plain))
        return self._seal.apply(data)

    def decode_exception(self, stored: bytes, *, home: str | None = None) -> BaseException:
        """The exception, ready to be raised.

        Classes recorded under `__main__` are also looked for in `home`, the module of the workflow's body. Raises
        NotDecodable if the class was recorded as known and can't be found now.
        """
        return load_exception(self._plain_exception(stored), home)

    def relayed(self, stored: bytes) -> Relayed:
        """The exception in a form that can only be handed on, and does not need its class. Raises NotDecodable."""
        return Relayed(self._plain_exception(stored))

    def tell_exception(self, stored: bytes) -> Exception:
        """The record of an exception as a StepFailed, without looking for its class. Never raise it in a body.

        Returns the NotDecodable that says why if the record can't be read either.
        """
        try:
            return tell_exception(self._plain_exception(stored))
        except NotDecodable as unreadable:
            return unreadable

    def _plain_exception(self, stored: bytes) -> Any:
        try:
            return decode_json(self.open(stored))
        except (ValueError, RecursionError) as error:
            if isinstance(error, NotDecodable):
                raise
            raise NotDecodable(f"the stored exception is no JSON: {error}") from error

    def _cached(self, fn: Any, key: int | None, make: Callable[[], Any]) -> Any:
        if inspect.ismethod(fn):
            fn = fn.__func__
        try:
            known = self._functions.get(fn)
            if known is None:
                with self._lock:
                    known = self._functions.setdefault(fn, {})
        except TypeError:  # not hashable or not weakly referable, so it can't be a key of the cache
            return make()
        found = known.get(key)
        if found is None:
            found = known.setdefault(key, make())
        return found


def _weakly(fn: Any) -> Callable[[], Any]:
    """A weak reference to a function: with a strong one its cache entry would keep it, and its closure, for ever."""
    try:
        return ref(fn)
    except TypeError:  # not weakly referable: nothing is cached for it, so a strong reference is safe
        return lambda: fn

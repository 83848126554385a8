"""Pickled payloads, for codecs with `pickle=True`. Each begins with the byte PICKLED."""

from __future__ import annotations

import io
import pickle
from typing import Any

from holdfast.codec.bare import is_secret
from holdfast.codec.exceptions import message_of
from holdfast.codec.seals import PICKLED
from holdfast.codec.shapes import Misfit, Secret, type_name
from holdfast.errors import NotDecodable, NotEncodable


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, is_encrypted: bool) -> None:
        super().__init__(file, protocol=5)
        self._is_encrypted = is_encrypted

    def reducer_override(self, obj: Any) -> Any:
        cls = type(obj)
        if not self._is_encrypted and is_secret(cls):
            raise Secret(f"{type_name(cls)} is a secret: give the codec a chain that encrypts (AesGcm)")
        return NotImplemented


def pickled(value: object, what: str, is_encrypted: bool) -> bytes:
    file = io.BytesIO(PICKLED)
    file.seek(1)
    try:
        _Pickler(file, is_encrypted).dump(value)
    except Misfit as misfit:
        raise NotEncodable(f"{what}: {misfit.why}") from None
    except Exception as error:
        why = f"{type_name(type(value))} is neither JSON nor to be pickled: {message_of(error)}"
        raise NotEncodable(f"{what}: {why}") from error
    return file.getvalue()


def unpickled(plain: bytes, what: str, is_allowed: bool) -> Any:
    if not is_allowed:
        raise NotDecodable(
            f"{what} was stored as a pickle, and reading one runs its code: allow it with Codec(pickle=True)"
        )
    try:
        return pickle.loads(memoryview(plain)[1:])
    except Exception as error:
        raise NotDecodable(f"{what} can't be unpickled: {type_name(type(error))}: {error}") from error


def pickled_call(plain: bytes) -> bytes:
    """A pickled call, which is `(args, kwargs)`, with a pickled value as its only argument, made without unpickling.

    Opcodes that wrap the result are put in place of the STOP. TUPLE1 takes its very byte, since a frame's length
    includes the STOP.
    """
    return plain[:-1] + pickle.TUPLE1 + pickle.EMPTY_DICT + pickle.TUPLE2 + pickle.STOP

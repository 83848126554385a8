"""Transforms of payloads on their way to the store: compression, encryption, and those that users write.

A transform works on bytes and knows nothing of values. Its `id` is stored in front of its output, so a payload itself
says how to read it, and the chain may change while old payloads exist.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from holdfast.errors import DefinitionError, NotDecodable
from holdfast.extras import load_extra


@runtime_checkable
class Transform(Protocol):
    """One link of a chain.

    `apply` may return the very object it was given: the payload is then stored without this layer. `revert` gets
    exactly what `apply` returned, and raises if it can't read it. Both may be called from many threads at once.
    """

    @property
    def id(self) -> str: ...

    @property
    def encrypts(self) -> bool: ...

    def apply(self, data: bytes) -> bytes: ...

    def revert(self, data: bytes) -> bytes: ...


class Zstd:
    """Compresses payloads of at least `threshold` bytes, if that makes them smaller.

    `level` is zstandard's own: higher is smaller and slower. An invalid level or threshold raises DefinitionError.
    Needs `holdfast[compress]`.
    """

    id = "zstd"
    encrypts = False

    def __init__(self, level: int = 3, threshold: int = 1024) -> None:
        self._zstandard = load_extra("zstandard", extra="compress", needed_by="Zstd")
        if not isinstance(level, int) or not level <= self._zstandard.MAX_COMPRESSION_LEVEL:
            limit = self._zstandard.MAX_COMPRESSION_LEVEL
            raise DefinitionError(f"Zstd(level={level!r}): expected a whole number up to {limit}")
        if not isinstance(threshold, int) or threshold < 0:
            raise DefinitionError(f"Zstd(threshold={threshold!r}): expected a whole number of bytes, from 0")
        self._level = level
        self._threshold = threshold
        # A (de)compressor must not be shared between threads.
        self._local = threading.local()

    def apply(self, data: bytes) -> bytes:
        """The compressed payload, or the payload itself if compressing would not make it smaller."""
        if len(data) < self._threshold:
            return data
        if not hasattr(self._local, "compressor"):
            self._local.compressor = self._zstandard.ZstdCompressor(level=self._level, write_checksum=True)
        packed: bytes = self._local.compressor.compress(data)
        return packed if len(packed) < len(data) else data

    def revert(self, data: bytes) -> bytes:
        """The payload that was compressed."""
        if not hasattr(self._local, "decompressor"):
            self._local.decompressor = self._zstandard.ZstdDecompressor()
        plain: bytes = self._local.decompressor.decompress(data)
        return plain


class AesGcm:
    """Encrypts and authenticates with AES-GCM.

        AesGcm({"2025": old_key, "2026": new_key}, primary="2026")

    A key is 16, 24 or 32 random bytes under a name of your own; any other raises DefinitionError. Payloads are written
    with the key named `primary` and read with any of `keys`. To rotate keys, add the new one everywhere, make it
    primary, and drop the old one when no payload needs it. The key's name is stored beside the payload, authenticated
    but readable. A payload whose key is not among `keys` raises NotDecodable with that name. Needs `holdfast[encrypt]`.
    """

    id = "aesgcm"
    encrypts = True

    def __init__(self, keys: Mapping[str, bytes], primary: str) -> None:
        aead = load_extra("cryptography.hazmat.primitives.ciphers.aead", extra="encrypt", needed_by="AesGcm")
        if not isinstance(keys, Mapping) or not all(isinstance(key, (bytes, bytearray)) for key in keys.values()):
            # The error doesn't show the keys: they are secret.
            raise DefinitionError('AesGcm(keys=): expected keys in bytes by their names, such as {"2026": b"..."}')
        for name, key in keys.items():
            if not isinstance(name, str):
                raise DefinitionError(f"AesGcm(keys=): the name {name!r} is no text")
            if len(key) not in (16, 24, 32):
                raise DefinitionError(f"the key {name!r} has {len(key)} bytes: give it 16, 24 or 32 random ones")
            if not 0 < len(name.encode()) < 256:
                raise DefinitionError(f"the key name {name!r} must have 1 to 255 bytes")
        if primary not in keys:
            raise DefinitionError(f"the primary key {primary!r} is not among the keys: {', '.join(sorted(keys))}")
        self._ciphers: dict[str, Any] = {name: aead.AESGCM(key) for name, key in keys.items()}
        self._cipher = self._ciphers[primary]
        label = primary.encode()
        self._header = bytes([len(label)]) + label

    def __repr__(self) -> str:
        return f"AesGcm(keys={sorted(self._ciphers)})"

    def apply(self, data: bytes) -> bytes:
        """The payload, encrypted with the primary key."""
        nonce = os.urandom(12)
        sealed: bytes = self._cipher.encrypt(nonce, data, self._header)
        return self._header + nonce + sealed

    def revert(self, data: bytes) -> bytes:
        """The payload that was encrypted. Raises NotDecodable if its key is missing, or if it was changed since."""
        end = 1 + data[0]
        header, nonce, sealed = data[:end], data[end : end + 12], data[end + 12 :]
        name = header[1:].decode(errors="replace")
        cipher = self._ciphers.get(name)
        if cipher is None:
            raise NotDecodable(
                f"the payload was encrypted with the key {name!r}, which AesGcm was not given: add it to keys"
            )
        try:
            plain: bytes = cipher.decrypt(nonce, sealed, header)
        except Exception as error:
            raise NotDecodable(
                f"the payload does not match the key {name!r}: it was changed, or the key was"
            ) from error
        return plain

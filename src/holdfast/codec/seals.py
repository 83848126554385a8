"""The sealed form of a payload: layers, each of which names the transform that made it.

    00 | length of the id | id | what the transform returned

Inside a layer is the next layer or the plain payload. Plain JSON never begins with a zero byte, so an unsealed payload
is recognised by its first byte and costs nothing. A transform works on the whole layer made before it, so an encrypting
one at the end of the chain authenticates all layers within.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.codec.transforms import Transform
from holdfast.errors import DefinitionError, NotDecodable, PayloadTooLarge

LAYER = 0
PICKLED = b"\x01"


def as_text(plain: bytes) -> str:
    """A plain payload as text, to be kept inside another payload. A pickle's first byte tells it from JSON."""
    return plain.decode("latin-1" if plain[:1] == PICKLED else "utf-8")


def from_text(text: str) -> bytes:
    """The plain payload that `as_text` was given."""
    return text.encode("latin-1" if text[:1] == PICKLED.decode() else "utf-8")


class Seal:
    """Applies a chain of transforms, and undoes it."""

    __slots__ = ("_chain", "_given", "_transforms", "encrypts", "is_empty", "limit")

    def __init__(self, chain: Sequence[Transform], limit: int) -> None:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise DefinitionError(f"Codec(max_payload={limit!r}): expected a whole number of bytes, from 1")
        if not isinstance(chain, Sequence) or not all(map(_is_transform, chain)):
            raise DefinitionError(
                f"Codec(chain={chain!r}): expected a list of transforms, such as [Zstd(), AesGcm(keys, primary)]"
            )
        self.limit = limit
        self._given = chain
        self._chain = [(_layer(transform.id), transform) for transform in chain]
        self._transforms = {transform.id.encode(): transform for transform in chain}
        if len(self._transforms) < len(self._chain):
            raise DefinitionError("two transforms of the chain have the same id: give each its own")
        self.encrypts = any(transform.encrypts for transform in chain)
        self.is_empty = not chain

    def limited(self, limit: int) -> Seal:
        """The same chain with another limit."""
        return Seal(self._given, limit)

    def close(self, plain: bytes) -> bytes:
        self.check_size(plain)
        return self.apply(plain)

    def apply(self, plain: bytes) -> bytes:
        """Seal without checking the size."""
        data = b"\x00\x00" + plain if plain[:1] == b"\x00" else plain
        for layer, transform in self._chain:
            made = transform.apply(data)
            if made is not data:
                data = layer + made
        return data

    def open(self, stored: bytes) -> bytes:
        data = stored
        while data[:1] == b"\x00":
            end = 2 + data[1] if len(data) > 1 else 2
            name, content = data[2:end], data[end:]
            if not name:  # a plain payload that itself begins with a zero byte
                return content
            data = self._revert(name, content)
        return data

    def check_size(self, plain: bytes, what: str = "the payload") -> None:
        if len(plain) > self.limit:
            raise PayloadTooLarge(
                f"{what}: {len(plain):,} bytes, more than the limit of {self.limit:,}: store a reference instead, "
                f"or raise max_payload"
            )

    def _revert(self, name: bytes, content: bytes) -> bytes:
        transform = self._transforms.get(name)
        if transform is None:
            text = name.decode(errors="replace")
            raise NotDecodable(
                f"the payload was stored through {text!r}, which the codec's chain doesn't have: add it, or name the "
                "codec that has it in the setting `codec`, which the command reads"
            )
        try:
            return transform.revert(content)
        except NotDecodable:
            raise
        except Exception as error:
            raise NotDecodable(f"the payload can't be read through {transform.id!r}: {error}") from error


def _is_transform(given: object) -> bool:
    # A transform's class passes isinstance too, since Transform is a protocol.
    return isinstance(given, Transform) and not isinstance(given, type)


def _layer(name: str) -> bytes:
    data = name.encode()
    if not 0 < len(data) < 256:
        raise DefinitionError(f"a transform's id must have 1 to 255 bytes, not {name!r}")
    return bytes([LAYER, len(data)]) + data

"""Values and exceptions ⇄ stored bytes.

    annotation ──▶ hints ──▶ annotations ──▶ a shape (scalars · containers · unions · records · models · bare)
    value ──▶ shape.lower ──▶ JSON ──▶ seal (compress, encrypt) ──▶ stored bytes, and the same way back

An annotated value is written as the JSON one would write by hand, and its annotation says how to read it back. A value
without an annotation keeps its type through envelopes (`bare`). A value that would not come back equal and of the same
type is refused when it is written, and the error names its path.

This room knows nothing of runs, steps or stores.
"""

from __future__ import annotations

from holdfast.codec.arguments import ArgumentsCodec, plain_call
from holdfast.codec.codec import Codec
from holdfast.codec.exceptions import Relayed, message_of, noted, traceback_text
from holdfast.codec.hints import known_hints
from holdfast.codec.loaded import find_all, find_class
from holdfast.codec.plain import plain
from holdfast.codec.schemas import misfit, parameter_schemas
from holdfast.codec.seals import as_text, from_text
from holdfast.codec.showing import Shown
from holdfast.codec.tracebacks import is_users, last_place, place_of, readable_traceback, without_own
from holdfast.codec.transforms import AesGcm, Transform, Zstd
from holdfast.codec.values import ValueCodec, unreadable

__all__ = [
    "AesGcm",
    "ArgumentsCodec",
    "Codec",
    "Relayed",
    "Shown",
    "Transform",
    "ValueCodec",
    "Zstd",
    "as_text",
    "find_all",
    "find_class",
    "from_text",
    "is_users",
    "known_hints",
    "last_place",
    "message_of",
    "misfit",
    "noted",
    "parameter_schemas",
    "place_of",
    "plain",
    "plain_call",
    "readable_traceback",
    "traceback_text",
    "unreadable",
    "without_own",
]

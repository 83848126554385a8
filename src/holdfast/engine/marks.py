"""Which message a wait takes, and the marks by which waits and messages that may fit are found (see piles.py)."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.codec import Codec
from holdfast.errors import NotDecodable
from holdfast.model import Message, holds, mark_of

from .piles import UNREADABLE, Mark
from .waits import Wait

_json = msgspec.json.Decoder()
_HOOK, _NUMBER = "hook", "number"


def marks_of(wait: Wait) -> tuple[Mark, ...]:
    """The wait's marks: every readable message that it takes has at least one of them. Empty: it may take any."""
    if wait.made is not None:
        return ((_HOOK,), wait.hook), ((_NUMBER,), wait.made.number)
    mark = None if wait.match is None else mark_of(wait.match)
    return () if mark is None else (mark,)


class Matcher:
    """Reads messages with a codec, and compares them with waits."""

    __slots__ = ("_codec",)

    def __init__(self, codec: Codec) -> None:
        self._codec = codec

    def read(self, message: Message) -> Any:
        """The object in which a message's marks are looked up: its payload, or for a hook what identifies the hook."""
        if message.kind == "hook":
            if message.hook:
                return {_HOOK: message.hook}
            return UNREADABLE if message.wait is None else {_NUMBER: message.wait}
        try:
            return _json.decode(self._codec.open(message.payload))
        except msgspec.DecodeError:
            return None
        except NotDecodable:
            return UNREADABLE

    def takes(self, wait: Wait, message: Message) -> bool:
        """Whether the wait takes this message."""
        if message.kind != wait.kind or message.name != wait.name:
            return False
        if wait.kind == "hook":
            # The number of a wait may change when the run is retried; a hook's place among the run's hooks and the
            # number that it is registered by do not. A payload that a retry put back, for a hook that was not made
            # again, belongs to no wait.
            if message.hook:
                return message.hook == wait.hook
            return message.wait is None or (wait.made is not None and message.wait == wait.made.number)
        if wait.match is None:
            return True
        try:
            return holds(_json.decode(self._codec.open(message.payload)), wait.match)
        except msgspec.DecodeError:
            return False
        except NotDecodable:
            # It may be the awaited one. A wait that passed it over could only time out, so let it block the run.
            return True

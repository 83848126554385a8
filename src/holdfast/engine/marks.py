"""Which message is for which wait, and by what one can tell that without looking at each of both."""

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
    """Of what it takes everything has one of these, as far as it can be read; none if that can be anything."""
    if wait.made is not None:
        return ((_HOOK,), wait.hook), ((_NUMBER,), wait.made.number)
    mark = None if wait.match is None else mark_of(wait.match)
    return () if mark is None else (mark,)


class Marks:
    """What messages are for, as a codec reads them."""

    __slots__ = ("_codec",)

    def __init__(self, codec: Codec) -> None:
        self._codec = codec

    def read(self, message: Message) -> Any:
        """What has the marks of a message: of a hook's payload what that hook is known by."""
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
        """Whether it is for the wait."""
        if message.kind != wait.kind or message.name != wait.name:
            return False
        if wait.kind == "hook":
            # Waits may have other numbers since the run was tried again; a hook's token is the same, and so is what it
            # is registered by. One that was put back by a retry, for a hook that was not made again, is nobody's.
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
            # It may be the one that is waited for, and a wait that passed it by would time out instead.
            return True

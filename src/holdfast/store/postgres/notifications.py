"""The text of a notification: who sent it, what may have happened, and how old that is.

A process of an earlier version does not say what happened, so it may be anything. Such a process takes the name with
the topics behind it for the sender's name, and looks, as it should.
"""

from __future__ import annotations

from typing import Any

from holdfast.model import Instant
from holdfast.store.subscribers import News

_LETTERS = {News.WORK: "w", News.ENDS: "e", News.VALUES: "v"}


def notification(channel: str, sender: str, news: News, since: Instant | None) -> dict[str, Any]:
    """The parameters of `notify`."""
    letters = "".join(letter for one, letter in _LETTERS.items() if one & news)
    return {"channel": channel, "sender": f"{sender}/{letters}", "since": since}


def understood(said: str) -> tuple[str, News, Instant | None]:
    """The sender, what may have happened, and since when, if that is known."""
    head, _, since = said.partition(" ")
    sender, _, letters = head.partition("/")
    news = News.NONE
    for one, letter in _LETTERS.items():
        if letter in letters:
            news |= one
    return sender, news or News.ANY, int(since) if since.isdecimal() else None

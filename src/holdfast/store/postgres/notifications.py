"""What a notification says: who sent it, what may have happened, and how old that is.

One from a process of an earlier version does not say what: it may be anything. And such a process takes a sender's
name with its topics for a name, and looks, too.
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
    """The sender, what may have happened, and how old it is if that is known."""
    head, _, since = said.partition(" ")
    sender, _, letters = head.partition("/")
    news = News.NONE
    for one, letter in _LETTERS.items():
        if letter in letters:
            news |= one
    return sender, news or News.ANY, int(since) if since.isdecimal() else None

"""A body's mail: the oldest message that a wait takes goes first, and nothing is tried twice."""

from __future__ import annotations

import random
import sys
from typing import Any

import pytest

from holdfast import wait_for_signal, workflow
from holdfast.codec import Codec
from holdfast.define import Reply
from holdfast.engine import Execution
from holdfast.engine.mail import Mailbox, Wait
from holdfast.model import Message

ANY = Codec().value(Any)


def message(number: int, name: str) -> Message:
    return Message(number, "run", "signal", name, b"", number, None, None, 0)


def wait(number: int, name: str) -> Wait:
    reply: Reply[Any] = None  # type: ignore[assignment]  # nobody is told
    return Wait(number, "signal", name, None, ANY, reply, None)


def takes(wait: Wait, message: Message) -> bool:
    return message.name is not None and message.name in wait.name


@pytest.mark.parametrize("seed", range(50))
def test_the_oldest_message_that_a_wait_takes_goes_to_the_first_wait_that_takes_it(seed):
    dice = random.Random(seed)
    mailbox, tried = Mailbox(), set()
    waits: list[Wait] = []
    kept: list[Message] = []

    def takes_once(wait: Wait, message: Message) -> bool:
        assert (wait.number, message.id) not in tried
        tried.add((wait.number, message.id))
        return takes(wait, message)

    for number in range(1, 300):
        deed = dice.random()
        if deed < 0.4:
            kept.append(message(number, dice.choice("abcd")))
            mailbox.add(kept[-1])
            mailbox.add(kept[0])
        elif deed < 0.6:
            waits.append(wait(number, "".join(dice.sample("abc", 2))))
        elif deed < 0.7 and waits:
            # Given up.
            waits.remove(dice.choice(waits))
        else:
            expected = next(((one, by) for one in kept for by in waits if takes(by, one)), None)
            assert mailbox.take(waits, takes_once) == expected
            if expected is not None:
                kept.remove(expected[0])
                waits.remove(expected[1])
        assert [*mailbox] == kept
        assert len(mailbox) == len(kept)


def test_messages_that_nobody_takes_are_looked_at_once(begin, monkeypatch):
    @workflow
    async def body() -> Any:
        return await wait_for_signal("ok", match={"by": "manager"})

    count = 0
    tried = Execution._takes

    def counted(self: Execution, wait: Wait, message: Message) -> bool:
        nonlocal count
        count += 1
        return tried(self, wait, message)

    monkeypatch.setattr(Execution, "_takes", counted)
    drive = begin(body)
    for number in range(200):
        drive.signal("ok", {"by": "clerk", "number": number})
    drive.signal("ok", {"by": "manager"})
    assert drive.ended is not None
    assert count == 201


@pytest.mark.parametrize("at_once", [1, 2], ids=["one after the other", "two at once"])
def test_a_message_of_a_pile_costs_no_more_than_one_alone(at_once):
    calls = []
    for size in (100, 1000):
        mailbox = Mailbox(message(number, "a") for number in range(1, size + 1))
        waits = [wait(number, "a") for number in range(1, size + 1)]
        made: list[int] = []
        sys.setprofile(lambda *_, made=made: made.append(1))
        try:
            for number in range(size):
                assert mailbox.take(waits[number : number + at_once], takes) is not None
        finally:
            sys.setprofile(None)
        assert not mailbox
        calls.append(len(made) / size)
    assert calls[1] == pytest.approx(calls[0], rel=0.1)

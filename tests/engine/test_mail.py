"""A body's mail: the oldest message that a wait takes goes first, and nothing is tried twice."""

from __future__ import annotations

import asyncio
import gc
import random
import sys
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from holdfast import wait_for_signal, workflow
from holdfast.codec import AesGcm, Codec
from holdfast.define import Reply
from holdfast.engine.mail import Mailbox
from holdfast.engine.marks import Matcher, marks_of
from holdfast.engine.waits import Wait
from holdfast.model import FIRST_HOOK, MadeHook, Message

CODEC = Codec()


def message(number: int, name: str, payload: object = None, hook: int = 0, wait: int | None = None) -> Message:
    kind = "signal" if name != "hook" else "hook"
    return Message(number, "run", kind, name, CODEC.message(payload, kind, name), number, wait, None, hook)


def wait(number: int, name: str, match: object = None) -> Wait:
    reply: Reply[Any] = None  # type: ignore[assignment]  # nobody is told
    found = Wait(number, "signal", name, match, CODEC.value(Any), reply, None)
    found.marks = marks_of(found)
    return found


def hook(number: int) -> Wait:
    reply: Reply[Any] = None  # type: ignore[assignment]  # nobody is told
    found = Wait(number, "hook", "hook", None, CODEC.value(Any), reply, None)
    found.hook, found.made = number, MadeHook("hook", FIRST_HOOK + number, b"", number)
    found.marks = marks_of(found)
    return found


class Once(Matcher):
    """Counts, and tries no message with a wait a second time."""

    def __init__(self) -> None:
        super().__init__(CODEC)
        self.tried: set[tuple[int, int]] = set()

    def takes(self, wait: Wait, message: Message) -> bool:
        assert (wait.number, message.id) not in self.tried
        self.tried.add((wait.number, message.id))
        return super().takes(wait, message)


MATCHES: tuple[object, ...] = (
    *(None, None, 1, {}, {"list": [1]}, {"by": "a"}, {"by": "b"}, {"n": 1}, {"n": True}, {"n": 1.0}, {"n": None}),
    *({"by": "a", "n": 1}, {"in": {"by": "a"}}, {"in": {"n": {"~decimal": "1"}}}),
)
PAYLOADS: tuple[object, ...] = (
    *(
        None,
        1,
        "a",
        [1],
        {"by": "a"},
        {"by": "b"},
        {"n": 1},
        {"n": True},
        {"n": None},
        {"by": "a", "n": 1},
        {"list": [1]},
    ),
    *({"in": {"by": "a"}}, {"in": {"n": "1"}}, {"in": {"n": {"~decimal": "1"}}}, {"in": 1}, {"by": {"by": "a"}}),
)


@pytest.mark.parametrize("seed", range(50))
def test_the_oldest_message_that_matches_goes_to_the_first_wait_that_it_matches(seed):
    dice = random.Random(seed)
    marks = Once()
    mailbox, plain = Mailbox(marks), Matcher(CODEC)
    waits: dict[int, Wait] = {}
    kept: list[Message] = []
    for number in range(1, 400):
        deed = dice.random()
        if deed < 0.4:
            if dice.random() < 0.2:
                # A message names a wait by its number, by its hook from before a retry, or not at all.
                one = dice.randrange(1, number + 1)
                known = dice.choice([{"hook": one}, {"wait": FIRST_HOOK + one}, {}])
                kept.append(message(number, "hook", **known))
            else:
                kept.append(message(number, dice.choice("ab"), dice.choice(PAYLOADS)))
            mailbox.add(kept[-1])
            mailbox.add(kept[0])
        elif deed < 0.6:
            is_hook = dice.random() < 0.2
            waits[number] = hook(number) if is_hook else wait(number, dice.choice("abc"), dice.choice(MATCHES))
        elif deed < 0.7 and waits:
            # Given up.
            mailbox.forget(waits.pop(dice.choice([*waits])))
        elif mailbox:
            expected = next(((one, by) for one in kept for by in waits.values() if plain.takes(by, one)), None)
            assert mailbox.take(waits) == expected
            if expected is not None:
                kept.remove(expected[0])
                if dice.random() < 0.9:
                    # Else it was set aside, and the wait goes on.
                    mailbox.forget(waits.pop(expected[1].number))
        assert [*mailbox] == kept
        assert len(mailbox) == len(kept)


def test_a_message_that_can_not_be_read_is_offered_to_the_first_wait_of_its_name():
    """That wait may be for this message: the run is blocked until a worker can read it."""
    waits = {1: wait(1, "b"), 2: wait(2, "a", {"by": "a"}), 3: wait(3, "a", {"by": "b"}), 4: wait(4, "a")}
    other = Codec(chain=[AesGcm({"theirs": bytes(32)}, primary="theirs")]).message({"by": "b"}, "signal", "a")
    sealed = msgspec.structs.replace(message(1, "a"), payload=other)
    for comes_first in (True, False):
        mailbox = Mailbox(Matcher(CODEC), [sealed] if comes_first else [message(2, "c")])
        assert mailbox.take({} if comes_first else waits) is None
        mailbox.add(sealed)
        assert mailbox.take(waits) == (sealed, waits[2])


def test_messages_that_no_wait_takes_are_read_only_once(begin, monkeypatch):
    @workflow
    async def body() -> Any:
        return await wait_for_signal("ok", match={"by": "manager"})

    count = 0
    read = Matcher.read

    def counted(self: Matcher, message: Message) -> Any:
        nonlocal count
        count += 1
        return read(self, message)

    monkeypatch.setattr(Matcher, "read", counted)
    drive = begin(body)
    for number in range(200):
        drive.signal("ok", {"by": "clerk", "number": number})
    drive.signal("ok", {"by": "manager"})
    assert drive.ended is not None
    assert count == 201


def cost_of(act: Callable[[], None]) -> int:
    """How many calls and returns of Python functions there are."""
    made: list[int] = []
    # What the collector calls belongs to nobody here, and depends on what other tests have left.
    gc.disable()
    sys.setprofile(lambda *_: made.append(1))
    try:
        act()
    finally:
        sys.setprofile(None)
        gc.enable()
    return len(made)


@pytest.mark.parametrize("at_once", [1, 2], ids=["one after the other", "two at once"])
def test_a_message_among_many_costs_no_more_than_one_alone(at_once):
    def take_all(size: int) -> None:
        mailbox = Mailbox(Matcher(CODEC), [message(number, "a") for number in range(1, size + 1)])
        waits: dict[int, Wait] = {}
        for number in range(1, size + 1):
            while len(waits) < at_once:
                waits[number + len(waits)] = wait(number + len(waits), "a")
            found = mailbox.take(waits)
            assert found is not None
            mailbox.forget(waits.pop(found[1].number))
        assert not mailbox

    costs = [cost_of(lambda size=size: take_all(size)) / size for size in (100, 1000)]
    assert costs[1] < 1.2 * costs[0]


WAITING: Mapping[str, tuple[Callable[[int], Wait], Callable[[int], Message]]] = {
    "by name": (lambda n: wait(n, f"n{n}"), lambda n: message(n, f"n{n}")),
    "of one name": (lambda n: wait(n, "a"), lambda n: message(n, "a")),
    "by match": (lambda n: wait(n, "a", {"order": n}), lambda n: message(n, "a", {"order": n})),
    "hooks": (hook, lambda n: message(n, "hook", wait=FIRST_HOOK + n)),
}


@pytest.mark.parametrize("comes_first", ["messages", "waits"])
@pytest.mark.parametrize("kind", WAITING)
def test_a_message_costs_no_more_for_the_waits_that_are_there(kind, comes_first):
    """Thousands of tasks of one body wait at once, each for its own; the last one hears first."""
    waiting, sent = WAITING[kind]

    def take_all(size: int) -> None:
        waits = {number: waiting(number) for number in range(1, size + 1)}
        mailbox = Mailbox(Matcher(CODEC))
        for number in range(size, 0, -1):
            mailbox.add(sent(number))
            if comes_first == "waits":
                found = mailbox.take(waits)
                assert found is not None
                mailbox.forget(waits.pop(found[1].number))
        while mailbox and (found := mailbox.take(waits)) is not None:
            mailbox.forget(waits.pop(found[1].number))
        assert not mailbox
        assert not waits

    costs = [cost_of(lambda size=size: take_all(size)) / size for size in (100, 1000)]
    assert costs[1] < 1.2 * costs[0]


def test_looking_for_one_of_many_messages_costs_no_more_than_for_one_of_few():
    """One wait after the other asks for its own message, all of which came before the first wait."""

    def take_all(size: int) -> None:
        mailbox = Mailbox(Matcher(CODEC), [message(number, "a", {"order": number}) for number in range(1, size + 1)])
        mailbox.take({1: wait(1, "b")})
        for number in range(size, 0, -1):
            one = wait(2 * size - number, "a", {"order": number})
            found = mailbox.take({one.number: one})
            assert found is not None
            mailbox.forget(one)
        assert not mailbox

    costs = [cost_of(lambda size=size: take_all(size)) / size for size in (100, 1000)]
    assert costs[1] < 1.2 * costs[0]


def test_a_wait_costs_no_more_for_the_messages_of_its_name_that_were_taken_before():
    def take_all(size: int) -> None:
        mailbox = Mailbox(Matcher(CODEC))
        # One that stays: without it the index would be made anew each time.
        waits = {1: wait(1, "a", {"order": 0})}
        for number in range(2, size + 2):
            mailbox.add(message(number, "a", {"order": 1}))
            assert mailbox.take(waits) is None
            waits[number] = wait(number, "a", {"order": 1})
            assert mailbox.take(waits) is not None
            mailbox.forget(waits.pop(number))

    costs = [cost_of(lambda size=size: take_all(size)) / size for size in (50, 500)]
    assert costs[1] < 1.2 * costs[0]


@pytest.mark.parametrize("match", [None, {"order": 1}], ids=["by name", "by match"])
def test_a_signal_to_a_body_with_many_waits_costs_no_more_than_to_one_with_few(begin, match):
    @workflow
    async def body(size: int) -> int:
        of = [f"n{n}" if match is None else "a" for n in range(size)]
        asked = (wait_for_signal(name, match=match and {"order": n}) for n, name in enumerate(of))
        return len(await asyncio.gather(*asked))

    costs = []
    for size in (50, 500):
        drive = begin(body, size)

        def signal_all(drive=drive, size=size) -> None:
            for n in reversed(range(size)):
                drive.signal(f"n{n}" if match is None else "a", {"order": n})

        costs.append(cost_of(signal_all) / size)
        assert drive.ended is not None
    assert costs[1] < 1.2 * costs[0]

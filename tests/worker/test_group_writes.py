"""Group commit: one write that can't be stored keeps nobody else waiting, and hears of it alone."""

import asyncio
from collections.abc import Callable, Sequence

from holdfast.errors import StoreAway, StoreError
from holdfast.store import Answer
from holdfast.worker import commits
from holdfast.worker.clock import SystemClock
from holdfast.worker.commits import GroupWriter
from holdfast.worker.lease import Lease

PATIENCE = 60


class Group:
    """A writer whose store answers as the test says: what was sent together, and what each item was told."""

    def __init__(self, answer: Callable[[Sequence[str]], list[Answer]]) -> None:
        self.lease = Lease(SystemClock(), 3_600_000_000)
        self.lease.renewed(SystemClock().monotonic())
        self.sent: list[list[str]] = []
        self.told: dict[str, object] = {}
        self.order: list[str] = []
        self._answer = answer
        self.writer: GroupWriter[str, None] = GroupWriter(self._write, self.lease)

    async def _write(self, items: Sequence[str]) -> list[Answer]:
        self.sent.append(list(items))
        return self._answer(items)

    def _tell(self, _: None, item: str, verdict: object) -> None:
        self.told[item] = verdict
        self.order.append(item)

    async def write(self, items: str) -> None:
        """Each character is an item."""
        for item in items:
            self.writer.add(item, self._tell, None)
        async with asyncio.timeout(PATIENCE):
            await self.writer.idle()


async def test_a_group_that_fails_is_halved_down_to_the_one_that_can_never_be_stored():
    error = StoreError("never")

    def answer(items: Sequence[str]) -> list[Answer]:
        if "x" in items:
            raise error
        return [True] * len(items)

    group = Group(answer)
    await group.write("abxdefg")
    assert group.told == {**dict.fromkeys("abdefg", True), "x": error}
    assert group.sent == [[*"abxdefg"], [*"abx"], ["a"], [*"bx"], ["b"], ["x"], [*"defg"]]


async def test_an_error_that_is_no_store_s_own_is_told_with_its_cause():
    cause = ValueError("a value that nobody can write")

    def answer(items: Sequence[str]) -> list[Answer]:
        raise cause

    group = Group(answer)
    await group.write("x")
    told = group.told["x"]
    assert isinstance(told, StoreError)
    assert (str(told), told.__cause__) == ("ValueError: a value that nobody can write", cause)


async def test_one_that_is_told_alone_to_come_again_keeps_nobody_waiting(monkeypatch):
    monkeypatch.setattr(commits, "_FIRST_PAUSE_ALONE", 0.0)
    tries = 0

    def answer(items: Sequence[str]) -> list[Answer]:
        nonlocal tries
        tries += "x" in items
        return [StoreAway("locked") if item == "x" and tries < 3 else True for item in items]

    group = Group(answer)
    await group.write("axb")
    assert group.order == ["a", "b", "x"]
    assert group.sent == [[*"axb"], ["x"], ["x"]]


async def test_it_waits_longer_each_time_and_afterwards_begins_anew(monkeypatch):
    monkeypatch.setattr(commits, "_FIRST_PAUSE_ALONE", 0.001)
    monkeypatch.setattr(commits, "_LONGEST_PAUSE", 0.004)
    left = 0

    def answer(items: Sequence[str]) -> list[Answer]:
        nonlocal left
        left -= 1
        return [StoreAway("locked") if left >= 0 else True]

    group = Group(answer)
    pauses: list[float] = []
    loop = asyncio.get_running_loop()
    later = loop.call_later
    monkeypatch.setattr(
        loop, "call_later", lambda delay, *rest, **more: (pauses.append(delay), later(delay, *rest, **more))[1]
    )
    for _ in range(2):
        left = 4
        await group.write("x")
    ours = [pause for pause in pauses if pause < 1]
    assert ours == [0.001, 0.002, 0.004, 0.004] * 2


async def test_what_is_left_when_the_lease_is_lost_is_refused_and_not_sent():
    group = Group(lambda items: [True] * len(items))
    group.lease.is_lost = True
    await group.write("ab")
    assert (group.sent, group.told) == ([], {"a": False, "b": False})


async def test_nothing_is_sent_while_the_lease_has_lapsed():
    group = Group(lambda items: [True] * len(items))
    group.lease.until = 0
    writing = asyncio.create_task(group.write("ab"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert group.sent == []
    group.lease.renewed(SystemClock().monotonic())
    group.writer.go_on()
    await writing
    assert group.sent == [["a", "b"]]


async def test_what_is_on_its_way_is_not_sent_again_when_the_lease_is_renewed():
    group = Group(lambda items: [True] * len(items))
    writing = asyncio.create_task(group.write("ab"))
    while not group.sent:
        await asyncio.sleep(0)
        group.writer.go_on()
    await writing
    assert group.sent == [["a", "b"]]


async def test_a_store_that_is_away_is_asked_less_and_less_often_until_it_is_back(monkeypatch):
    monkeypatch.setattr(commits, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(commits, "_LONGEST_PAUSE", 0.004)
    left = 0

    def answer(items: Sequence[str]) -> list[Answer]:
        nonlocal left
        left -= 1
        if left >= 0:
            raise StoreAway("gone")
        return [True]

    group = Group(answer)
    pauses: list[float] = []
    loop = asyncio.get_running_loop()
    later = loop.call_later
    monkeypatch.setattr(
        loop, "call_later", lambda delay, *rest, **more: (pauses.append(delay), later(delay, *rest, **more))[1]
    )
    for _ in range(2):
        left = 4
        await group.write("x")
    assert [pause for pause in pauses if pause < 1] == [0.001, 0.002, 0.004, 0.004] * 2


async def test_a_store_that_is_away_gets_the_same_group_again_and_nobody_hears_of_it(monkeypatch, caplog):
    monkeypatch.setattr(commits, "_FIRST_PAUSE", 0.0)
    left = 2

    def answer(items: Sequence[str]) -> list[Answer]:
        nonlocal left
        left -= 1
        if left >= 0:
            raise StoreAway("gone")
        return [True] * len(items)

    group = Group(answer)
    await group.write("ab")
    assert group.told == {"a": True, "b": True}
    assert group.sent == [[*"ab"]] * 3

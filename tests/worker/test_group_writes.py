"""Group commit: one write that can't be stored keeps nobody else waiting, and hears of it alone."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from holdfast.errors import StoreAway, StoreError
from holdfast.store import Answer
from holdfast.worker import commits
from holdfast.worker.clock import SystemClock
from holdfast.worker.commits import GroupWriter
from holdfast.worker.lease import Lease

PATIENCE = 60


class Group:
    """A writer whose store answers as the test says; notes what was sent together and each item's answer."""

    def __init__(self, answer: Callable[[Sequence[str]], list[Answer]]) -> None:
        self.lease = Lease(SystemClock(), 3_600_000_000)
        self.lease.renewed(SystemClock().monotonic())
        self.sent: list[list[str]] = []
        self.told: dict[str, object] = {}
        self.order: list[str] = []
        self._answer = answer
        self.writer: GroupWriter[str, None] = GroupWriter(self._write, self.lease, self._weigh)

    async def _write(self, items: Sequence[str]) -> list[Answer]:
        self.sent.append(list(items))
        return self._answer(items)

    def _weigh(self, item: str) -> int:
        if item.isdigit():
            return 2**27
        return 2**25 if item.isupper() else 1

    def _tell(self, _: None, item: str, verdict: object) -> None:
        self.told[item] = verdict
        self.order.append(item)

    async def write(self, items: str) -> None:
        """Each character is an item."""
        for item in items:
            self.writer.add(item, self._tell, None)
        async with asyncio.timeout(PATIENCE):
            await self.writer.idle()


async def test_large_items_go_out_a_few_at_a_time_and_in_order():
    group = Group(lambda items: [True] * len(items))
    await group.write("aBcDefGHIj")
    assert group.sent == [[*"aBc"], [*"Def"], [*"GH"], [*"Ij"]]
    assert group.order == [*"aBcDefGHIj"]


async def test_an_item_larger_than_a_group_may_be_goes_out_alone():
    group = Group(lambda items: [True] * len(items))
    await group.write("1a2")
    assert group.sent == [[*"1"], [*"a"], [*"2"]]


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


async def test_an_error_from_outside_the_store_is_reported_with_its_cause():
    cause = ValueError("a value that nobody can write")

    def answer(items: Sequence[str]) -> list[Answer]:
        raise cause

    group = Group(answer)
    await group.write("x")
    told = group.told["x"]
    assert isinstance(told, StoreError)
    assert (str(told), told.__cause__) == ("ValueError: a value that nobody can write", cause)


async def test_a_write_that_fails_before_it_begins_is_answered_and_the_next_ones_go_out():
    group = Group(lambda items: [True] * len(items))
    write = group.writer._write

    def failing(items: Sequence[str]) -> Awaitable[Sequence[Answer]]:
        if "x" in items:
            raise MemoryError("no room")
        return write(items)

    group.writer._write = failing
    await group.write("xab")
    assert isinstance(group.told.pop("x"), StoreError)
    await group.write("cd")
    assert group.told == dict.fromkeys("abcd", True)


async def test_every_write_that_fails_before_it_begins_is_answered_however_many_there_are():
    def failing(items: Sequence[str]) -> Awaitable[Sequence[Answer]]:
        raise StoreError("never")

    group = Group(lambda items: [])
    group.writer._write = failing
    await group.write("".join(map(chr, range(0x1000, 0x1200))))
    assert len(group.told) == 512


async def test_an_error_of_the_store_is_reported_with_its_own_cause():
    cause = OSError("no space left")
    error = StoreError("never")
    error.__cause__ = cause

    def answer(items: Sequence[str]) -> list[Answer]:
        raise error

    group = Group(answer)
    await group.write("x")
    assert (group.told["x"], error.__cause__) == (error, cause)


async def test_an_item_that_is_sent_back_alone_keeps_no_other_waiting(monkeypatch):
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


async def test_an_item_sent_back_waits_longer_each_time_and_starts_over_after_a_success(monkeypatch):
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


async def test_items_left_when_the_lease_is_lost_are_refused_and_not_sent():
    group = Group(lambda items: [True] * len(items))
    group.lease.is_lost = True
    await group.write("ab")
    assert (group.sent, group.told) == ([], {"a": False, "b": False})


async def test_no_group_is_sent_while_the_lease_has_lapsed():
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


async def test_a_group_on_its_way_is_not_sent_again_when_the_lease_is_renewed():
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


async def test_the_absence_and_the_return_of_the_store_are_logged_once_each(monkeypatch, caplog):
    monkeypatch.setattr(commits, "_FIRST_PAUSE", 0.001)
    left = 3

    def answer(items: Sequence[str]) -> list[Answer]:
        nonlocal left
        left -= 1
        if left >= 0:
            raise StoreAway("gone")
        return [True] * len(items)

    await Group(answer).write("ab")
    assert caplog.messages == ["the store is away, 2 writes wait for it: gone", "the store is back"]


async def test_a_store_that_was_away_gets_the_same_group_again_and_no_writer_notices(monkeypatch):
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


async def test_an_item_added_as_alone_while_a_group_is_on_its_way_goes_out_next():
    group = Group(lambda items: [True] * len(items))
    for item in "ab":
        group.writer.add(item, group._tell, None, is_alone=True)
    await group.write("")
    assert group.sent == [["a"], ["b"]]


async def test_a_caller_that_awaits_answers_goes_on_when_the_writer_is_stopped():
    group = Group(lambda items: [True] * len(items))
    group.lease.until = 0
    writing = asyncio.create_task(group.write("ab"))
    for _ in range(5):
        await asyncio.sleep(0)
    group.writer.stop()
    await writing
    assert (group.sent, group.told) == ([], {})


async def test_an_item_that_waits_to_be_sent_again_is_not_sent_after_the_writer_was_stopped(monkeypatch):
    group = Group(lambda items: [StoreAway("locked")])
    handles: list[asyncio.TimerHandle] = []
    loop = asyncio.get_running_loop()
    later = loop.call_later
    monkeypatch.setattr(
        loop, "call_later", lambda *args, **more: (handles.append(handle := later(*args, **more)), handle)[1]
    )
    group.writer.add("x", group._tell, None)
    while not handles:
        await asyncio.sleep(0)
    group.writer.stop()
    assert [handle.cancelled() for handle in handles] == [True]


async def test_more_items_than_a_group_may_hold_go_out_in_several_groups(monkeypatch):
    monkeypatch.setattr(commits, "_BATCH", 3)
    group = Group(lambda items: [True] * len(items))
    await group.write("abcdefg")
    assert group.sent == [[*"abc"], [*"def"], ["g"]]
    assert group.order == [*"abcdefg"]


async def test_an_answer_that_comes_after_the_writer_was_stopped_is_dropped():
    group = Group(lambda items: [True] * len(items))
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
    writing = asyncio.create_task(group.write("ab"))
    while not group.sent:
        await asyncio.sleep(0)
    group.writer.stop()
    await writing
    for _ in range(5):
        await asyncio.sleep(0)
    assert (group.told, complaints) == ({}, [])

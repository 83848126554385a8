"""A body with thousands of children: what it does to one of them costs no more than among a few."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from holdfast import ChildRun, wait_for_signal, workflow
from holdfast.model import NewRun


@workflow
async def child(number: int) -> int:
    return number


def opcodes_of(act: Callable[[], None]) -> int:
    """How many opcodes Python executes for it."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    # What the collector calls belongs to nobody here, and depends on what other tests have left.
    gc.disable()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


def test_cancelling_many_children_costs_no_more_each_than_cancelling_few(begin):
    @workflow
    async def body(size: int) -> int:
        runs: list[ChildRun[int]] = [child.start(number) for number in range(size)]
        await wait_for_signal("stop")
        for run in runs:
            run.cancel()
        return len(await asyncio.gather(*runs))

    costs = []
    for size in (30, 300):
        drive = begin(body, size)
        costs.append(opcodes_of(lambda drive=drive: drive.signal("stop")) / size)
        assert len(drive.out[-1].cancels) == size
    assert costs[1] < 1.2 * costs[0]


def test_cancelling_children_in_the_turn_that_started_them_compares_no_two_of_them(begin, monkeypatch):
    compared: list[int] = []
    monkeypatch.setattr(NewRun, "__eq__", lambda self, other: compared.append(1) or self is other)

    @workflow
    async def body(size: int) -> None:
        tasks = [asyncio.create_task(child(number)) for number in range(size)]
        await asyncio.sleep(0)
        for task in reversed(tasks):
            task.cancel()
        await asyncio.wait(tasks)

    drive = begin(body, 50)
    assert drive.ended is not None
    assert not any(out.children or out.cancels for out in drive.out)
    assert not compared


def test_signalling_and_replaying_many_children_costs_no_more_each_than_few(begin):
    @workflow
    async def body(size: int) -> int:
        runs = [child.options(key=f"key {number}").start(number) for number in range(size)]
        await wait_for_signal("go")
        for run in runs:
            run.signal("go")
        return len(await asyncio.gather(*runs))

    costs, again = [], []
    for size in (30, 300):
        drive = begin(body, size)
        costs.append(opcodes_of(lambda drive=drive: drive.signal("go")) / size)
        assert len(drive.out[-1].signals) == size
        again.append(opcodes_of(drive.replay) / size)
    assert costs[1] < 1.2 * costs[0]
    assert again[1] < 1.2 * again[0]

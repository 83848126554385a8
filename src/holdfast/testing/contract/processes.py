"""Real processes on one database: opening it first, writing at the same time, being killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator

from holdfast.model import RunFilter, RunStatus

from .stage import LANE, LEASE, Stage, new_run, on_stage, until

_PRELUDE = """
import asyncio, sys, time
from holdfast.model import *
from holdfast.store import open_store
from holdfast.testing.contract.stage import LANE, LEASE, new_run, turn

async def accept(store, turns):
    # Again until all are accepted: another process may have locked one of their runs for a moment.
    while turns:
        answers = await store.commit_turns(turns)
        assert False not in answers
        turns = [one for one, answer in zip(turns, answers, strict=True) if answer is not True]

async def main(store):
{body}

async def opened():
    store = open_store(sys.argv[1])
    await store.open()
    try:
        await main(store)
    finally:
        await store.close()

asyncio.run(opened())
"""


def _begin(url: str, body: str) -> subprocess.Popen[str]:
    """A process that runs the body of `async def main(store)`."""
    script = _PRELUDE.format(body=textwrap.indent(textwrap.dedent(body), "    "))
    return subprocess.Popen(
        [sys.executable, "-c", script, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


async def _run_all(url: str, body: str, count: int) -> list[str]:
    """Run `count` processes with the body at the same time, and return what each printed. All must succeed."""
    processes = [_begin(url, body) for _ in range(count)]
    ended = await asyncio.gather(*(asyncio.to_thread(process.communicate, timeout=90) for process in processes))
    assert [process.returncode for process in processes] == [0] * count, [errors for _, errors in ended]
    return [printed for printed, _ in ended]


@contextlib.asynccontextmanager
async def _running(url: str, body: str) -> AsyncIterator[subprocess.Popen[str]]:
    """A process with the body. It is killed in the end."""
    process = _begin(url, body)
    try:
        yield process
    finally:
        process.kill()
        await asyncio.to_thread(process.communicate)


async def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return (await asyncio.to_thread(process.stdout.readline)).strip()


HOLD = """
await store.register_worker("child", [LANE], LEASE)
[run] = await store.claim_runs("child", [LANE], 1)
print(run.id, flush=True)
await asyncio.sleep(600)
"""


@on_stage
class TestProcesses:
    async def test_many_open_a_new_database_at_once(self, stage: Stage, url: str) -> None:
        await stage.store.close()
        await _run_all(url, "assert (await store.start_runs([new_run()]))[0].created", 8)
        store = await stage.open()
        assert len((await store.list_runs(RunFilter())).items) == 8

    async def test_many_write_at_once_and_none_is_locked_out(self, stage: Stage, url: str) -> None:
        await stage.store.start_runs([new_run() for _ in range(200)])
        body = """
        import os
        name = str(os.getpid())
        await store.register_worker(name, [LANE], LEASE)
        ended = 0
        while True:
            runs = await store.claim_runs(name, [LANE], 4)
            if not runs:
                break
            for seq in range(3):
                await accept(store, [turn(run, after=seq) for run in runs])
            store.renew_lease(name, LEASE)
            change = RowChange(status=RunStatus.COMPLETED)
            await accept(store, [turn(run, after=3, change=change) for run in runs])
            ended += len(runs)
        await store.remove_worker(name)
        print(ended)
        """
        printed = await _run_all(url, body, 4)
        assert sum(map(int, printed)) == 200
        assert (await stage.store.list_workflows())[0].counts == {"completed": 200}

    async def test_the_runs_of_a_killed_process_are_taken_over_at_once(self, stage: Stage, url: str) -> None:
        [started] = await stage.store.start_runs([new_run()])
        async with _running(url, HOLD) as child:
            assert await _line(child) == started.id
            assert await stage.store.reap_workers("parent") == []
            child.send_signal(signal.SIGKILL)
            await asyncio.to_thread(child.wait)
            assert await stage.store.reap_workers("parent") == ["child"]
            [run] = await stage.store.claim_runs("parent", [LANE], 1)
            assert (run.id, run.is_takeover, run.crashes) == (started.id, True, 1)
            assert await stage.store.reap_workers("parent") == []

    async def test_a_killed_process_is_not_listed_and_nothing_is_taken_from_it(self, stage: Stage, url: str) -> None:
        [started] = await stage.store.start_runs([new_run()])
        async with _running(url, HOLD) as child:
            await _line(child)
            assert [worker.id for worker in await stage.store.list_workers()] == ["child"]
            child.send_signal(signal.SIGKILL)
            await asyncio.to_thread(child.wait)
            assert [await stage.store.list_workers() for _ in range(2)] == [[], []]
            assert (await stage.run(started.id)).owner == "child"
            assert await stage.store.reap_workers("parent") == ["child"]

    async def test_a_process_that_was_stopped_is_alive(self, stage: Stage, url: str) -> None:
        await stage.store.start_runs([new_run()])
        async with _running(url, HOLD) as child:
            await _line(child)
            child.send_signal(signal.SIGSTOP)
            assert await stage.store.reap_workers("parent") == []

    async def test_a_start_in_another_process_notifies_subscribers(self, stage: Stage, url: str) -> None:
        notified: list[int] = []
        unsubscribe = stage.store.subscribe(lambda: notified.append(1))
        body = """
        print("open", flush=True)
        sys.stdin.readline()
        await store.start_runs([new_run(id="far")])
        """
        async with _running(url, body) as child:
            assert await _line(child) == "open"
            notified.clear()
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
            assert await until(lambda: bool(notified))
        unsubscribe()

    async def test_turns_that_a_killed_process_saw_accepted_are_in_the_journal(self, stage: Stage, url: str) -> None:
        await stage.store.start_runs([new_run(id="killed")])
        body = """
        await store.register_worker("child", [LANE], LEASE)
        [run] = await store.claim_runs("child", [LANE], 1)
        for seq in range(100000):
            assert await store.commit_turns([turn(run, after=seq)]) == [True]
            print(seq, flush=True)
        """
        async with _running(url, body) as child:
            for _ in range(50):
                seen = int(await _line(child))
            child.send_signal(signal.SIGKILL)
            # Not by `communicate`, which would lose what reading the lines above has buffered.
            assert child.stdout is not None
            rest = await asyncio.to_thread(child.stdout.read)
        whole = rest.rpartition("\n")[0].split()
        seen = int(whole[-1]) if whole else seen
        rows = await stage.store.read_journal("killed")
        assert [row.seq for row in rows] == list(range(len(rows)))
        assert seen < len(rows) <= seen + 2
        assert (await stage.run("killed")).status is RunStatus.RUNNING

    async def test_a_lease_is_renewed_in_time_while_others_write(self, stage: Stage, url: str) -> None:
        """In time means before the others are done, which is the same on a slow machine."""
        await stage.store.register_worker("one", [LANE], LEASE)
        body = """
        for number in range(300):
            await store.start_runs([new_run() for _ in range(50)])
            if number == 0:
                print("begun", flush=True)
        """
        async with _running(url, body) as first, _running(url, body) as second:
            assert [await _line(first), await _line(second)] == ["begun", "begun"]
            renewed = await asyncio.to_thread(lambda: [stage.store.renew_lease("one", LEASE) for _ in range(50)])
            assert None not in renewed
            assert (first.poll(), second.poll()) == (None, None)

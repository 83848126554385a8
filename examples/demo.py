"""What `make demo` shows: a worker is killed with SIGKILL in the middle of an order, and another one finishes it.

Two worker processes and one SQLite file in a temporary folder, no services. The steps write into a file what was
executed; the run's journal says what was recorded. At the end the two are compared. The exit code is 1 if a recorded
step was executed again, if anything is missing, or if the result is wrong.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from demo_timeline import COLOURS, Story
from demo_workflow import EFFECTS, PACKING, Receipt, order
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from holdfast import AsyncClient, AsyncRun

LIMIT = 45
EXPECTED = Receipt("invoice-4711", "1200 cents for 4711", "parcel-4711 from shelf 12 for 4711 is on its way")


class Demo:
    """The stage: the workers' processes, the client, and the story so far."""

    def __init__(self, folder: Path, client: AsyncClient, console: Console, live: Live | None) -> None:
        self.story = Story(folder / "effects.jsonl")
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._folder = folder
        self._client = client
        self._console = console
        self._live = live

    async def play(self) -> list[tuple[bool, str]]:
        """Play the whole demo. Returns what was checked."""
        story = self.story
        # A packs longer than the demo lasts, so on any machine it is killed while it packs.
        self.start_worker("A", packing=2 * LIMIT)
        await self.until_at_work()
        run = await self._client.start(order, "4711", 1200)
        self.say("client", f"starts the order 4711 as run {run.id[:13]}…")
        await self.until(run, lambda: bool(story.attempts))
        # Started only now, so that A takes the order.
        self.start_worker("B", packing=2)
        await self.until(run, self.is_midway)
        story.kill()
        self.processes["A"].send_signal(signal.SIGKILL)
        self.processes["A"].wait()
        self.say("demo", f"☠ kill -9 {self.processes['A'].pid}, with pack in flight", "bold red")
        await self.until(run, lambda: bool(story.journal) and story.journal[-1].kind == "ended")
        return self.checks(await run.result(timeout=5))

    def start_worker(self, letter: str, packing: float) -> None:
        command = [sys.executable, str(Path(__file__).with_name("demo_workflow.py")), self._client.url]
        log = (self._folder / f"worker-{letter}.log").open("wb")
        with log:
            environ = {**os.environ, EFFECTS: str(self.story.effects), PACKING: str(packing)}
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environ)
        self.processes[letter] = process
        self.story.workers[process.pid] = letter
        self.say(letter, f"is started, pid {process.pid}")

    def is_midway(self) -> bool:
        """Whether something is recorded, something waits for its retry, and something is in flight."""
        is_in_flight = any(one.how == "in flight" and self.now() - one.began > 0.8 for one in self.story.of("pack"))
        is_retrying = any(entry.kind == "step_retrying" for entry in self.story.journal)
        return is_in_flight and is_retrying and self.story.recorded("invoice") is not None

    async def until_at_work(self) -> None:
        while not await self._client.workers():  # noqa: ASYNC110  # it happens in another process
            await asyncio.sleep(0.02)

    async def until(self, run: AsyncRun[Receipt], is_so: Callable[[], bool]) -> None:
        """Show what happens until the condition holds."""
        while not is_so():
            for line in self.story.look(await self._client.journal(run.id)):
                self._console.print(line, soft_wrap=True)
            self.draw()
            await asyncio.sleep(0.03)

    def say(self, who: str, says: str, style: str = "") -> None:
        self._console.print(self.story.line(self.now(), who, says, style), soft_wrap=True)
        self.draw()

    def now(self) -> float:
        ended = [entry.at.timestamp() for entry in self.story.journal if entry.kind == "ended"]
        return ended[0] if ended else self.story.clock()

    def draw(self) -> None:
        if self._live is not None:
            self._live.update(Group("", self.chart()), refresh=True)

    def chart(self) -> Table:
        return self.story.chart(self.now(), self._console.width)

    def checks(self, receipt: Receipt) -> list[tuple[bool, str]]:
        """Compare the journal with the effects file."""
        story = self.story
        steps = ["reserve", "invoice", "charge", "pack", "ship"]
        results = [str(entry.key) for entry in story.journal if entry.kind == "step_completed"]
        replayed = [step for step in ("reserve", "invoice") if [one.worker for one in story.of(step)] == ["A"]]
        packed = [(one.worker, one.how) for one in story.of("pack")]
        charged = [(one.worker, one.number, one.how) for one in story.of("charge")]
        return [
            (receipt == EXPECTED, "the receipt is right"),
            (self.processes["A"].returncode == -signal.SIGKILL, "worker A died of SIGKILL"),
            (sorted(results) == sorted(steps), "every step has one result in the journal"),
            (replayed == ["reserve", "invoice"], "reserve and invoice were recorded, so B did not execute them again"),
            (packed == [("A", "killed"), ("B", "end")], "pack was in flight, so B executed it again, to its end"),
            (charged == [("A", 1, "fail"), ("B", 2, "end")], "the failed charge was counted: B made attempt 2"),
            ([one.worker for one in story.of("ship")] == ["B"], "ship was executed once, by B"),
        ]

    def end_workers(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=5)
                process.kill()
            process.wait()

    def print_logs(self) -> None:
        for letter in self.processes:
            self._console.print(f"worker {letter} said:", Text((self._folder / f"worker-{letter}.log").read_text()))


def journal_lines(story: Story) -> Iterator[Text]:
    """The journal, one row a turn, and which worker wrote each."""
    turn = None
    for entry in story.journal:
        writer = "A" if entry.epoch == 1 else "B"
        what = " ".join(filter(None, [entry.kind, entry.key, f"({entry.note})" if entry.note else None]))
        yield Text.assemble(
            (f"  {f'turn {entry.seq}' if entry.seq != turn else '':<8}", "dim"), (f"{writer}  ", COLOURS[writer]), what
        )
        turn = entry.seq


async def main() -> int:
    console = Console(highlight=False)
    console.print("[bold]Holdfast[/]: one order, two workers, one kill -9, one SQLite file\n")
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as name:
        folder = Path(name)
        live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        async with AsyncClient(f"sqlite:///{folder / 'orders.db'}") as client:
            demo = Demo(folder, client, console, live)
            try:
                with live or contextlib.nullcontext():
                    async with asyncio.timeout(LIMIT):
                        checks = await demo.play()
            except TimeoutError:
                checks = [(False, f"the order did not end within {LIMIT} s")]
            finally:
                demo.end_workers()
            if live is None:
                console.print("", demo.chart())
            console.print("\n[bold]The journal[/], one commit a turn:", *journal_lines(demo.story), "", sep="\n")
            for is_right, says in checks:
                console.print(f"  [green]✓[/] {says}" if is_right else f"  [bold red]✗ {says}: it is not so[/]")
            if all(is_right for is_right, _ in checks):
                return 0
            demo.print_logs()
            return 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

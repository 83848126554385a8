"""Live workers, and runs that nobody serves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from holdfast.client import Client
from holdfast.model import LIVE, Lane, RunFilter, RunRecord, counted

from .checks import Check, fine, mend, note

LOOKED_AT = 20_000


def check_fleet(client: Client, *, most: int = LOOKED_AT) -> Iterator[Check]:
    """Check workers and live runs. Only the newest `most` runs are read, which takes a second or two."""
    workers = client.workers()
    records = [run.record for run in islice(client.runs(RunFilter(status=LIVE)), most) if run.record is not None]
    hosts = ", ".join(sorted({one.host for one in workers}))
    if workers:
        yield fine("workers", f"{len(workers)} alive on {hosts}")
    else:
        yield note("workers", "none is alive", "holdfast worker")
    if len(records) == most:
        alive = sum(one.counts.get(status, 0) for one in client.workflows() for status in LIVE)
        told = f"the newest {most} of {alive} were looked at; what follows says nothing about the others"
        yield note(
            "live runs", told, "`holdfast runs --status waiting --until 30d` lists older ones, by when they began"
        )
    yield from _unserved(records, {lane for one in workers for lane in one.lanes})
    blocked = [one for one in records if one.blocked is not None]
    for record in blocked[:5]:
        yield mend("blocked run", f"{record.id} of {record.workflow!r}: {record.blocked}", f"holdfast why {record.id}")
    if len(blocked) > 5:
        yield mend("blocked run", f"and {len(blocked) - 5} more", "holdfast runs --json")


def _unserved(records: list[RunRecord], lanes: set[Lane]) -> Iterator[Check]:
    counts = Counter(Lane(one.workflow, one.version, one.queue) for one in records)
    unserved = {lane: count for lane, count in counts.items() if lane not in lanes}
    for lane, count in sorted(unserved.items()):
        what = f"{lane.workflow!r}, version {lane.version!r}, queue {lane.queue!r}"
        told = f"{counted(count, 'live run')} of {what}: no worker serves that"
        yield mend("runs without a worker", told, "start a worker with that code and queue, or cancel the runs")
    if counts and not unserved:
        yield fine("live runs", f"{sum(counts.values())}, each with a worker that knows it")

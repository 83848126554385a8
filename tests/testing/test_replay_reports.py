"""What replay says of code that no longer matches: what the journal holds is what stands there."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import JournalDiverged, workflow
from holdfast.testing import Environment, replay


@workflow(name="nap")
async def naps_twice() -> None:
    await holdfast.sleep("1h")
    await holdfast.sleep("1h")


@workflow(name="nap")
async def naps_once() -> None:
    await holdfast.sleep("1h")


async def test_a_report_says_that_the_body_ended_before_the_last_input():
    async with Environment(naps_twice) as env:
        run = await env.client.start(naps_twice)
        await run.result()
        journal = await env.client.journal(run.id)
    with pytest.raises(JournalDiverged, match=r"at entry 2\.\n.*holds: timer 1 fired\n.*asked for: the end of the run"):
        replay(journal, naps_once)


async def test_a_report_says_that_the_journal_holds_nothing_more_than_the_body():
    async with Environment(naps_twice) as env:
        run = await env.client.start(naps_twice)
        await env.skip("90m")
        journal = await env.client.journal(run.id)
    with pytest.raises(JournalDiverged, match=r"at entry 2\.\n.*holds: nothing more\n.*asked for: the end of the run"):
        replay(journal, naps_once)

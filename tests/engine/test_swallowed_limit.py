"""The journal's limit: not to be outlived."""

from __future__ import annotations

from holdfast import JournalLimitReached, workflow
from tests.engine.samples import double


def test_a_body_that_swallows_the_limit_does_not_go_on_for_ever(begin):
    """A poller that survives every error is an ordinary program; it must not hold the worker's loop for good."""
    swallowed: list[int] = []

    @workflow(journal_limit=5)
    async def body() -> None:
        while len(swallowed) < 20_000:
            try:
                await double(1)
            except Exception:
                swallowed.append(1)

    drive = begin(body).finish(limit=50_000)
    assert isinstance(drive.error, JournalLimitReached)
    assert len(swallowed) < 20_000

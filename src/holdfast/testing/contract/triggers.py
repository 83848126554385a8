"""Triggers: workflows that begin a run for each event of a name."""

from __future__ import annotations

from holdfast.model import SECOND, Declared, Lane, Registration, Trigger

from .stage import LEASE, T0, Stage, after, on_stage


@on_stage
class TestTriggers:
    async def test_a_workflow_that_declares_an_event_is_found_by_it(self, stage: Stage) -> None:
        await declare(stage, "ship", "1", on_event="paid", match=b'{"a":1}', queue="slow")
        await declare(stage, "send", "1", on_event="other")
        assert await stage.store.list_triggers("paid") == [trigger("1", "slow", b'{"a":1}')]
        assert await stage.store.list_triggers("nothing") == []

    async def test_the_newest_version_counts(self, stage: Stage) -> None:
        await declare(stage, "ship", "1", on_event="paid")
        await declare(stage, "ship", "2", seconds=1, on_event="paid")
        assert await stage.store.list_triggers("paid") == [trigger("2")]
        await declare(stage, "ship", "3", seconds=2, on_event="sent")
        assert await stage.store.list_triggers("paid") == []
        assert [one.version for one in await stage.store.list_triggers("sent")] == ["3"]

    async def test_a_newer_version_without_a_declaration_does_not_count(self, stage: Stage) -> None:
        await declare(stage, "ship", "1", on_event="paid")
        await stage.store.register_worker("plain", [Lane("ship", "2")], LEASE, now=T0 + SECOND)
        assert await stage.store.list_triggers("paid") == [trigger("1")]

    async def test_a_worker_without_a_declaration_of_a_version_leaves_the_earlier_one(self, stage: Stage) -> None:
        await declare(stage, "ship", "1", on_event="paid")
        await stage.store.register_worker("plain", [Lane("ship", "1")], LEASE, now=T0 + SECOND)
        assert await stage.store.list_triggers("paid") == [trigger("1")]

    async def test_a_version_may_be_declared_anew(self, stage: Stage) -> None:
        await declare(stage, "ship", "1", on_event="paid")
        await declare(stage, "ship", "1", on_event="sent")
        assert await stage.store.list_triggers("paid") == []
        assert len(await stage.store.list_triggers("sent")) == 1

    async def test_after_a_deploy_was_taken_back_the_version_that_live_workers_have_counts(self, stage: Stage) -> None:
        await declare(stage, "ship", "1", on_event="paid")
        await declare(stage, "ship", "2", seconds=1, on_event="paid")
        await stage.store.remove_worker("ship 2")
        assert await stage.store.list_triggers("paid", now=after(2)) == [trigger("1")]

    async def test_a_newer_version_of_a_worker_whose_lease_has_lapsed_counts_no_more(self, stage: Stage) -> None:
        await declare(stage, "ship", "2", seconds=1, on_event="sent")
        await declare(stage, "ship", "1", on_event="paid")
        assert await stage.store.list_triggers("paid", now=after(1)) == []
        lapsed = after(2) + LEASE
        await declare(stage, "ship", "1", seconds=(lapsed - T0) / SECOND, on_event="paid")
        assert await stage.store.list_triggers("paid", now=lapsed) == [trigger("1")]
        assert await stage.store.list_triggers("sent", now=lapsed) == []

    async def test_of_several_versions_that_live_workers_have_the_newest_counts(self, stage: Stage) -> None:
        for version in ("1", "2", "3"):
            await declare(stage, "ship", version, seconds=int(version), on_event="paid")
        await stage.store.remove_worker("ship 3")
        assert await stage.store.list_triggers("paid", now=after(4)) == [trigger("2")]

    async def test_if_no_worker_is_alive_the_newest_version_counts(self, stage: Stage) -> None:
        for version in ("1", "2"):
            await declare(stage, "ship", version, seconds=int(version), on_event="paid")
            await stage.store.remove_worker(f"ship {version}")
        assert await stage.store.list_triggers("paid", now=after(3)) == [trigger("2")]

    async def test_a_run_gets_a_queue_that_live_workers_serve_if_they_do_not_serve_the_declared_one(
        self, stage: Stage
    ) -> None:
        declared = Declared(queue="slow", on_event="paid", deadline=SECOND, retention=None)
        workflows = [Registration("ship", "1", declared)]
        await stage.store.register_worker("one", [Lane("ship", "1", "fast")], LEASE, workflows=workflows, now=T0)
        assert await stage.store.list_triggers("paid", now=T0) == [trigger("1", "fast")]


async def declare(
    stage: Stage,
    workflow: str,
    version: str,
    *,
    on_event: str,
    match: bytes | None = None,
    queue: str = "default",
    seconds: float = 0,
) -> None:
    declared = Declared(queue=queue, on_event=on_event, match=match, deadline=SECOND, retention=None)
    await stage.store.register_worker(
        f"{workflow} {version}",
        [Lane(workflow, version, queue)],
        LEASE,
        workflows=[Registration(workflow, version, declared)],
        now=T0 + round(seconds * SECOND),
    )


def trigger(version: str, queue: str = "default", match: bytes | None = None) -> Trigger:
    """The trigger that a version of "ship" declares for the event "paid"."""
    return Trigger("ship", version, queue, "paid", match, deadline=SECOND, retention=None)

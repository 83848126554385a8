"""Chunk runs own the child runs of a map: these tests drive the mapping body and the chunk run by hand."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast import Failure, RunCancelled, workflow
from holdfast.codec import Codec
from holdfast.define import CHUNK_RUNS
from holdfast.engine import Execution
from holdfast.errors import NotDecodable
from holdfast.model import ChildAsked, ChildEnd
from tests.engine.conftest import Begin
from tests.engine.drive import CODEC, Drive


@dataclass
class Parcel:
    name: str
    at: datetime


@workflow
async def ship(parcel: Parcel) -> Parcel:
    return parcel


@workflow
async def double(n: int) -> int:
    return 2 * n


def chunk_of(begin: Begin, calls: list[str], **given: Any) -> Drive:
    """A chunk run that has begun."""
    order = {"workflow": "double", "version": "1", "queue": "default", "share": 2, "collects": False, **given}
    args, _ = CODEC.arguments(CHUNK_RUNS.fn).unpack(msgspec.json.encode([order, calls]))
    return begin(CHUNK_RUNS, *args)


def begun(drive: Drive, turn: int = -1) -> list[str | None]:
    """The keys of the child runs that a turn began."""
    return [child.parent_key for child in drive.out[turn].children]


def ids(drive: Drive) -> tuple[str, ...]:
    """The ids of the runs that the first turn began."""
    return tuple(child.id for child in drive.out[0].children)


def inputs(drive: Drive) -> list[Any]:
    """What the runs that were begun so far were begun with, as it is stored."""
    return [msgspec.json.decode(child.input) for out in drive.out for child in out.children]


def item_ends(drive: Drive, key: str, text: bytes) -> None:
    end = ChildEnd(drive.execution.life.children[key].new.id, "completed", text, None)
    drive.tell("child", key, msgspec.msgpack.encode(end))


def item_fails(drive: Drive, key: str, stored: bytes | None) -> None:
    status = "cancelled" if stored is None else "failed"
    end = ChildEnd(drive.execution.life.children[key].new.id, status, None, stored)
    drive.tell("child", key, msgspec.msgpack.encode(end))


class TestTheRunThatMaps:
    def test_a_map_over_a_workflow_begins_a_run_for_each_chunk_and_none_for_an_item(self, begin):
        @workflow
        async def body() -> list[int]:
            return await holdfast.map(double, range(5), chunk=2)

        drive = begin(body)
        assert begun(drive) == ["holdfast.map", "holdfast.map:1", "holdfast.map:2"]
        drive.child_ends("holdfast.map:2", (["8"], {}))
        drive.child_ends("holdfast.map", (["0", "2"], {}))
        drive.child_ends("holdfast.map:1", (["4", "6"], {}))
        assert drive.check().result == [0, 2, 4, 6, 8]
        assert sum(isinstance(entry, ChildAsked) for entry in drive.entries) == 3

    @pytest.mark.parametrize(
        ("items", "options", "shares"),
        [
            (5, {"concurrency": 10}, [10]),
            (20, {"concurrency": 10, "chunk": 4}, [3, 3, 2, 2]),
            (8, {"concurrency": 10, "chunk": 4}, [5, 5]),
            (20, {"concurrency": 10, "chunk": 1}, [1] * 10),
            (20, {"concurrency": 3, "chunk": 1}, [1] * 3),
            (20, {"concurrency": 1, "chunk": 5}, [1]),
            (1000, {"concurrency": 50}, [13, 13, 12, 12]),
        ],
    )
    def test_chunk_runs_together_have_no_more_items_under_way_than_the_concurrency(self, begin, items, options, shares):
        @workflow
        async def body() -> list[int]:
            return await holdfast.map(double, range(items), **options)

        drive = begin(body)
        assert [order["share"] for order, _ in inputs(drive)] == shares

    def test_large_items_make_small_chunks(self, begin):
        @workflow
        async def body() -> list[Parcel]:
            at = datetime(2030, 1, 1, tzinfo=UTC)
            return await holdfast.map(ship, [Parcel("x" * 100_000, at)] * 6, concurrency=6)

        assert [len(calls) for _, calls in inputs(begin(body))] == [2, 2, 2]

    def test_no_chunk_has_more_than_a_thousand_items(self, begin, monkeypatch):
        monkeypatch.setattr("holdfast.define.maps._CHUNKS", 1)

        @workflow
        async def body() -> list[int]:
            return await holdfast.map(double, range(1_001))

        assert [len(calls) for _, calls in inputs(begin(body))] == [1_000, 1]

    def test_the_next_chunk_gets_the_share_of_the_one_that_ended(self, begin):
        @workflow
        async def body() -> list[int]:
            return await holdfast.map(double, range(6), chunk=1, concurrency=2)

        drive = begin(body)
        drive.child_ends("holdfast.map:1", (["2"], {}))
        assert begun(drive) == ["holdfast.map:2"]

    def test_items_and_results_are_typed_by_the_workflow(self, begin):
        noon = datetime(2030, 1, 1, 12, tzinfo=UTC)

        @workflow
        async def body() -> list[Parcel]:
            found = await holdfast.map(ship, [Parcel("ä", noon)])
            assert found == [Parcel("ä", noon)]
            return found

        drive = begin(body)
        [[_, [call]]] = inputs(drive)
        # The very bytes that a run of the workflow itself would be begun with.
        assert call.encode() == CODEC.arguments(ship.fn).pack((Parcel("ä", noon),), {})
        drive.child_ends("holdfast.map", ([call[1:-1]], {}))
        assert drive.check().result == [Parcel("ä", noon)]

    def test_a_result_that_can_not_be_read_blocks_the_run_that_maps(self, begin):
        @workflow
        async def body() -> list[int]:
            return await holdfast.map(double, range(2))

        drive = begin(body)
        with pytest.raises(NotDecodable):
            drive.child_ends("holdfast.map", (["0", '"two"'], {}))

    def test_an_item_that_does_not_fit_the_workflow_is_refused_before_anything_begins(self, begin):
        @workflow
        async def body() -> str:
            try:
                await holdfast.map(double, [1, "two"])  # type: ignore[list-item]
            except holdfast.BadArguments as error:
                return str(error)
            return "taken"

        assert "double(): argument n" in begin(body).check().result.replace("test_chunk_runs.", "")

    def test_options_go_to_the_items_and_their_queue_to_the_chunk_run(self, begin):
        moment = datetime(2030, 1, 1, tzinfo=UTC)

        @workflow
        async def body() -> list[int]:
            chosen = double.options(queue="slow", priority=3, tags={"a": "b"}, delay="5m", deadline=moment)
            return await holdfast.map(chosen, [1])

        drive = begin(body)
        [chunk] = drive.out[0].children
        assert (chunk.queue, chunk.priority, chunk.tags, chunk.due_at) == ("slow", 3, {}, None)
        order, calls = msgspec.json.decode(chunk.input)
        inside = chunk_of(begin, calls, **order)
        [item] = inside.out[0].children
        assert (item.queue, item.priority, item.tags) == ("slow", 3, {"a": "b"})
        assert (item.due_at, item.deadline_at) == (inside.at + 300_000_000, round(moment.timestamp() * 1_000_000))

    def test_items_have_the_declared_options_of_their_workflow_and_those_given_to_the_map(self, begin):
        moment = datetime(2030, 1, 1, tzinfo=UTC)

        @workflow(deadline="1h", retention="1d", version="7")
        async def declared(n: int) -> int:
            return n

        @workflow
        async def body() -> list[int]:
            return await holdfast.map(declared.options(delay=moment, on_parent_end="abandon"), [1])

        [chunk] = begin(body).out[0].children
        order, calls = msgspec.json.decode(chunk.input)
        inside = chunk_of(begin, calls, **order)
        [item] = inside.out[0].children
        assert (item.version, item.on_parent_end) == ("7", "abandon")
        assert (item.due_at, item.deadline_at) == (round(moment.timestamp() * 1_000_000), inside.at + 3_600_000_000)
        assert (chunk.retention, item.retention) == (86_400_000_000, 86_400_000_000)

    def test_a_chunk_run_that_ends_before_all_of_its_items_are_done_is_followed_by_another(self, begin):
        @workflow
        async def body() -> list[int]:
            return await holdfast.map(double, range(5), chunk=3, concurrency=1)

        drive = begin(body)
        drive.child_ends("holdfast.map", (["0"], {}))
        drive.child_ends("holdfast.map:1", (["2", "4"], {}))
        drive.child_ends("holdfast.map:2", (["6", "8"], {}))
        assert [calls for _, calls in inputs(drive)] == [["[0]", "[1]", "[2]"], ["[1]", "[2]"], ["[3]", "[4]"]]
        assert drive.check().result == [0, 2, 4, 6, 8]

    @pytest.mark.parametrize("options", [{"id": "one"}, {"key": "one"}])
    def test_one_id_or_key_for_all_items_is_refused(self, begin, options):
        @workflow
        async def body() -> str:
            try:
                await holdfast.map(double.options(**options), [1, 2])
            except holdfast.DefinitionError as error:
                return str(error)
            return "taken"

        assert "every item would be the same run" in begin(body).result

    def test_a_chunk_run_that_fails_itself_is_a_failure_of_all_its_items(self, begin):
        @workflow
        async def body() -> list[str]:
            found = await holdfast.map(double, range(3), chunk=2, on_error="collect")
            return [one.type if isinstance(one, Failure) else str(one) for one in found]

        drive = begin(body)
        drive.child_ends("holdfast.map", error=holdfast.PayloadTooLarge("too large"))
        drive.child_ends("holdfast.map:1", (["4"], {}))
        assert drive.check().result == ["PayloadTooLarge", "PayloadTooLarge", "4"]


class TestTheChunkRun:
    def test_a_chunk_run_has_no_more_items_under_way_than_its_share(self, begin):
        drive = chunk_of(begin, ["[1]", "[2]", "[3]"])
        assert begun(drive) == ["double", "double:1"]
        assert [child.input for child in drive.out[0].children] == [b"[1]", b"[2]"]
        item_ends(drive, "double:1", b"4")
        assert begun(drive) == ["double:2"]
        item_ends(drive, "double:2", b'{"as": "it is"}')
        item_ends(drive, "double", b"2")
        assert drive.check().result == (["2", "4", '{"as": "it is"}'], {})

    def test_a_chunk_run_begins_no_more_items_when_its_results_are_large(self, begin):
        drive = chunk_of(begin, ["[1]", "[2]", "[3]", "[4]"])
        item_ends(drive, "double:1", b'"' + b"x" * 2_000_000 + b'"')
        item_ends(drive, "double", b"2")
        results, failures = drive.check().result
        assert ([len(result) for result in results], failures) == ([1, 2_000_002], {})

    def test_a_chunk_run_replays_in_a_worker_with_another_payload_limit(self, begin):
        @workflow
        async def body() -> list[int]:
            return await holdfast.map(double, range(4), concurrency=2)

        order, calls = msgspec.json.decode(begin(body).out[0].children[0].input)
        drive = chunk_of(begin, calls, **order)
        item_ends(drive, "double", b'"' + b"x" * 100 + b'"')
        assert begun(drive) == ["double:2"]
        other = Codec(max_payload=200)
        execution = Execution(CHUNK_RUNS, drive.execution.run, drive.input, drive.seed, other, drive.runners)
        drive.lives.append(execution)
        execution.replay(drive.entries)
        assert list(execution.life.children) == ["double:1", "double:2"]

    def test_an_item_that_fails_ends_its_chunk_run_with_that_error_and_cancels_the_others(self, begin):
        drive = chunk_of(begin, ["[1]", "[2]", "[3]"])
        # An error of a class that is missing here: this worker need not know the workflow of the items.
        known = msgspec.json.decode(CODEC.encode_exception(ValueError("no")))
        stored = msgspec.json.encode({**known, "module": "shop.errors", "name": "SoldOut", "rebuild": True})
        item_fails(drive, "double", stored)
        assert (drive.status, drive.out[-1].cancels) == ("failed", ids(drive)[1:])
        told = msgspec.json.decode(drive.check().ended.error)
        assert told == {**msgspec.json.decode(stored), "notes": [f"in the child run {ids(drive)[0]} of 'double'"]}

    def test_failures_are_collected_in_their_places(self, begin):
        drive = chunk_of(begin, ["[1]", "[2]", "[3]"], collects=True)
        item_fails(drive, "double", CODEC.encode_exception(ValueError("no")))
        item_fails(drive, "double:1", None)
        item_ends(drive, "double:2", b"6")
        results, failures = drive.check().result
        assert (results, failures[0]) == ([None, None, "6"], ("ValueError", "no"))
        assert failures[1][0] == "RunCancelled"

    def test_a_cancelled_item_is_run_cancelled_to_the_body_that_maps(self, begin):
        drive = chunk_of(begin, ["[1]"])
        item_fails(drive, "double", None)
        error = drive.check().error
        assert (type(error), getattr(error, "run_id", None)) == (RunCancelled, ids(drive)[0])

    def test_a_cancel_of_a_chunk_run_cancels_its_items(self, begin):
        drive = chunk_of(begin, ["[1]", "[2]", "[3]"])
        drive.cancel()
        assert (drive.status, drive.out[-1].cancels) == ("cancelled", ids(drive))

    def test_abandoned_items_are_not_cancelled_with_their_chunk_run(self, begin):
        drive = chunk_of(begin, ["[1]"], on_parent_end="abandon")
        assert drive.out[0].children[0].on_parent_end == "abandon"
        drive.cancel()
        assert (drive.status, len(drive.out)) == ("cancelled", 1)

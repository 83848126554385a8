"""Journals written by an earlier version still mean what they meant. `python -m tests.engine.golden` wrote them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from holdfast.model import Ended, RunRetrying, StepAsked, decode_entries, encode_entries, history_of
from holdfast.testing import replay
from tests.engine.drive import CODEC, Drive
from tests.engine.golden.__main__ import HERE, JOURNALS, readable
from tests.engine.golden.orders import OutOfStock


def kept(name: str) -> dict[str, Any]:
    return json.loads((HERE / f"{name}.json").read_text("utf-8"))


def entries(name: str):
    return decode_entries(bytes.fromhex(kept(name)["entries"]))


def inputs(name: str) -> tuple[Any, ...]:
    workflow, _ = JOURNALS[name]
    args, _ = CODEC.arguments(workflow.fn).unpack(CODEC.open(bytes.fromhex(kept(name)["input"])))
    return args


@pytest.mark.parametrize("name", JOURNALS)
def test_a_stored_journal_can_be_read(name):
    stored = bytes.fromhex(kept(name)["entries"])
    assert [readable(one) for one in msgspec.msgpack.decode(stored)] == kept(name)["readable"]
    assert entries(name)


@pytest.mark.parametrize("name", JOURNALS)
def test_a_stored_journal_is_encoded_again_to_the_same_fields(name):
    """Fields that were added later stand behind the stored ones."""
    stored = msgspec.msgpack.decode(bytes.fromhex(kept(name)["entries"]))
    again = msgspec.msgpack.decode(encode_entries(entries(name)))
    assert [one[: len(was)] for one, was in zip(again, stored, strict=True)] == stored
    assert decode_entries(encode_entries(entries(name))) == entries(name)


@pytest.mark.parametrize("name", JOURNALS)
def test_a_stored_input_is_packed_again_to_the_same_bytes(name):
    workflow, _ = JOURNALS[name]
    assert CODEC.seal(CODEC.arguments(workflow.fn).pack(inputs(name), {})).hex() == kept(name)["input"]


@pytest.mark.parametrize("name", JOURNALS)
def test_a_stored_journal_replays_to_the_same_end(name):
    workflow, _ = JOURNALS[name]
    replayed = replay(entries(name), workflow, args=inputs(name))
    assert replayed.status == entries(name)[-1].status


@pytest.mark.parametrize("name", JOURNALS)
def test_a_stored_journal_replays_from_every_point(name):
    workflow, _ = JOURNALS[name]
    stored = entries(name)
    for length in range(1, len(stored)):
        if isinstance(stored[length], StepAsked | RunRetrying | Ended):
            # What follows from an input is in the same row: no journal ends between them.
            continue
        history = history_of(stored[:length])
        drive = Drive(workflow, *inputs(name), seed=bytes.fromhex(kept(name)["seed"]), begin=False)
        drive.execution.replay(history.entries)
        assert drive.execution.fault is None, f"after {length} entries"
        drive.close()


@pytest.mark.parametrize("name", JOURNALS)
def test_the_same_inputs_still_make_the_stored_journal(name):
    """Digests, results, errors, dice and ends, byte for byte; only tracebacks differ with the lines of the code."""
    _, made = JOURNALS[name]
    drive = made()
    assert [_without_errors(one) for one in drive.entries] == [_without_errors(one) for one in entries(name)]
    drive.close()


def _without_errors(entry: Any) -> Any:
    return msgspec.structs.replace(entry, error=None) if getattr(entry, "error", None) else entry


@pytest.mark.parametrize("name", JOURNALS)
def test_stored_errors_come_back_as_their_own_class(name):
    expected = {"checkout": [OutOfStock, OutOfStock], "race": [], "report": [ConnectionError, ConnectionError]}
    found = [CODEC.decode_exception(one.error) for one in entries(name) if getattr(one, "error", None)]
    assert [type(one) for one in found] == expected[name]

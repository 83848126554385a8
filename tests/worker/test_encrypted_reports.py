"""What an encrypted database holds of messages that did not fit and of runs that are blocked: nothing in plain text,
and all of it for whoever has the key."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

import holdfast
from holdfast import AesGcm, AsyncClient, Codec, IOInBody, Worker, step, workflow
from holdfast.client import AsyncRun
from holdfast.define import Workflow
from holdfast.testing import Environment
from tests.life.waiting import until, until_waiting

CODEC = Codec(chain=[AesGcm({"first": bytes(32)}, primary="first")])
OTHER = Codec(chain=[AesGcm({"second": bytes(32)}, primary="second")])


@dataclass
class Payment:
    card: Literal["visa"]


@step
async def charge(card: str) -> str:
    return f"receipt for {card}"


@workflow
async def pays_late(card: str) -> None:
    await charge(card)
    await holdfast.wait_for_signal("begin")
    await holdfast.wait_for_signal("pay", type=Payment)


@workflow(name="changes")
async def before(card: str) -> None:
    await charge(card)
    await holdfast.wait_for_signal("go")


@workflow(name="changes")
async def after(card: str) -> None:
    raise ValueError(f"not {card}")


@asynccontextmanager
async def serving(url: str, body: Workflow[..., Any], codec: Codec = CODEC) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(url, codec=codec) as client, Worker(client, workflows=[body]):
        yield client


async def until_told(client: AsyncClient, run: AsyncRun[Any], words: str) -> str:
    """What `explain` says once it says these words."""

    async def is_told() -> bool:
        return words in str(await client.explain(run.id))

    await until(is_told)
    return str(await client.explain(run.id))


def stored(url: str) -> bytes:
    """All bytes of the database: its file and what lies beside it."""
    file = Path(url.removeprefix("sqlite:///"))
    return b"".join(one.read_bytes() for one in file.parent.glob(f"{file.name}*") if one.is_file())


async def set_aside(client: AsyncClient) -> AsyncRun[Any]:
    """A run that has set a signal aside: nobody could know its type when it was sent."""
    run = await client.start(pays_late, "x")
    await until_waiting(run)
    await run.signal("pay", {"card": "SECRET-4242"})
    await run.signal("begin")
    await until_told(client, run, "set aside")
    return run


async def blocked(url: str) -> AsyncRun[Any]:
    """A run whose code has changed: the new code raises an error that quotes the run's input."""
    async with serving(url, before) as client:
        run = await client.start(before, "SECRET-4242")
        await until_waiting(run)
    async with serving(url, after) as client:
        await client.signal(run.id, "go")
        await until_told(client, run, "is blocked")
    return run


async def test_why_a_message_was_set_aside_is_not_stored_in_plain_text(database_url):
    async with serving(database_url, pays_late) as client:
        await set_aside(client)
        assert b"SECRET" not in stored(database_url)


async def test_why_a_message_was_set_aside_is_told_to_whoever_has_the_key(database_url):
    async with serving(database_url, pays_late) as client:
        run = await set_aside(client)
        assert "SECRET-4242" in str(await client.explain(run.id))
        notes = [entry.note for entry in await client.journal(run.id) if entry.kind == "set_aside"]
        assert len(notes) == 1
        assert "SECRET-4242" in notes[0]


async def test_what_blocks_a_run_is_not_stored_in_plain_text(database_url):
    await blocked(database_url)
    assert b"SECRET" not in stored(database_url)


async def test_what_blocks_a_run_is_told_to_whoever_has_the_key(database_url):
    run = await blocked(database_url)
    async with AsyncClient(database_url, codec=CODEC) as client:
        assert "not SECRET-4242" in str(await client.explain(run.id))
        record = (await client.get_run(run.id)).record
        assert record.blocked.startswith("JournalDiverged: ")
        [listed] = [one.record.blocked async for one in client.runs(holdfast.RunFilter(workflow="changes"))]
        assert listed == record.blocked


async def test_whoever_lacks_the_key_is_told_which_one_what_blocks_a_run_is_encrypted_with(database_url):
    run = await blocked(database_url)
    async with AsyncClient(database_url, codec=OTHER) as client:
        told = str(await client.explain(run.id))
    assert "SECRET" not in told
    assert "encrypted with the key 'first'" in told


@workflow
async def opens_a_file(name: str) -> None:
    Path(name).read_text()


async def test_a_test_raises_the_error_that_blocks_its_run_also_if_it_is_stored_encrypted():
    async with Environment(workflows=[opens_a_file], codec=CODEC) as env:
        run = await env.client.start(opens_a_file, "SECRET-4242")
        with pytest.raises(IOInBody, match="SECRET-4242"):
            await run.result()


def test_a_message_that_only_looks_sealed_is_read_as_it_is():
    for text in ("sealed:", "sealed:AAA", "sealed: no", "sealed:AAAA\x00"):
        assert CODEC.opened_text(text) == text


class Broken:
    id = "broken"
    encrypts = True

    def apply(self, data: bytes) -> bytes:
        raise ConnectionError("the key server is away")

    def revert(self, data: bytes) -> bytes:
        return data


def test_a_message_that_can_t_be_encrypted_is_not_stored_in_plain_text():
    said = Codec(chain=[Broken()]).sealed_text("NotDecodable: SECRET")
    assert said == "NotDecodable: what it says could not be encrypted (ConnectionError)"

"""Exports and archives of an encrypted database: files that go where the keys must not."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast import AesGcm, AsyncClient, Codec, FatalError, Worker, Zstd, step, workflow
from holdfast.client import Imported, read_archive

CODEC = Codec(chain=[AesGcm({"k": bytes(32)}, primary="k")])
PACKED = Codec(chain=[Zstd(threshold=1)])


@step
async def charge(card: str) -> str:
    return f"receipt for {card}"


@step
async def refuse(card: str) -> str:
    raise FatalError(f"no {card}")


@workflow
async def pay(card: str) -> str:
    try:
        await refuse(card)
    except FatalError:
        return await charge(card)
    return ""


async def paid(client: AsyncClient) -> str:
    """The id of a run that has completed, with an error in its journal."""
    async with Worker(client, workflows=[pay]):
        run = await client.start(pay, "SECRET-4242")
        assert await run.result("30s") == "receipt for SECRET-4242"
    return run.id


@pytest.fixture
def client(database_url: str) -> Iterator[AsyncClient]:
    client = AsyncClient(database_url, codec=CODEC)
    yield client
    asyncio.run(client.close())


def unpacked(line: str) -> bytes:
    """All that a line says, with what is under `data` as bytes."""
    told: dict[str, Any] = json.loads(line)
    return line.encode() + base64.b64decode(told["data"])


async def test_an_export_of_an_encrypted_run_shows_no_value_and_no_error(client):
    line = await client.export(await paid(client))
    assert b"SECRET" not in unpacked(line)
    told = json.loads(line)
    assert told["encrypted"] is True
    assert {"refuse", "charge"} <= {entry.get("key") for entry in told["journal"]}


async def test_an_archive_of_an_encrypted_run_shows_no_value_and_no_error(client, tmp_path):
    await paid(client)
    file = tmp_path / "old.jsonl"
    assert (await client.prune(older_than="0s", archive=file)).runs == 1
    assert b"SECRET" not in unpacked(file.read_text())


async def test_whoever_has_the_key_reads_an_encrypted_export(client, tmp_path):
    line = await client.export(await paid(client))
    assert read_archive(line, codec=CODEC)[-1].value == "receipt for SECRET-4242"
    async with AsyncClient(f"sqlite:///{tmp_path / 'other.db'}", codec=CODEC) as other:
        assert await other.import_run(line) is Imported.IMPORTED


async def test_an_export_of_compressed_values_can_be_read_as_it_is(database_url):
    async with AsyncClient(database_url, codec=PACKED) as client:
        told = json.loads(await client.export(await paid(client)))
    assert told["encrypted"] is False
    assert told["journal"][-1]["value"] == "receipt for SECRET-4242"

"""Event streams, read as a browser's EventSource reads them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx


@dataclass
class Told:
    """One event, as a browser's EventSource would read it."""

    kind: str
    id: str | None
    data: Any


async def read(lines: AsyncIterator[str]) -> AsyncIterator[Told]:
    fields: dict[str, str] = {}
    async for line in lines:
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value
        elif not line and fields:
            yield Told(fields["event"], fields.get("id"), json.loads(fields["data"]))
            fields = {}


@asynccontextmanager
async def followed(address: str, path: str, **headers: str) -> AsyncIterator[AsyncIterator[Told]]:
    async with httpx.AsyncClient(timeout=60) as http, http.stream("GET", address + path, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield read(answer.aiter_lines())

"""A wire between a client and a server that can be cut at a chosen moment: before a message arrives, or after it was
acted on and before its answer is back; or that falls silent without being cut. Everything else passes as it is."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit, urlunsplit

Test = Callable[[bytes], bool]


class Wire:
    """`async with Wire(url) as wire:` and connect to `wire.url`."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._parts = parts
        self._target = parts.hostname, parts.port or 5432
        self._cut_before: Test | None = None
        self._cut_after: Test | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.cuts = 0
        self.is_slow = False
        """Whoever connects from now on is never answered."""
        self.unanswered = 0
        self._open = asyncio.Event()
        self._open.set()

    @property
    def url(self) -> str:
        user = f"{self._parts.username}@" if self._parts.username else ""
        port = self._server.sockets[0].getsockname()[1]
        return urlunsplit(self._parts._replace(netloc=f"{user}127.0.0.1:{port}"))

    def cut_before(self, is_wanted: Test) -> None:
        """Cut the connection over which the next such message comes, instead of handing it on."""
        self._cut_before = is_wanted

    def cut_after(self, is_wanted: Test) -> None:
        """Hand the next such message on, wait for the server's answer, and cut the connection instead of giving it."""
        self._cut_after = is_wanted

    def fall_silent(self) -> None:
        """Hand nothing on any more, either way, and cut nothing: as a server does whose processes are halted."""
        self.is_slow = True
        self._open.clear()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.close()
        self._open.set()
        self.cut_all()
        await asyncio.sleep(0)

    def cut_all(self) -> None:
        """Cut what is connected now."""
        for writer in self._writers:
            writer.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_slow:
            self.unanswered += 1
            self._writers.add(writer)
            await reader.read()
            writer.close()
            return
        there_reader, there_writer = await asyncio.open_connection(*self._target)
        self._writers |= {writer, there_writer}
        is_losing = asyncio.Event()
        back = asyncio.create_task(self._back(there_reader, writer, is_losing))
        try:
            while data := await reader.read(1 << 20):
                await self._open.wait()
                if self._cut_before is not None and self._cut_before(data):
                    self._cut_before = None
                    break
                if self._cut_after is not None and self._cut_after(data):
                    self._cut_after = None
                    is_losing.set()
                there_writer.write(data)
                await there_writer.drain()
                if is_losing.is_set():
                    await back
                    break
            else:
                return
            self.cuts += 1
        except OSError:
            pass
        finally:
            back.cancel()
            for one in (writer, there_writer):
                one.close()
                self._writers.discard(one)

    async def _back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_losing: asyncio.Event) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 20):
                await self._open.wait()
                if is_losing.is_set():
                    return
                writer.write(data)
                await writer.drain()
            writer.close()

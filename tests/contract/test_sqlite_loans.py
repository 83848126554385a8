"""Connections that SQLite lends to transactional steps: none stays lent, or open, when a step gives up in between."""

import asyncio
import sqlite3
import threading
from contextlib import asynccontextmanager

import pytest

from holdfast.errors import StoreAway, StoreError
from holdfast.store import open_store
from holdfast.testing.contract.stage import until


@asynccontextmanager
async def opened_store(place):
    store = open_store(f"sqlite:///{place}")
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def is_closed(connection):
    try:
        connection.execute("SELECT 1")
    except sqlite3.ProgrammingError:
        return True
    return False


async def test_a_call_given_up_as_it_gets_the_only_connection_gives_it_back():
    async with opened_store(":memory:") as store:
        loop, lend = asyncio.get_running_loop(), store._writer.lend

        def lend_and_cancel(lent):
            def handed_over(tx):
                # In one turn of the loop: first the one, then the other.
                lent(tx)
                loop.call_soon(beginning.cancel)

            lend(lambda tx: loop.call_soon_threadsafe(handed_over, tx))

        store._writer.lend = lend_and_cancel
        beginning = asyncio.create_task(store.lender(1).lend().begin())
        with pytest.raises(asyncio.CancelledError):
            await beginning
        assert await store.get_run("nobody") is None


async def test_the_only_connection_is_not_handed_to_a_call_whose_loop_was_closed():
    async with opened_store(":memory:") as store:
        loan = store.lender(1).lend()
        await loan.begin()

        async def ask() -> None:
            asyncio.ensure_future(store.lender(1).lend().begin())  # noqa: RUF006  # it is left on purpose
            await asyncio.sleep(0)

        # In line behind the one that has it, on a loop that ends.
        await asyncio.to_thread(asyncio.run, ask())
        await loan.end()
        assert await store.get_run("nobody") is None


async def test_the_only_connection_is_refused_when_the_store_was_closed():
    async with opened_store(":memory:") as store:
        lender = store.lender(1)
    with pytest.raises(StoreError, match="is not open"):
        await lender.lend().begin()


async def test_a_connection_being_opened_for_a_call_that_is_given_up_is_closed(tmp_path):
    async with opened_store(tmp_path / "runs.db") as store:
        lender = store.lender(1)
        is_opening, go_on = threading.Event(), threading.Event()
        opened, lender_opened = [], lender.opened

        def slowly():
            is_opening.set()
            go_on.wait()
            opened.append(lender_opened())
            return opened[0]

        lender.opened = slowly
        beginning = asyncio.create_task(lender.lend().begin())
        await asyncio.to_thread(is_opening.wait)
        beginning.cancel()
        with pytest.raises(asyncio.CancelledError):
            await beginning
        go_on.set()
        assert await until(lambda: bool(opened) and is_closed(opened[0].connection))


async def test_a_loan_whose_end_is_not_waited_for_is_closed(tmp_path):
    async with opened_store(tmp_path / "runs.db") as store:
        loan = store.lender(1).lend()
        await loan.begin()
        connection = loan.connection
        ending = asyncio.create_task(loan.end())
        await asyncio.sleep(0)
        ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
        assert await until(lambda: is_closed(connection))


async def test_the_error_about_a_file_that_is_away_is_not_its_own_cause(tmp_path):
    async with opened_store(tmp_path / "runs.db") as store:
        (tmp_path / "runs.db").rename(tmp_path / "elsewhere.db")
        with pytest.raises(StoreAway, match=r"runs\.db") as refused:
            await store.lender(1).lend().begin()
        assert refused.value.__cause__ is not refused.value
        (tmp_path / "elsewhere.db").rename(tmp_path / "runs.db")

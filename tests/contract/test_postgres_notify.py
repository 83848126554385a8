"""Notifications on Postgres, read from the server's own log: few, and never in a transaction that writes.

A transaction that notifies takes a lock at its commit that all others of the database wait for.
"""

import asyncio
import re
import time
from collections import defaultdict

import pytest

from holdfast.model import RowChange, RunStatus
from holdfast.store import open_store
from holdfast.testing.contract.stage import LANE, LEASE, T0, new_run, turn
from tests.servers import PgBouncer, Postgres

LINE = re.compile(r"^\[(\S*)\] LOG:  (?:statement|execute [^:]*): (.*)$", re.MULTILINE)
WORDS = ("BEGIN", "COMMIT", "SET")


@pytest.fixture(scope="module")
def server():
    """A server that logs every statement, with the transaction it belongs to in front."""
    settings = {"log_statement": "all", "log_line_prefix": "[%c/%v] ", "logging_collector": "off"}
    with Postgres(durable=False, settings=settings) as running:
        yield running


@pytest.fixture(params=["direct", "pooled"])
def url(request, server):
    database = server.create_database()
    if request.param == "direct":
        yield database
    else:
        with PgBouncer(server.url) as pooler:
            yield f"{pooler.url_for(database)}?pooler=transaction"


def transactions(server, since):
    """What each transaction executed, but for the words around it."""
    found = defaultdict(list)
    for place, text in LINE.findall(server.log.read_text(errors="replace")[since:]):
        if not text.startswith(WORDS):
            found[place].append(text)
    return found


async def play(url):
    """Starts, turns and ends, one after the other."""
    store = open_store(url)
    await store.open()
    unsubscribe = store.subscribe(lambda: None)
    begun = time.monotonic()
    await store.register_worker("one", [LANE], LEASE)
    for _ in range(40):
        await store.start_runs([new_run()], now=T0)
        [run] = await store.claim_runs("one", [LANE], 1, now=T0)
        assert await store.commit_turns([turn(run)], now=T0) == [True]
        ended = RowChange(status=RunStatus.COMPLETED)
        assert await store.commit_turns([turn(run, after=1, change=ended)], now=T0) == [True]
    await store.cancel_run(run.id, now=T0)
    took = time.monotonic() - begun
    unsubscribe()
    await store.close()
    return took


def test_notifications_are_few_and_in_transactions_of_their_own(server, url):
    since = len(server.log.read_text(errors="replace"))
    took = asyncio.run(play(url))
    found = transactions(server, since)
    notifying = [texts for texts in found.values() if any("pg_notify" in text for text in texts)]
    assert notifying
    assert [texts for texts in notifying if len(texts) > 1] == []
    # One at once, then one in ten milliseconds at most, however much happens.
    assert len(notifying) <= took / 0.01 + 2
    # The log tells one transaction from another: registering is several statements.
    assert any(len(texts) > 1 for texts in found.values())

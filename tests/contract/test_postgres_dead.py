"""Looking for dead workers on Postgres: what a look that fails half-way leaves behind."""

import pytest

from holdfast.errors import StoreAway
from holdfast.store import open_store
from holdfast.testing.contract.stage import LANE, LEASE
from tests.servers.wire import Wire


async def test_a_look_for_the_dead_that_fails_at_its_end_keeps_nobody_s_lock(postgres):
    async with Wire(postgres.create_database()) as wire:
        # Without sessions of its own, each look ends with a COMMIT: after the dead were found.
        url = f"{wire.url}?pooler=transaction"
        dying, looking = open_store(url), open_store(url)
        await dying.open()
        await looking.open()
        try:
            await dying.register_worker("dead", [LANE], LEASE)
            await dying.close()
            wire.cut_before(lambda data: b"COMMIT\0" in data)
            with pytest.raises(StoreAway):
                await looking.reap_workers("alive")
            assert await looking.reap_workers("alive") == ["dead"]
        finally:
            await looking.close()

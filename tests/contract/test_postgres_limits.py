"""What Postgres can't hold: texts that are too long, together, to be found by an index."""

import random

import pytest

from holdfast.errors import StoreError
from holdfast.store import open_store
from holdfast.testing.contract.stage import new_run


def wide(length):
    """Text of four bytes a character that can't be packed."""
    dice = random.Random(length)
    return "".join(chr(dice.randrange(0x20000, 0x2A000)) for _ in range(length))


async def test_texts_that_are_too_long_for_an_index_are_refused_with_what_to_do(postgres):
    store = open_store(postgres.create_database())
    await store.open()
    try:
        [run] = await store.start_runs([new_run(id=wide(500))])
        with pytest.raises(StoreError, match="choose shorter ones") as refused:
            await store.send_signal(run.id, "go", b"null", message_id=wide(500))
        assert "MD5" not in str(refused.value)
    finally:
        await store.close()

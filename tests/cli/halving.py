"""A workflow of one step that may fail, for commands about runs to be tried on."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import Client, Retry, step, workflow


@step(retry=Retry(attempts=1))
async def divide(number: int) -> int:
    return 100 // number


@workflow
async def halve(number: int) -> int:
    return await divide(number)


def failed(client: Client, *, key: str | None = None) -> str:
    """The id of a run that has failed just now."""
    with pytest.raises(holdfast.RunFailed) as raised:
        holdfast.run(halve, 0, key=key, url=client.url)
    return raised.value.run_id

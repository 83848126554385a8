"""Options that a body gives a child: they are what they were where they were written."""

from __future__ import annotations

import holdfast
from holdfast import workflow
from holdfast.testing import Environment


@workflow
async def tagged(number: int) -> dict[str, str]:
    return holdfast.current_run().tags


async def test_tags_that_a_body_changes_for_its_next_child_do_not_change_those_of_the_child_before():
    @workflow
    async def parent() -> list[dict[str, str]]:
        tags: dict[str, str] = {}
        held = []
        for number in range(3):
            tags["number"] = str(number)
            held.append(tagged.options(tags=tags).start(number))
        return [await one for one in held]

    async with Environment([parent, tagged]) as env:
        run = await env.client.start(parent)
        assert await run.result() == [{"number": "0"}, {"number": "1"}, {"number": "2"}]

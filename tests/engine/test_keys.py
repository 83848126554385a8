"""A key names one step of a run, whatever names the user chose."""

from __future__ import annotations

import asyncio

from holdfast import workflow
from tests.engine.samples import double


def test_a_step_named_like_a_numbered_key_does_not_collide_with_that_key(begin):
    """The user's own name "double:1" and the second use of "double" are two steps."""

    @workflow
    async def body() -> list[int]:
        return [await double(1), await double.options(name="double:1")(2), await double(3)]

    drive = begin(body).finish().check()
    assert len(set(drive.asked)) == 3


def test_steps_in_flight_whose_names_look_like_numbered_keys_all_get_their_results(begin):
    @workflow
    async def body() -> list[int]:
        return list(await asyncio.gather(double(1), double.options(name="double:1")(2), double(3)))

    assert begin(body).finish().check().result == [2, 4, 6]


def test_a_name_may_end_in_a_digit_that_is_no_number(begin):
    @workflow
    async def body() -> int:
        return await double.options(name="area:²")(1)

    assert begin(body).finish().check().asked == ["area:²"]

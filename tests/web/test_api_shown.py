"""What the API shows of how a run ended, and to whom."""

from __future__ import annotations

import pytest

from holdfast import AsyncClient, Worker, workflow
from holdfast.codec import AesGcm, Codec
from tests.colours import loaded, paints
from tests.web.stage import Served, served


@pytest.mark.parametrize("path", ["", "/result"])
async def test_a_failed_run_tells_where_it_failed(database_url, path):
    async with served(database_url) as api:
        run_id = await api.ended("checkout", ["stolen"])
        error = (await api.call("GET", f"/v1/runs/{run_id}{path}")).json()["error"]
        assert 'in charge\n    raise FatalError("this card is stolen")' in error["traceback"]
        assert "holdfast/define/steps.py" not in error["traceback"]


async def painted(api: Served) -> str:
    """A run whose result and values hold an enum that is not loaded any more."""
    with loaded():
        return await api.ended("paints", [])


async def test_a_completed_run_has_a_result_though_its_classes_are_not_loaded(database_url):
    async with served(database_url, paints) as api:
        run_id = await painted(api)
        for path in ("", "/result"):
            told = (await api.call("GET", f"/v1/runs/{run_id}{path}")).json()
            assert (told["result"], told["error"]) == ({"colour": "RED", "both": ["RED", "RED"]}, None)


async def test_values_and_items_are_shown_whose_classes_are_not_loaded(database_url):
    async with served(database_url, paints) as api:
        run_id = await painted(api)
        assert (await api.call("GET", f"/v1/runs/{run_id}/values/colour")).json()["value"] == "RED"
        events = (await api.call("GET", f"/v1/runs/{run_id}/stream?name=colours")).text
        assert '"value":{"first":"RED"}' in events
        assert "event: error" not in events


async def test_a_result_that_can_t_be_read_is_no_error_of_a_completed_run(database_url):
    @workflow
    async def hides() -> str:
        return "nothing to see"

    async with served(database_url) as api:
        codec = Codec(chain=[AesGcm({"k": b"1" * 32}, primary="k")])
        async with AsyncClient(database_url, codec=codec) as other, Worker(other, workflows=[hides]):
            run = await other.start(hides)
            await run.wait()
        for path in ("", "/result"):
            told = (await api.call("GET", f"/v1/runs/{run.id}{path}")).json()
            assert (told["status"], told["result"], told["error"]) == ("completed", None, None)
            assert "stored through 'aesgcm'" in told["unreadable"]

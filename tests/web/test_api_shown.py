"""What the API shows of how a run ended, and to whom."""

from __future__ import annotations

import pytest

from tests.web.stage import served


@pytest.mark.parametrize("path", ["", "/result"])
async def test_a_failed_run_tells_where_it_failed(database_url, path):
    async with served(database_url) as api:
        run_id = await api.ended("checkout", ["stolen"])
        error = (await api.call("GET", f"/v1/runs/{run_id}{path}")).json()["error"]
        assert 'in charge\n    raise FatalError("this card is stolen")' in error["traceback"]
        assert "holdfast/define/steps.py" not in error["traceback"]

"""One server with runs in every state, for all tests that only try to confuse it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.web.stage import Server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(f"sqlite:///{tmp_path_factory.mktemp('web') / 'holdfast.db'}")
    made.start()
    assert made.is_up.wait(60), "the server did not come up within a minute"
    assert made.error is None, made.error
    yield made
    made.close()

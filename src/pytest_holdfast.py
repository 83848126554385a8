"""The pytest plugin: the fixture `holdfast_env`.

It stands beside the package: pytest imports it in every session, Holdfast only where the fixture is used.
"""

from __future__ import annotations

import importlib
from typing import Any

import pytest


@pytest.fixture
def holdfast_env() -> Any:
    """Makes environments: `holdfast_env(workflows=[...], stubs={...})`, as `holdfast.testing.Environment`.

        def test_checkout(holdfast_env):
            with holdfast_env(workflows=[checkout], stubs={charge: "receipt-1"}) as env:
                run = env.client.start(checkout, order)
                assert run.result() == ...

    In an `async def` test it is `async with`, and everything on `env` and `env.client` is awaited.
    """
    return importlib.import_module("holdfast.testing").Environment

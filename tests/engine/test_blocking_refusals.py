"""`blocking.gather`, `wait` and `as_completed` given something else than Pendings say what they expect."""

from __future__ import annotations

import pytest

from holdfast import DefinitionError, blocking, workflow
from tests.engine.samples import triple


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda value: blocking.gather(value, triple.start(1)), "blocking.gather(): a int is no Pending"),
        (lambda value: blocking.gather([triple.start(value)]), "blocking.gather(): a list is no Pending"),
        (lambda value: blocking.wait([value]), "blocking.wait(): a int is no Pending"),
        (lambda value: list(blocking.as_completed([value])), "blocking.as_completed(): a int is no Pending"),
        (lambda value: blocking.wait(triple.start(value)), "blocking.wait(): expected several Pendings"),
        (lambda value: list(blocking.as_completed(triple.start(value))), "expected several Pendings"),
    ],
)
def test_a_value_that_is_no_pending_is_refused_by_gather_wait_and_as_completed(begin, wrong, words):
    @workflow
    def body() -> None:
        wrong(triple(1))

    refused = begin(body).finish().error
    assert isinstance(refused, DefinitionError)
    assert words in str(refused)
    assert "step.start(...)" in str(refused)

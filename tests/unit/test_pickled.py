"""Steps and workflows are pickled by name, as functions are. Clients are not pickled."""

from __future__ import annotations

import copy
import multiprocessing
import pickle

import pytest

import holdfast
from holdfast import step, workflow


@step
def double(n: int) -> int:
    return 2 * n


@workflow
async def doubled(n: int) -> int:
    return double(n)


@workflow
def doubled_in_a_plain_body(n: int) -> int:
    return double(n)


@pytest.mark.parametrize("one", [double, doubled, doubled_in_a_plain_body])
def test_an_unpickled_workflow_or_step_is_the_same_object(one):
    assert pickle.loads(pickle.dumps(one)) is one
    assert copy.deepcopy(one) is one


def test_a_workflow_with_options_is_refused_by_pickle():
    with pytest.raises(pickle.PicklingError, match="not the same object"):
        pickle.dumps(doubled.options(key="one"))


def test_a_spawned_process_may_be_given_a_workflow_or_step(database_url):
    process = multiprocessing.get_context("spawn").Process(
        target=holdfast.run, args=(doubled, 4), kwargs={"url": database_url, "key": "one"}
    )
    process.start()
    process.join(60)
    with holdfast.Client(database_url) as client:
        assert client.get_run(doubled, key="one").result(timeout=0) == 8


def test_a_client_and_a_handle_say_that_another_process_makes_a_client_of_its_own(database_url):
    with holdfast.Client(database_url) as client:
        for one in (client, holdfast.AsyncClient(database_url), client.start(doubled, 4)):
            with pytest.raises(TypeError, match="make another client in the process that needs it"):
                pickle.dumps(one)

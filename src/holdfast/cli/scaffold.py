"""What `holdfast init` writes: a project that runs, is tested, and passes `holdfast lint`."""

from __future__ import annotations

_SETTINGS = """\
# Settings of Holdfast: `holdfast doctor` checks them. HOLDFAST_<NAME> in the environment comes first.

url = "sqlite:///holdfast.db"        # or postgresql://user@host/database
workflows = ["workflows"]            # modules, files and folders
"""

_PACKAGE = '''\
"""Workflows of this project. `holdfast worker` and `holdfast dev` serve whatever stands in here."""
'''

_WORKFLOW = '''\
"""An order: charge the card, wait for somebody to approve, send the parcel. It survives being killed at any line."""

import holdfast
from holdfast import Retry, step, workflow


@step(retry=Retry(attempts=3, initial="1s"))
async def charge(card: str, cents: int) -> str:
    # A step is where real work is done: network, files, clocks. Its result is recorded once.
    print(f"charging {cents} cents to {card}")
    return f"receipt for {cents} cents"


@step
async def send_parcel(receipt: str, note: str) -> str:
    print(f"sending the parcel: {note}")
    return f"sent, with {receipt}"


@workflow
async def order(card: str, cents: int = 1200) -> str:
    receipt = await charge(card, cents)
    await holdfast.sleep("2s")
    note = await holdfast.wait_for_signal("approved", type=str, timeout="7d", default="nobody objected")
    return await send_parcel(receipt, note)
'''

_CONFTEST = '''\
"""Its place makes this folder the one that tests import from."""
'''

_TEST = '''\
"""The order in memory: steps are stubbed where they must be, and time moves by itself."""

from workflows.orders import charge, order


def test_an_approved_order_is_sent(holdfast_env):
    with holdfast_env(workflows=[order], stubs={charge: "receipt-1"}) as env:
        run = env.client.start(order, "4242")
        run.signal("approved", "looks good")
        assert run.result() == "sent, with receipt-1"
        assert [call.args for call in env.calls(charge)] == [("4242", 1200)]


def test_an_order_that_nobody_approves_is_sent_after_a_week(holdfast_env):
    with holdfast_env(workflows=[order]) as env:
        run = env.client.start(order, "4242", 500)
        assert run.result() == "sent, with receipt for 500 cents"
'''

_README = """\
# Workflows

    holdfast dev                                    # a worker and the REST API, started again when code changes
    holdfast start order --input '["4242"]'         # prints the run's id
    holdfast signal RUN_ID approved --payload '"looks good"'

Kill `holdfast dev` while a run waits, start it again: the run goes on where it was, and nothing is charged twice.

| to | type |
| --- | --- |
| see runs, and one of them | `holdfast runs`, `holdfast show RUN_ID`, `holdfast why RUN_ID` |
| run the tests | `pytest`, which `pip install 'holdfast[test]'` brings |
| check workflow bodies for what would break a replay | `holdfast lint` |
| see whether all is set up well | `holdfast doctor` |
| run it in production | `holdfast worker --processes 4` and `holdfast serve` |
"""

_GITIGNORE = """\
holdfast.db*
__pycache__/
"""

FILES = {
    "holdfast.toml": _SETTINGS,
    "workflows/__init__.py": _PACKAGE,
    "workflows/orders.py": _WORKFLOW,
    "conftest.py": _CONFTEST,
    "tests/test_orders.py": _TEST,
    "README.md": _README,
    ".gitignore": _GITIGNORE,
}
"""The files that `holdfast init` writes, by their path in the project's folder."""

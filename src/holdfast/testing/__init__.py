"""The test kit: runs workflows in memory with stubs and a clock that skips, crashes them, and replays journals.

    Environment       run workflows in a test; `holdfast_env` is the pytest fixture for it
    assert_durable    crash at every commit point, one after another, and compare the outcomes
    replay            run today's code against a recorded journal
    guarded           refuse I/O in bodies, as tests and `holdfast dev` do

The store contract as tests is `holdfast.testing.contract`, which is imported separately because it needs pytest.
"""

from .blocking import BlockingEnvironment
from .clock import ManualClock
from .crashes import CommitPoint
from .durable import Durability, assert_durable
from .environment import Environment
from .guards import guarded
from .replaying import Replayed, export_journal, replay
from .stubs import Call, takes

__all__ = [
    "BlockingEnvironment",
    "Call",
    "CommitPoint",
    "Durability",
    "Environment",
    "ManualClock",
    "Replayed",
    "assert_durable",
    "export_journal",
    "guarded",
    "replay",
    "takes",
]

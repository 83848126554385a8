"""A deterministic simulation: workers, a store, clocks and random workflows, with faults between any two operations.

One seed is one world. Time is virtual, there are no threads, and every choice comes from the seed's own dice, so a seed
that breaks a promise breaks it again. `python -m holdfast.testing.simulate --seeds 500` runs as many as wanted.

    loop      time that jumps, and processes that can be killed or stalled between any two callbacks
    faults    what may go wrong, and how often; network is what lies between a process and the store
    programs  random workflows as data; bodies interprets them in an async or a def body
    processes a worker's process: its clock, its sessions, its renewals, its death
    oracle    what really happened outside, and the journals as the store holds them
    laws      the promises, checked while a world runs; replays checks the journals afterwards
    quiet     what must happen when nothing goes wrong any more, and when
    world     one seed from its first start to its last law; runner runs many and reports
"""

from .runner import Report, run_seed, run_seeds

__all__ = ["Report", "run_seed", "run_seeds"]

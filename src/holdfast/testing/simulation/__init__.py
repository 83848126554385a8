"""A deterministic simulation: workers, a store, clocks and random workflows, with faults between any two operations.

One seed is one world. Time is virtual, there are no threads, and every choice comes from the seed's own dice, so a seed
that breaks a promise breaks it again. `python -m holdfast.testing.simulate --seeds 500` runs as many seeds as you like.

    loop      time that jumps, and processes that can be killed or stalled between any two callbacks
    faults    what may go wrong, and how often; network is what lies between a process and the store
    programs  random workflows and machines, made of nodes; bodies interprets them in an async or a def body
    lives     what bodies do beside steps and timers; stills is the same in a def body; steps are what they call
    loans     transactional steps in a world
    processes a worker's process: its sessions, its renewals, its death; drives are such processes, too; clocks: theirs
    oracle    what really happened outside, and the journals as the store holds them
    laws      the promises, checked while a world runs; replays and endings check the journals afterwards
    mail      messages and children; streams, managing, maps and forks: what else must hold of runs' whole life
    quiet     what must happen when nothing goes wrong any more, and when
    world     one seed from its first start to its last law; runner runs it and reports
"""

from .runner import Report, run_seed

__all__ = ["Report", "run_seed"]

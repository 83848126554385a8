"""The thread of a store: what comes to it while another thread stops it."""

from __future__ import annotations

import asyncio

from holdfast.store.postgres.loops import LoopThread


def test_what_is_posted_while_another_thread_stops_it_is_dropped():
    thread = LoopThread("stopping")
    # What a thread has in hand that looked just before the other one stopped it.
    thread._loop = asyncio.new_event_loop()
    thread._loop.close()
    called: list[str] = []
    thread.post(lambda: called.append("called"))
    assert not called

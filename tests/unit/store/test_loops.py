"""The thread of a store: calls posted to it while another thread stops it."""

from __future__ import annotations

import asyncio

from holdfast.store.postgres.loops import LoopThread


def test_a_call_posted_while_another_thread_stops_the_loop_is_dropped():
    thread = LoopThread("stopping")
    # What a thread sees that looked just before another thread stopped the loop.
    thread._loop = asyncio.new_event_loop()
    thread._loop.close()
    called: list[str] = []
    thread.post(lambda: called.append("called"))
    assert not called

"""Readers: threads with connections of their own, beside the writer. WAL gives each statement a snapshot."""

from __future__ import annotations

import concurrent.futures
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.errors import StoreClosed
from holdfast.store.stats import Stats

from .connections import explained, is_away, patiently
from .jobs import Answers, Job
from .links import Link
from .uses import Use

THREADS = 2


class Readers:
    """A few threads that take reading jobs from one queue; none is started before the first job."""

    def __init__(self, link: Callable[[], Link], stats: Stats) -> None:
        self._link = link
        self._stats = stats
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._is_stopped = False
        self._lock = threading.Lock()
        self._left: list[concurrent.futures.Future[None]] = []

    def submit(self, job: Job) -> None:
        """Have it done by whichever thread is free. Raises StoreClosed once the readers were stopped."""
        with self._lock:
            if self._is_stopped:
                raise StoreClosed("the store is not open: it was closed")
            if not self._left:
                self._left = [concurrent.futures.Future() for _ in range(THREADS)]
                for done in self._left:
                    threading.Thread(
                        target=self._work, args=(done,), name="holdfast-sqlite-reader", daemon=True
                    ).start()
            self._queue.put(job)

    def resume(self) -> None:
        """Take jobs again after a stop."""
        with self._lock:
            self._is_stopped = False

    def stop(self) -> Sequence[concurrent.futures.Future[None]]:
        """Finish what is queued, then disconnect. Nothing gets in behind it."""
        with self._lock:
            self._is_stopped = True
            left, self._left = self._left, []
            for _ in left:
                self._queue.put(None)
        return left

    def _work(self, done: concurrent.futures.Future[None]) -> None:
        link = self._link()
        using = Use(link)
        while (job := self._queue.get()) is not None:
            self._read(link, using, job)
            # Kept here, it would keep the caller's loop alive until the next job comes.
            del job
        with using:
            link.close()
        # The caller may have given up waiting, and cancelled it.
        if done.set_running_or_notify_cancel():
            done.set_result(None)

    def _read(self, link: Link, using: Use, job: Job) -> None:
        answers = Answers()
        self._stats.reads += 1
        try:
            with using:
                found = _found(link, job)
        except BaseException as error:
            told = explained(error, link.path)
            if told is not error:
                told.__cause__ = error
            answers.add(job, None, told)
        else:
            answers.add(job, found)
        answers.send(here=False)


def _found(link: Link, job: Job) -> Any:
    try:
        tx = link.use()
        found = patiently(lambda: job.deed(tx), link.path)
        link.refuse_if_vanished()
    except BaseException as error:
        if is_away(error):
            link.drop()
        raise
    return found

"""The writer: one thread writes everything for one store, and whatever is asked for during a commit shares the next.

There is no timer and no delay: a job that comes alone is one commit; under load, all jobs that queued up during a
commit are the next one. Answers leave after the commit. A job that fails, fails alone; if the database fails, all jobs
of the group fail and nothing happened. A turn that is a single statement, with no other job in line, may be committed
by its caller: see pace.py.
"""

from __future__ import annotations

import concurrent.futures
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from holdfast.errors import StoreClosed, StoreError
from holdfast.store.stats import Stats
from holdfast.store.subscribers import News

from .ahead import Ahead
from .connections import explained, is_away, patiently
from .jobs import Answers, AnyJob, BatchJob, Job, ShortCut, Unit, merged
from .links import Link
from .pace import Pace
from .transactions import Transaction
from .uses import Use

Lent: TypeAlias = Callable[[Transaction], None]


class Writer:
    """The connection that writes. `tell` is called after a commit that others may wait for."""

    def __init__(self, link: Link, stats: Stats, tell: Callable[[News], None], *, inline: bool) -> None:
        self._link = link
        self._stats = stats
        self._tell = tell
        self._is_inline = inline
        self._queue: queue.SimpleQueue[AnyJob | concurrent.futures.Future[None] | Lent] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_stopped = False
        # Reentrant: inline, a job that holds it may signal a subscriber, which submits the next job.
        self._lock = threading.RLock()
        self._is_back = threading.Semaphore(0)
        self._using = Use(link)
        """Held by the thread, or by a caller that commits by itself."""
        self._pace = Pace()
        self._ahead = Ahead(link.path)
        self._lendings: list[Lent] = []
        self._later: list[AnyJob] = []
        """Inline only: those who wait to be lent the connection, and jobs that wait until it is back."""

    def submit(self, job: AnyJob) -> None:
        """Have a job done with the next commit. Raises StoreClosed once the writer was stopped."""
        with self._lock:
            self._refuse_stopped()
            if self._is_inline and self._lendings:
                self._later.append(job)
                return
            if self._is_inline:
                self.execute([job])
                return
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="holdfast-sqlite-writer", daemon=True)
                self._thread.start()
            self._queue.put(job)

    def commit_here(self, shortcut: ShortCut, items: Sequence[Any]) -> list[Any] | None:
        """Do it now, unless that may take long. None: it has to be submitted; doing it twice does no harm."""
        if len(items) > 1:
            self._pace.crowded()
            return None
        if self._is_inline or self._is_stopped or not self._queue.empty() or not self._pace.may_try():
            return None
        if not self._using.acquire(blocking=False):
            return None
        try:
            return self._by_caller(shortcut, items)
        except Exception:
            # Somebody else has the write lock, or the database is in trouble: the thread waits, or says what is wrong.
            return None
        finally:
            self._using.release()

    def _by_caller(self, shortcut: ShortCut, items: Sequence[Any]) -> list[Any] | None:
        if not self._link.is_open or self._link.turnstile.must_wait():
            return None
        tx = self._link.use()
        tx.checkpoint(False)
        began = time.perf_counter()
        try:
            found = shortcut(tx, items)
        finally:
            self._pace.took(time.perf_counter() - began)
        if found is not None:
            self._link.turnstile.done()
            self._link.refuse_if_vanished()
            self._stats.writes += 1
            self._stats.commits += 1
        return found

    def lend(self, lent: Lent) -> None:
        """Lend the connection between two groups of jobs. All jobs wait until `take_back`. Raises as `submit`."""
        with self._lock:
            self._refuse_stopped()
            if not self._is_inline:
                self._queue.put(lent)
                return
            self._lendings.append(lent)
            if len(self._lendings) == 1:
                lent(self._link.use())

    def take_back(self) -> None:
        """The lent connection is back: go on with what has waited."""
        if not self._is_inline:
            self._is_back.release()
            return
        with self._lock:
            del self._lendings[0]
            later, self._later = self._later, []
            for job in later:
                self.execute([job])
            if self._lendings:
                self._lendings[0](self._link.use())

    def _refuse_stopped(self) -> None:
        if self._is_stopped:
            raise StoreClosed(f"{self._link.path}: the store is not open: it was closed")

    def resume(self) -> None:
        """Take jobs again after a stop."""
        with self._lock:
            self._is_stopped = False

    def stop(self) -> concurrent.futures.Future[None]:
        """Finish what is queued, then disconnect. Nothing gets in behind it."""
        done: concurrent.futures.Future[None] = concurrent.futures.Future()
        with self._lock:
            self._is_stopped = True
            if self._thread is None:
                self._link.close()
                done.set_result(None)
            else:
                self._thread = None
                self._queue.put(done)
        return done

    def _work(self) -> None:
        # While this waits, it keeps nothing of the last group, which would keep the callers' loops alive.
        while self._serve([self._queue.get()]):
            pass

    def _serve(self, found: list[AnyJob | concurrent.futures.Future[None] | Lent]) -> bool:
        """Do these jobs, and those queued since, as one group. False: the writer was told to stop."""
        while not self._queue.empty():
            found.append(self._queue.get())
        jobs = [one for one in found if isinstance(one, (Job, BatchJob))]
        if jobs:
            self.execute(jobs)
            with self._using:
                self._ahead.look()
        for one in found:
            if not isinstance(one, (Job, BatchJob, concurrent.futures.Future)):
                with self._using:
                    one(self._link.use())
                    self._is_back.acquire()
        for one in found:
            if isinstance(one, concurrent.futures.Future):
                with self._using:
                    self._link.close()
                # The caller may have given up waiting, and cancelled it.
                if one.set_running_or_notify_cancel():
                    one.set_result(None)
                return False
        return True

    def execute(self, jobs: Sequence[AnyJob]) -> None:
        """Do all jobs in one transaction and then send the answers, when the connection is free again."""
        with self._using:
            news, answers = self._committed(jobs)
        if news:
            self._tell(news)
        answers.send(here=self._is_inline)

    def _committed(self, jobs: Sequence[AnyJob]) -> tuple[News, Answers]:
        answers = Answers()
        units = merged(jobs)
        reads = sum(unit.is_read for unit in units)
        self._stats.reads += reads
        self._stats.writes += len(jobs) - reads
        news = News.NONE
        try:
            tx = self._link.use()
            tx.checkpoint(True)
            tx.news = News.NONE
            self._group(tx, units, answers)
            self._link.refuse_if_vanished()
            news = tx.news
        except BaseException as error:
            # Nothing of the group was committed, or nobody can tell: every job gets the error, and may be sent again.
            self._link.drop()
            answers = Answers()
            for job in jobs:
                answers.add(job, None, self._told(error))
        return news, answers

    def _told(self, error: BaseException) -> BaseException:
        told = explained(error, self._link.path)
        if told is error and isinstance(error, StoreError):
            told = type(error)(*error.args)
        if told is not error:
            told.__cause__ = error
        return told

    def _group(self, tx: Transaction, units: list[Unit], answers: Answers) -> None:
        if all(unit.is_read for unit in units):
            self._read(tx, units, answers)
        elif len(units) > 1:
            self._together(tx, units, answers)
        elif not self._short(tx, units[0], answers):
            self._alone(tx, units[0], answers)

    def _short(self, tx: Transaction, unit: Unit, answers: Answers) -> bool:
        """Do it as one statement, which is its own transaction. False: nothing happened, the long way has to be
        taken."""
        try:
            found = self._link.turnstile.begin(lambda: unit.run_short(tx), self._link.path)
        except Exception as error:
            if is_away(error):
                raise
            return False
        if found is None:
            return False
        self._link.turnstile.done()
        self._stats.commits += 1
        for job, answer in zip(unit.jobs, found, strict=True):
            answers.add(job, answer)
        return True

    def _alone(self, tx: Transaction, unit: Unit, answers: Answers) -> None:
        """Do one unit. It needs no savepoint: if it fails, the whole transaction is rolled back."""
        self._begin_transaction(tx)
        try:
            found = unit.run(tx)
        except Exception as error:
            if is_away(error):
                raise
            self._rollback(tx)
            if len(unit.jobs) > 1:
                # Merged batches are taken apart again, so that only the one at fault fails.
                self._together(tx, [Unit([job]) for job in unit.jobs], answers)
            else:
                answers.add(unit.jobs[0], None, error)
            return
        self._commit(tx)
        for job, answer in zip(unit.jobs, found, strict=True):
            answers.add(job, answer)

    def _together(self, tx: Transaction, units: Sequence[Unit], answers: Answers) -> None:
        self._begin_transaction(tx)
        for unit in units:
            self._in_savepoint(tx, unit, answers)
        self._commit(tx)

    def _in_savepoint(self, tx: Transaction, unit: Unit, answers: Answers) -> None:
        self._execute(tx, "SAVEPOINT unit")
        try:
            found = unit.run(tx)
        except Exception as error:
            if is_away(error):
                raise
            self._execute(tx, "ROLLBACK TO unit")
            self._execute(tx, "RELEASE unit")
            if len(unit.jobs) > 1:
                for job in unit.jobs:
                    self._in_savepoint(tx, Unit([job]), answers)
            else:
                answers.add(unit.jobs[0], None, error)
            return
        self._execute(tx, "RELEASE unit")
        for job, answer in zip(unit.jobs, found, strict=True):
            answers.add(job, answer)

    def _read(self, tx: Transaction, units: Sequence[Unit], answers: Answers) -> None:
        for unit in units:
            try:
                answers.add(unit.jobs[0], unit.run(tx)[0])
            except Exception as error:
                if is_away(error):
                    raise
                answers.add(unit.jobs[0], None, error)

    def _begin_transaction(self, tx: Transaction) -> None:
        self._link.turnstile.begin(lambda: self._execute(tx, "BEGIN IMMEDIATE"), self._link.path)

    def _commit(self, tx: Transaction) -> None:
        patiently(lambda: self._execute(tx, "COMMIT"), self._link.path)
        self._link.turnstile.done()
        self._stats.commits += 1

    def _rollback(self, tx: Transaction) -> None:
        tx.numbers.clear()
        if tx.connection.in_transaction:
            self._execute(tx, "ROLLBACK")

    def _execute(self, tx: Transaction, text: str) -> sqlite3.Cursor:
        self._stats.statements += 1
        return tx.connection.execute(text)

"""Connections for transactional steps (see holdfast.store.loans): the user's own, on the worker's loop.

These connections are apart from the store's own: they have none of our planner settings. They are kept for later steps,
as many as were ever needed at once, and reset in between. If a step does nothing in its transaction for as long as a
lease, the server ends it; and its statements wait for a lock for no longer than a third of that.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import asyncpg

from holdfast.errors import StoreAway
from holdfast.model import Instant, Turn, new_id
from holdfast.store.loans import IDLE, LOST, Undone
from holdfast.store.subscribers import News

from .connections import COMMAND_TIMEOUT, CONNECT_TIMEOUT, Target, explained, is_away, keep_alive
from .lanes import learn_again
from .links import Tell
from .outs import ending
from .statements import PostgresBlocks
from .transactions import Known, Row, Transaction
from .turns import commit_turns, lost_by_server

_ENDED = (
    "has committed or rolled back the transaction that it was given; leave that to Holdfast, which commits it together"
    " with the step's result. A transaction() inside it is a savepoint, and may be used"
)
_MOST = 10
"""The most connections of one worker. Further steps wait in line."""
_TIDY = 5.0
_BUSY_PAUSE = 0.02
_BUSY_TRIES = 100
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 5.0


class PostgresLender:
    """Lends asyncpg connections to the steps of one worker."""

    is_async = True
    is_exclusive = False
    kind = "an asyncpg.Connection"
    timeout: int | None = None

    def __init__(
        self,
        target: Target,
        blocks: PostgresBlocks,
        known: Known,
        lease: int,
        *,
        look: Callable[[Turn], Awaitable[int | None]],
        tell: Tell,
    ) -> None:
        self.target = target
        self.blocks = blocks
        self.known = known
        self.look = look
        """Finds the epoch of the row at a turn's place, by a connection of the store's own."""
        self.tell = tell
        self.room = asyncio.Semaphore(_MOST)
        milliseconds = max(lease // 1_000, 1)
        self.lock_timeout = str(max(milliseconds // 3, 1))
        self.idle_timeout = str(milliseconds)
        self.free: list[asyncpg.Connection[Any]] = []
        self._is_closed = False

    def lend(self) -> PostgresLoan:
        return PostgresLoan(self)

    async def take(self) -> asyncpg.Connection[Any]:
        """A connection that is free, or a new one."""
        while self.free:
            connection = self.free.pop()
            if not connection.is_closed():
                return connection
        connection = await asyncpg.connect(
            self.target.dsn,
            timeout=CONNECT_TIMEOUT,
            statement_cache_size=0 if self.target.is_pooled else 100,
            server_settings=dict(self.target.server_settings),
        )
        keep_alive(connection)
        try:
            await learn_again(Transaction(_executing(connection), self.blocks, self.known))
        except BaseException:
            connection.terminate()
            raise
        return connection

    async def give_back(self, connection: asyncpg.Connection[Any]) -> None:
        """Keep a connection for a later step, without anything that this step has set."""
        try:
            if self._is_closed or connection.is_closed():
                raise ConnectionError
            if not self.target.is_pooled:
                await connection.reset(timeout=_TIDY)
        except BaseException as error:
            connection.terminate()
            if not isinstance(error, Exception):
                raise
        else:
            self.free.append(connection)

    def close(self) -> None:
        self._is_closed = True
        for connection in self.free:
            connection.terminate()
        self.free.clear()


class PostgresLoan:
    """One transaction of one step."""

    def __init__(self, lender: PostgresLender) -> None:
        self._lender = lender
        self._connection: asyncpg.Connection[Any] | None = None
        self._transaction: Any = None
        self._mark = new_id()
        self._begun_at = 0.0
        self._is_apart = False
        """Whether its transaction sees nothing that was committed since it began."""
        self._is_committed = False

    @property
    def connection(self) -> Any:
        return self._connection

    async def begin(self) -> None:
        lender = self._lender
        await lender.room.acquire()
        try:
            connection = self._connection = await lender.take()
            # asyncpg's own, so that the user's `transaction()` becomes a savepoint inside it.
            self._transaction = connection.transaction()
            async with asyncio.timeout(COMMAND_TIMEOUT):
                await self._transaction.start()
            timeouts = {"lock_timeout": lender.lock_timeout, "idle_timeout": lender.idle_timeout}
            begun = await self._tx(Transaction).one("mark_transaction", {"mark": self._mark, **timeouts})
            assert begun is not None
            self._is_apart, is_read_only, *_ = begun
            if is_read_only:
                # Nothing that the function does could be committed, and that is no fault of the function's.
                raise asyncpg.ReadOnlySQLTransactionError("a transaction of a step would be read-only")
            self._begun_at = time.monotonic()
        except BaseException as error:
            lender.room.release()
            self._drop()
            told = explained(error, lender.target, was_open=True)
            if told is error:
                raise
            raise told from error

    async def check(self, *, is_failed: bool) -> str | None:
        assert self._connection is not None
        if is_failed:
            # If the server has ended the connection between two statements, that shows in the loop's next iteration.
            await asyncio.sleep(0)
            if self._connection.is_closed():
                # After that time, the server may have ended it because nothing was executed: the function's own fault.
                is_short = time.monotonic() - self._begun_at < int(self._lender.idle_timeout) / 1_000
                return LOST if is_short else IDLE
            return None if self._connection.is_in_transaction() else _ENDED
        tx = self._tx(Transaction)
        # The mark is gone with the transaction that was begun, even if the function has begun another one since.
        found = await tx.one("find_mark", {})
        if not self._connection.is_in_transaction() or found is None or found[0] != self._mark:
            return _ENDED
        await tx.all("settle_constraints", {})
        return None

    async def commit(self, turn: Turn, *, now: Instant | None) -> bool | Undone:
        tx = self._tx(_Strict)
        try:
            answer = await self._write(tx, turn, now)
        except Exception as error:
            # COMMIT was never sent.
            return Undone(f"{type(error).__name__}: {error}")
        if answer is not True:
            return answer
        try:
            # crash here: nothing has happened, neither the user's writes nor the turn.
            async with asyncio.timeout(COMMAND_TIMEOUT):
                await self._transaction.commit()
        except Exception as error:
            if not is_away(error):
                # The server has said no.
                return Undone(f"{type(error).__name__}: {error}")
            self._drop(keep_room=True)
            settled = await self._settled(turn, error)
            if settled is True:
                # What the step itself started or sent over its connection is unknown here, so this is news of any kind.
                self._lender.tell(News.ANY, None)
            return settled
        # crash here: both have happened, and whoever takes the run over finds the result.
        self._is_committed = True
        self._lender.known.stats.commits += 1
        if tx.news:
            self._lender.tell(tx.news, tx.since)
        return True

    async def _write(self, tx: Transaction, turn: Turn, now: Instant | None) -> bool | Undone:
        """Write the turn. If somebody has locked the run for a moment, try again."""
        is_unsure = turn.run_id in tx.known.unsure
        if self._is_apart and (is_unsure or _looks_around(turn)):
            if not await self._sees_run(tx, turn):
                return Undone(
                    "its transaction can't see what its run has done and been sent since the transaction began"
                )
            # It has seen the run's last turn, so this server has not lost it.
            tx.known.unsure.discard(turn.run_id)
        elif is_unsure and await lost_by_server(tx, {turn.run_id: (turn.seq, turn.epoch)}, now):
            # This transaction is rolled back; when the run is handed back, the loss is found again and settled.
            return Undone("the database has lost what came before it")
        for left in range(_BUSY_TRIES, -1, -1):
            # A joined run that is just ending is told of by the next worker that looks for the dead, so `joined` is
            # dropped.
            [answer] = await commit_turns(tx, [ending(turn)], now, None if turn.out is None else [])
            if isinstance(answer, bool):
                return answer
            if not isinstance(answer, StoreAway) or not left:
                return Undone(str(answer))
            await asyncio.sleep(_BUSY_PAUSE)
        raise AssertionError("a turn that is tried ends")

    async def _sees_run(self, tx: Transaction, turn: Turn) -> bool:
        """Whether this transaction sees the run's claim, the turn before this one, and the messages that this one
        takes."""
        params = {
            "namespace_id": tx.namespace_id,
            "id": turn.run_id,
            "seq": turn.seq,
            "epoch": turn.epoch,
            "workers": list(tx.known.worker_lanes),
            "taken": list(turn.taken),
        }
        row = await tx.one("sees_run", params)
        return row is not None and row[0]

    async def _settled(self, turn: Turn, error: Exception) -> bool | Undone:
        """The answer to COMMIT was lost: find out whether it happened."""
        pause = _FIRST_PAUSE
        while True:
            try:
                epoch = await self._lender.look(turn)
            except StoreAway:
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
                continue
            if epoch is None:
                # The server may still be committing.
                return Undone(f"the answer to COMMIT was lost: {error}", is_certain=False)
            return epoch == turn.epoch

    async def end(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            if connection.is_in_transaction():
                async with asyncio.timeout(_TIDY):
                    await self._transaction.rollback()
            elif not self._is_committed:
                # The user's function has ended the transaction, and asyncpg does not know.
                raise ConnectionError
            await self._lender.give_back(connection)
        except BaseException as error:
            connection.terminate()
            if not isinstance(error, Exception):
                raise
        finally:
            self._lender.room.release()

    def abort(self) -> None:
        self._drop(keep_room=True)

    def _drop(self, *, keep_room: bool = False) -> None:
        """Throw the connection away: the server rolls back."""
        if self._connection is not None:
            self._connection.terminate()
            if not keep_room:
                self._connection = None

    def _tx(self, kind: type[Transaction]) -> Transaction:
        assert self._connection is not None
        return kind(_executing(self._connection), self._lender.blocks, self._lender.known)


def _looks_around(turn: Turn) -> bool:
    """Whether a turn touches anything that others may have written, beside its run's row and its place in the
    journal.

    The row is locked, and if somebody has changed it since the transaction began, the server itself refuses to go on.
    """
    return bool(turn.taken) or turn.out is not None or (turn.change is not None and turn.change.status.is_final)


class _Strict(Transaction):
    """A transaction in which any row at a turn's place refuses the turn, even a row with the same epoch.

    This transaction did not write that row, so what the user's function wrote in it does not belong to that row.
    """

    async def all(self, name: str, params: Mapping[str, Any]) -> Sequence[Row]:
        rows = await self.joined((name,), params)
        if name != "find_turns":
            return rows
        return [(row[0], None if row[1] is None else _NOBODYS) for row in rows]


_NOBODYS = -1


def _executing(connection: asyncpg.Connection[Any]) -> Callable[[str, Sequence[Any]], Awaitable[Sequence[Row]]]:
    async def execute(text: str, values: Sequence[Any]) -> Sequence[Row]:
        rows: Sequence[Row] = await connection.fetch(text, *values, timeout=COMMAND_TIMEOUT)
        return rows

    return execute


async def find_epoch(tx: Transaction, turn: Turn) -> int | None:
    """The epoch of the row at the turn's place; None: there is none."""
    row = await tx.one("find_place_taken", {"namespace_id": tx.namespace_id, "id": turn.run_id, "seq": turn.seq})
    return None if row is None or row[0] is None else int(row[0])

"""The ways that turns and row-only writes take to the server: which loop, which connection, one statement or several.

A single statement is sent on the loop of the worker that asks: for a turn that comes alone, the way to another thread
and back would cost more than half as much as the commit. Turns that give something out are a transaction of several
statements, which is sent on the store's own loop: a worker's loop, which users' code may block, must not hold a
transaction open. Through a pooler every statement is in a transaction, and so is sent on the store's loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

from holdfast.errors import StoreAway
from holdfast.model import Instant, RowWrite, Turn
from holdfast.store.contract import Answer

from . import children, turns
from .batches import Item, Write, write_batch
from .connections import Target, is_again
from .eager import Straight, begin
from .hold_ups import HoldUps, Patience, Wants, come_again, wants_of
from .links import HomeLinks, Link, Pool, Tell
from .loops import LoopThread
from .outs import split_turns
from .statements import PostgresBlocks
from .transactions import Known

ItemT = TypeVar("ItemT", bound=Item)


class Commits:
    """The commits of one store, from its opening to its closing."""

    def __init__(
        self,
        target: Target,
        blocks: PostgresBlocks,
        known: Known,
        thread: LoopThread,
        pool: Pool,
        tell: Tell,
        tell_from_elsewhere: Tell,
    ) -> None:
        self._one = blocks.statement("commit_turn").text
        self._known = known
        self._thread = thread
        self._pool = pool
        self._is_pooled = target.is_pooled
        self._apart = Link(target, blocks, known, tell)
        self._opening: set[asyncio.Task[None]] = set()
        self._hold_ups = HoldUps()
        self.home = HomeLinks(partial(Link, target, blocks, known, tell_from_elsewhere))

    def turns(self, items: Sequence[Turn], now: Instant | None) -> Awaitable[list[Answer]]:
        """Commit turns, with an answer for each. They are on their way when this returns."""
        if len(items) == 1 and items[0].out is None and not self._is_pooled:
            self._known.stats.writes += 1
            return Straight(self._alone(self.home.here(), items[0], now))
        if any(turn.out is not None for turn in items):
            self._known.stats.writes += 1
            return self._thread.call(partial(self._give, list(items), now))
        return self._batch(partial(turns.commit_turns, now=now), items)

    def rows(self, items: Sequence[RowWrite]) -> Awaitable[list[Answer]]:
        """Make row-only writes, likewise."""
        return self._batch(turns.write_rows, items)

    def expect(self) -> None:
        """Connect for turns that will come from this loop: to connect takes as long as many commits.

        It is not waited for: the lease of the worker that registers is running.
        """
        if not self._is_pooled:
            task = asyncio.get_running_loop().create_task(self.home.here().open())
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def close(self) -> bool:
        """Close the home links when they are done; False if the server has not answered in time. `close_apart`, which
        runs on the store's own loop, closes the rest.
        """
        return await self.home.close()

    async def close_apart(self, patience: float) -> None:
        await self._apart.close(patience)

    def _batch(self, write: Write[ItemT], items: Sequence[ItemT]) -> Awaitable[list[Answer]]:
        """Make writes of which each statement is a transaction by itself."""
        loop = asyncio.get_running_loop()
        if not items:
            done: asyncio.Future[list[Answer]] = loop.create_future()
            done.set_result([])
            return done
        self._known.stats.writes += 1
        if self._is_pooled:
            return self._thread.call(partial(write_batch, self._apart, write, list(items)))
        link = self.home.here()
        return self._begin(link, write_batch(link, write, list(items)))

    def _begin(self, link: Link, work: Coroutine[Any, Any, list[Answer]]) -> Awaitable[list[Answer]]:
        """Send at once: the caller goes on to compute, and the server must not wait for that. To connect takes a
        task."""
        return begin(work) if link.is_open else asyncio.get_running_loop().create_task(work)

    async def _alone(self, link: Link, turn: Turn, now: Instant | None) -> list[Answer]:
        """Commit a turn that comes alone, by the shortest way if that is open."""
        row = turns.row_of(turn, self._known)
        if row is not None and await link.fetch(self._one, row):
            return [True]
        # It may have to connect, which takes a task.
        return await asyncio.create_task(write_batch(link, partial(turns.commit_turns, now=now), [turn]))

    async def _give(self, items: Sequence[Turn], now: Instant | None) -> list[Answer]:
        """Commit turns of which some give something out: these in transactions, the others by one statement before."""
        plain, giving = split_turns(items)
        answers: list[Answer] = [False] * len(items)
        joined: list[int] = []
        if plain:
            asked = [items[place] for place in plain]
            found = await write_batch(self._apart, partial(turns.commit_turns, now=now), asked)
            for place, answer in zip(plain, found, strict=True):
                answers[place] = answer
        if giving:
            await self._give_in_parts(
                _Giving(items, answers, giving, partial(turns.commit_giving, now=now, joined=joined))
            )
        if joined:
            await children.look_again(self._pool, joined)
        return answers

    async def _give_in_parts(self, giving: _Giving) -> None:
        """Send what nothing holds up first. Then find out of each thing that held turns up whether it is free, by one
        turn, and send the others that wait for it if it is. See hold_ups for what is waited for, and who is first."""
        waiting: dict[Wants, list[str]] = {}
        free: list[str] = []
        for run_id, wants in giving.wants.items():
            known = self._hold_ups.of(wants)
            (free if known is None else waiting.setdefault(known, [])).append(run_id)
        await self._send(giving, free)
        giving.patience.hurry()
        held: list[Wants] = []
        for known in self._hold_ups.in_turn(waiting):
            first, *others = waiting[known]
            # Whatever could not be had just now can't be had together with something else either.
            if any(one <= known for one in held):
                giving.put_off(waiting[known])
            elif giving.patience.is_over:
                self._hold_ups.pass_over(known)
                giving.put_off(waiting[known])
            elif not self._hold_ups.may_try(known):
                giving.put_off(waiting[known])
            elif await self._send(giving, [first]):
                self._hold_ups.went_through(known)
                await self._send(giving, others)
            else:
                held.append(giving.wants[first])
                self._hold_ups.waited(known)
                giving.put_off(others)
        self._hold_ups.suspect(giving.wants[run_id] for run_id in giving.patience.unsent)
        self._hold_ups.rest(giving.patience.spent)

    async def _send(self, giving: _Giving, run_ids: Sequence[str]) -> bool:
        """Send the turns of some runs. False: one of them had to wait."""
        is_through = True
        if giving.patience.is_over:
            giving.put_off(run_ids)
        elif run_ids:
            places = [place for run_id in run_ids for place in giving.places[run_id]]
            write = partial(giving.write, patience=giving.patience)
            asked = [giving.items[place] for place in places]
            found = await write_batch(self._apart, write, asked, is_one=False, patience=giving.patience)
            # The last answer of a run is also that of an earlier turn that was not accepted.
            last: dict[str, Answer] = {}
            for place, answer in zip(places, found, strict=True):
                giving.answers[place] = last[giving.items[place].run_id] = answer
            for run_id, answer in last.items():
                if run_id in giving.patience.unsent:
                    continue
                if isinstance(answer, StoreAway) and is_again(answer):
                    is_through = False
                    self._hold_ups.waited(giving.wants[run_id])
                else:
                    self._hold_ups.went_through(giving.wants[run_id])
        return is_through


class _Giving:
    """The turns of a batch that give something out, by their runs, and what becomes of them."""

    def __init__(
        self, items: Sequence[Turn], answers: list[Answer], places: Sequence[int], write: Callable[..., Any]
    ) -> None:
        self.items, self.answers, self.write = items, answers, write
        self.patience = Patience()
        self.places: dict[str, list[int]] = {}
        for place in places:
            self.places.setdefault(items[place].run_id, []).append(place)
        self.wants = {run_id: wants_of([items[place] for place in of]) for run_id, of in self.places.items()}

    def put_off(self, run_ids: Sequence[str]) -> None:
        """Tell the turns of some runs to come again."""
        for run_id in run_ids:
            for place in self.places[run_id]:
                self.answers[place] = come_again(run_id)

"""Batches with one answer for each item: an item that the server refuses must not stop the others.

A batch is sent whole. If the server refuses it, because a lock was not free in time, because of a deadlock, or because
of a value that it can't hold, the batch is split in halves, and these again, down to the one item at fault. That item
is told to come again, or that it can never be stored. Every write may be sent twice, so it does no harm if a part of
the batch was written before. If another commit has just taken the id of a child, the child is found and joined the next
time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol, TypeAlias, TypeVar

from holdfast.errors import StoreAway, StoreError
from holdfast.store.contract import Answer

from .connections import is_again, is_away, is_unfit
from .hold_ups import Patience
from .links import Link
from .starters import again_if_taken
from .transactions import Transaction


class Item(Protocol):
    """A turn or a row-only write."""

    @property
    def run_id(self) -> str: ...


T = TypeVar("T", bound=Item)
Write: TypeAlias = Callable[[Transaction, Sequence[T]], Awaitable[list[Answer]]]


async def write_batch(
    link: Link, write: Write[T], items: Sequence[T], *, is_one: bool = True, patience: Patience | None = None
) -> list[Answer]:
    """Write all items that can be written. Raises StoreAway if the database itself is the trouble.

    `is_one`: each statement is a transaction by itself. When `patience` is over, what is left is told to come again.
    """
    try:
        return await again_if_taken(lambda: link.run(_deed(write, items), is_one=is_one, tries=1))
    except StoreError as error:
        _raise_if_away(error)
        _note_wait(patience, error)
        if len(items) == 1:
            return [error]
    return await _write_halves(link, write, items, is_one, patience)


async def _write_halves(
    link: Link, write: Write[T], items: Sequence[T], is_one: bool, patience: Patience | None
) -> list[Answer]:
    answers: list[Answer] = [False] * len(items)
    stopped: dict[str, Answer] = {}
    """The answers of runs with an item that was not accepted. Their later items must not be written either: they would
    leave a hole in the journal."""
    parts = _halves(range(len(items)))
    while parts:
        part: list[int] = []
        for place in parts.pop(0):
            if items[place].run_id in stopped:
                answers[place] = stopped[items[place].run_id]
            else:
                part.append(place)
        if not part:
            continue
        if patience is not None and patience.is_over:
            for place in part:
                answers[place] = patience.cut_off(items[place].run_id)
            continue
        asked = [items[place] for place in part]
        try:
            found = await again_if_taken(partial(link.run, _deed(write, asked), is_one=is_one, tries=1, is_hasty=True))
        except StoreError as error:
            _raise_if_away(error)
            _note_wait(patience, error)
            if len(part) > 1:
                parts[:0] = _halves(part)
                continue
            found = [error]
        for place, answer in zip(part, found, strict=True):
            answers[place] = answer
            if answer is not True:
                stopped[items[place].run_id] = answer
    return answers


def _deed(write: Write[T], items: Sequence[T]) -> Callable[[Transaction], Awaitable[list[Answer]]]:
    return lambda tx: write(tx, items)


def _halves(places: Sequence[int]) -> list[Sequence[int]]:
    half = len(places) // 2
    return [places[:half], places[half:]]


def _note_wait(patience: Patience | None, error: StoreError) -> None:
    if patience is not None and is_again(error):
        patience.waited()


def _raise_if_away(error: StoreError) -> None:
    if is_again(error):
        return
    if is_away(error):
        raise error
    if is_unfit(error):
        # The runs are not at fault, and it is over when the schema or the role has been put right.
        raise StoreAway(*error.args) from error

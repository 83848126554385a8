"""Sets that are sorted, or whose first or last is taken, by a key that several of them may share. Nothing here is ever executed."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast import step, workflow

RANKS = ["gold", "silver"]


@dataclass(frozen=True)
class Order:
    id: str
    cents: int


@step
async def save(value: object) -> None:
    print(value)


def length(name: str) -> int:
    return len(name)


def own(name: str) -> tuple[int, str]:
    return len(name), name


@workflow
async def shared(names: set[str], votes: list[str]) -> None:
    await save(sorted(names, key=len))  # hazard: unordered
    await save(max(names, key=len))  # hazard: unordered
    await save(min(names | {"a"}, key=lambda name: -len(name)))  # hazard: unordered
    await save(sorted(names, key=str.lower, reverse=True))  # hazard: unordered
    await save(sorted(names, key=lambda name: name.casefold()))  # hazard: unordered
    await save(sorted(names, key=lambda name: name == "a"))  # hazard: unordered
    await save(sorted(names, key=length))  # hazard: unordered
    await save(max(set(votes), key=votes.count))  # hazard: unordered
    await save(max((name for name in names if name), key=len))  # hazard: unordered
    await save(sorted((name for name in names), key=lambda name: (len(name), name.lower())))  # hazard: unordered


@workflow
async def own_keys(names: set[str], orders: set[Order], given: dict[str, int]) -> None:
    await save(sorted(names))
    await save(sorted(names, key=str))
    await save(sorted(names, key=own))
    await save(sorted(names, key=RANKS.index))
    await save(sorted(names, key=lambda name: (len(name), name)))
    await save(sorted(sorted(names), key=len))
    await save(max(sorted(names), key=len))
    await save(sorted(orders, key=lambda order: order.id))
    await save(sorted(given, key=len))
    await save(sorted({1, 2}, key=abs))
    await save(max(len(name) for name in names))

"""Sets that a helper returns, or that the values of a mapping are. Nothing here is ever executed."""

from __future__ import annotations

from collections import defaultdict

from holdfast import step, workflow


@step
async def charge(name: str) -> str:
    return name


def unique(names):
    if not names:
        return None
    return {name.lower() for name in names}


async def later(names):
    return set(names)


def in_order(names):
    return sorted(set(names))


def endless(names):
    return endless(names)


@workflow
async def of_helpers(names: list[str]) -> None:
    for name in unique(names):  # hazard: unordered
        await charge(name)
    for name in await later(names):  # hazard: unordered
        await charge(name)
    first, *rest = unique(rest_of(names))  # hazard: unordered


def rest_of(names):
    return names[1:]


@workflow
async def of_groups(names: list[str], known: dict[str, set[str]]) -> None:
    groups = defaultdict(set)
    for name in names:
        groups[name[0]].add(name)
    for letter, found in groups.items():
        for name in found:  # hazard: unordered
            await charge(letter + name)
    for found in groups.values():
        await charge(",".join(found))  # hazard: unordered
    for name in known["a"]:  # hazard: unordered
        await charge(name)
    await charge(str([name for one in known.values() for name in one]))  # hazard: unordered


@workflow
async def without_order(names: list[str], known: dict[str, set[int]], prices: dict[str, list[str]]) -> int:
    groups = defaultdict(set)
    for name in names:
        groups[name[0]].add(name)
    for letter, found in groups.items():
        await charge(f"{letter} {len(found)}")
        for name in sorted(found):
            await charge(name)
    for numbers in known.values():
        for number in numbers:
            await charge(str(number))
    for found in prices.values():
        for name in found:
            await charge(name)
    for name in in_order(names):
        await charge(name)
    for name in endless(names):
        await charge(name)
    if names[0] in unique(names):
        return len(unique(names))
    return sum(len(one) for one in groups.values())

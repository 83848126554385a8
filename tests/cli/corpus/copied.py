"""Sets that are copied, mapped or filtered on the way to what doesn't care for order, and steps that are asked for on
that way. Nothing here is ever executed."""

import asyncio
import itertools

from holdfast import step, workflow


@step
def render(name: str) -> str:
    return name


@step
async def charge(name: str) -> str:
    return name


@step
async def tags_of(name: str) -> set[str]:
    return {name}


@workflow
async def sorted_in_the_end(names: set[str], name: str) -> object:
    found: list[object] = [sorted(list(names)), sorted(tuple(names), key=str), sorted([*names]), set(list(names))]
    found += [sorted(map(str, names)), sorted(filter(None, names)), sorted(iter(names)), {*list(names)}]
    found += [len(list(names)), max(list(names), default=None), name in list(names), name not in tuple(names)]
    found += [sorted(itertools.chain(names, [name])), min(itertools.chain.from_iterable([names, [name]]))]
    found += [sorted([str(one) for one in list(names)]), sorted(one for one in (*names, name))]
    found += [sorted(list(map(str, list(names)))), sorted([*list(names), name]), {str(one) for one in list(names)}]
    found += [sorted(one for one in await tags_of(name)), sorted(list(await tags_of(name)))]
    for one in sorted(list(names)):
        found.append(await charge(one))
    return found


@workflow
async def in_its_order_all_the_same(names: set[str]) -> object:
    found: list[object] = sorted(enumerate(names))  # hazard: unordered
    found += sorted(zip(names, [1, 2]))  # hazard: unordered
    found += list(map(str, names))  # hazard: unordered
    found += [str(one) for one in list(names)]  # hazard: unordered
    found += sorted([list(names)])  # hazard: unordered
    found += [*names, *[]]  # hazard: unordered
    found += sorted(list(names), key=len)  # hazard: unordered
    found += sorted(map(str, [*names]), key=len)  # hazard: unordered
    for one in list(names):  # hazard: unordered
        found.append(await charge(one))
    return found


@workflow
async def asked_for_in_its_order(names: set[str]) -> object:
    tasks = {asyncio.create_task(charge(name)) for name in names}  # hazard: unordered
    pending = {render.start(name) for name in names}  # hazard: unordered
    total = sum(len(render(name)) for name in names)  # hazard: unordered
    shown = {render(name) for name in names if name}  # hazard: unordered
    is_any = any(name for name in names if render(name))  # hazard: unordered
    rendered = sorted(map(render, names))  # hazard: unordered
    kept = sorted(filter(lambda name: render(name) == name, list(names)))  # hazard: unordered
    return [[await one for one in sorted(tasks, key=id_of)], total, shown, is_any, rendered, kept, pending]


def id_of(task: object) -> str:
    return str(task)

"""Calls that stand in a list, a mapping or a comprehension: forgotten with it, or awaited by whoever gets it. Nothing
here is ever executed."""

import asyncio

import holdfast
from holdfast import step, workflow


@step
async def mail(name: str) -> str:
    return name


@step
def render(value: object) -> str:
    return str(value)


@workflow
async def child(name: str) -> str:
    return await mail(name)


@workflow
async def stands_alone(names: list[str]) -> None:
    [mail(name) for name in names]  # hazard: await
    {mail(name) for name in names}  # hazard: await
    {name: mail(name) for name in names}  # hazard: await
    (mail(name) for name in names)  # hazard: await
    {"k": mail("ann")}  # hazard: await
    {mail("ann")}  # hazard: await
    [[mail("ann")]]  # hazard: await
    [mail(name) if name else None for name in names]  # hazard: await
    [child(name) for name in names] if names else []  # hazard: await


@workflow
async def never_used(names: list[str]) -> None:
    waits = [holdfast.sleep(1)]  # hazard: await
    mails = [mail(name) for name in names]  # hazard: await
    by_name: dict[str, object] = {"k": mail("ann")}  # hazard: await
    pairs = [(name, mail(name)) for name in names]  # hazard: await


@workflow
async def only_looked_at(names: list[str]) -> int:
    waits = [holdfast.sleep(1)]  # hazard: await
    by_name = {"k": mail("ann")}  # hazard: await
    render(str(by_name))
    held = mail("ann")  # hazard: await
    print(f"{held}")
    print(len([mail(name) for name in names]))  # hazard: await
    if any(mail(name) for name in names):  # hazard: await
        render({"k": mail("ann")})  # hazard: await
    return len(waits)


@workflow
async def gone_over(names: list[str]) -> list[str]:
    for one in (mail("ann"),):  # hazard: await
        pass
    for _ in [mail(name) for name in names]:  # hazard: await
        await holdfast.sleep(1)
    return [name for name in names if mail(name)]  # hazard: await


@workflow
async def result(names: list[str]) -> object:
    return [mail(name) for name in names]  # hazard: await


class Mails:
    def __init__(self, waiting: list[object]) -> None:
        self.waiting = waiting


def listed(names: list[str]) -> list[object]:
    return [mail(name) for name in names]


async def all_of(waiting: list[object]) -> None:
    await asyncio.gather(*waiting)


@workflow
async def awaited(names: list[str], kind: str) -> object:
    await asyncio.gather(*[mail(name) for name in names])
    await asyncio.gather(*(mail(name) for name in names), mail("x"))
    await asyncio.wait([asyncio.create_task(mail(name)) for name in names])
    await all_of([mail(name) for name in names])
    await all_of(waiting=[mail(name) for name in names])
    mails = [mail(name) for name in names]
    print(len(mails))
    for one in mails:
        await one
    for first in [mail("x"), mail("y")]:
        await first
    for name, second in {"x": mail("x"), "y": mail("y")}.items():
        print(name, await second)
    for name, third in [("x", mail("x")), ("y", mail("y"))]:
        print(name, await third)
    for pair in [("x", mail("x"))]:
        print(pair[0], await pair[1])
    by_name = {name: mail(name) for name in names}
    rest = {name: await one for name, one in by_name.items()}
    told = [await one for one in (mail("x"), mail("y"))]
    one_of = await {"x": mail("x"), "y": mail("y")}[kind]
    choice = await (mail("x"), mail("y"))[len(kind)]
    more = [mail("x")] + [mail(name) for name in names]
    more += [mail("y")]
    await asyncio.gather(*more)
    kept = Mails([mail(name) for name in names])
    await all_of(kept.waiting)
    kept.waiting = [mail("x")]
    await all_of(kept.waiting)
    left, right = mail("x"), mail("y")
    both = [await left, await right]
    await asyncio.gather(*listed(names))
    late: list[object] = []
    late.append(mail("x"))
    late.extend([mail(name) for name in names])
    await asyncio.gather(*late)
    drawn = [await mail(name) for name in names if await mail(name)]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(mail(name)) for name in names]
    return [rest, told, one_of, choice, both, drawn, [task.result() for task in tasks]]


@workflow
async def handed_to_a_function_inside(names: list[str]) -> list[str]:
    waiting: list[object] = []

    async def refill() -> None:
        nonlocal waiting
        waiting = [mail(name) for name in names]

    async def drain() -> None:
        for one in waiting:
            await one

    make = lambda: [mail(name) for name in names]
    await refill()
    await drain()
    return await asyncio.gather(*make())


def of_all(names: list[str]) -> object:
    return map(mail, names)


@workflow
async def mapped(names: list[str]) -> list[object]:
    list(map(mail, names))  # hazard: await
    map(mail, names)  # hazard: await
    sent = list(map(mail, names))  # hazard: await
    waits = tuple(map(holdfast.sleep, [1, 2]))  # hazard: await
    for _ in map(child, names):  # hazard: await
        await holdfast.sleep(1)
    print(len(list(map(mail, names))))  # hazard: await
    render(list(map(mail, names)))  # hazard: await
    list([mail(name) for name in names])  # hazard: await
    list(map(render, names))
    drawn = await asyncio.gather(*map(mail, names), *list(map(mail, names)))
    for one in map(mail, names):
        await one
    tasks = list(map(asyncio.create_task, map(mail, names)))
    late = [await one for one in map(mail, names)]
    await all_of(list(map(mail, names)))
    await asyncio.gather(*of_all(names))
    pending = list(map(mail.start, names))
    if names:
        return [drawn, [await one for one in tasks], late, [await one for one in pending]]
    return list(map(mail, names))  # hazard: await


@workflow
async def returned(names: list[str], ready: bool) -> object:
    first = mail("ann")  # hazard: await
    all_sent = list(map(mail, names))  # hazard: await
    some = [mail(name) for name in names]
    late = mail("bob")
    if ready:
        return first
    if names:
        some = await asyncio.gather(*some)
        return some
    if late:
        return await late
    return all_sent


@workflow
async def stored(names: list[str]) -> str:
    held = mail("ann")  # hazard: await
    render(held)
    kept = [mail(name) for name in names]  # hazard: await
    await child(kept)
    return held_by_a_helper(names) and render(await mail("x"))


def held_by_a_helper(names: list[str]) -> list[object]:
    made = [mail(name) for name in names]
    return made


@workflow
async def handed_on_by_a_function_inside(names: list[str]) -> list[str]:
    waiting = [mail(name) for name in names]

    def all_waiting() -> list[object]:
        return waiting

    return await asyncio.gather(*all_waiting())

"""Sets of a body's own tasks and futures, whose order is the same on every replay. Nothing here is ever executed."""

import asyncio

from holdfast import step, workflow


@step
async def mail(name: str) -> str:
    return name


@workflow
async def in_their_order(names: list[str]) -> object:
    tasks = [asyncio.create_task(mail(name)) for name in names]
    pending = set(tasks)
    for task in pending:
        task.cancel()
    by_name = {name: asyncio.create_task(mail(name)) for name in names}
    for task in set(by_name.values()):
        await task
    one, other = mail.start("x"), mail.start("y")
    for either in {one, other, *tasks}:
        await either
    loop = asyncio.get_running_loop()
    for future in {loop.create_future() for _ in names}:
        future.cancel()
    for group in {asyncio.gather(mail("x"), mail("y"))}:
        await group
    more = []
    for name in names:
        more.append(asyncio.create_task(mail(name)))
    return [await task for task in {*more, *list(tasks)}], [await task for task in frozenset(more)]


@workflow
async def in_another_order(names: list[str]) -> object:
    waiting = [mail(name) for name in names]
    for coroutine in set(waiting):  # hazard: unordered
        await coroutine
    task = asyncio.create_task(mail("x"))
    for one in {task, "x"}:  # hazard: unordered
        print(one)
    by_name = {name: name for name in names}
    for name in set(by_name.values()):  # hazard: unordered
        await mail(name)
    some = []
    some.append(task)
    some.append("x")
    for one in set(some):  # hazard: unordered
        print(one)
    for one in {*names, task}:  # hazard: unordered
        print(one)


@workflow
async def of_itself(names: list[str]) -> object:
    some = []
    some.append(*some)
    return [one for one in set(some)]  # hazard: unordered

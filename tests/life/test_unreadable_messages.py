"""Messages that a worker can't read, for its codec lacks the key or its code has another type by now: they block their
run, as anything does that can't be read, and whoever can read them goes on."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import Enum
from types import ModuleType
from typing import Any, Optional

import pytest

import holdfast
from holdfast import AesGcm, AsyncClient, AsyncRun, Codec, Worker, workflow
from holdfast.define import Workflow
from tests.life.approvals import Approval, Renamed
from tests.life.waiting import until, until_waiting

OLD, NEW = b"o" * 16, b"n" * 16
BEFORE = Codec(chain=[AesGcm({"old": OLD}, primary="old")])
AFTER = Codec(chain=[AesGcm({"old": OLD, "new": NEW}, primary="new")])


@workflow
async def signalled() -> Any:
    return await holdfast.wait_for_signal("go")


@workflow
async def signalled_by_the_manager() -> Any:
    return await holdfast.wait_for_signal("go", match={"by": "manager"})


@workflow
async def hooked() -> Any:
    hook: Any = holdfast.hook(name="go")
    holdfast.set_value("token", hook.token)
    return await hook.wait()


async def until_blocked(client: AsyncClient, run: AsyncRun[Any]) -> str:
    """What blocks it, as `explain` says."""

    async def is_blocked() -> bool:
        return "is blocked" in str(await client.explain(run.id))

    await until(is_blocked)
    return str(await client.explain(run.id))


async def send(client: AsyncClient, run: AsyncRun[Any], payload: Any) -> None:
    token = await run.value("token", default=None)
    if token is not None:
        await client.resume_hook(token, payload)
    else:
        await client.signal(run.id, "go", payload)


@pytest.mark.parametrize("body", [signalled, signalled_by_the_manager, hooked], ids=lambda body: body.name)
async def test_a_message_encrypted_with_a_key_that_a_worker_lacks_is_kept_for_a_worker_that_has_it(url: str, body: Any):
    async with AsyncClient(url, codec=AFTER) as sender:
        async with AsyncClient(url, codec=BEFORE) as client, Worker(client, workflows=[body]):
            run = await client.start(body)
            await until_waiting(run)
            await send(sender, await sender.get_run(run.id), {"by": "manager"})
            assert "encrypted with the key 'new'" in await until_blocked(client, run)
        async with Worker(sender, workflows=[body]):
            assert await (await sender.get_run(run.id)).result(timeout=60) == {"by": "manager"}


async def test_a_pickle_that_a_worker_may_not_open_is_kept_for_one_that_may(url: str):
    async with AsyncClient(url, codec=Codec(pickle=True)) as sender:
        async with AsyncClient(url) as client, Worker(client, workflows=[signalled]):
            run = await client.start(signalled)
            await until_waiting(run)
            await sender.signal(run.id, "go", {"by": range(3)})
            assert "pickle" in await until_blocked(client, run)
        async with Worker(sender, workflows=[signalled]):
            assert await (await sender.get_run(run.id)).result(timeout=60) == {"by": range(3)}


@dataclass
class Either:
    by: str = ""
    manager: str = ""


def hook_of(type: Any) -> Workflow[[], str]:
    @workflow(name="hook of a type")
    async def body() -> str:
        hook: Any = holdfast.hook(name="go", type=type)
        holdfast.set_value("token", hook.token)
        return repr(await hook.wait())

    return body


async def test_a_hooks_payload_that_the_new_code_can_t_read_is_kept_for_code_that_can(url: str):
    async with AsyncClient(url) as client:
        async with Worker(client, workflows=[hook_of(Approval)]):
            run = await client.start(hook_of(Approval))
            await until_waiting(run)
        async with Worker(client, workflows=[hook_of(Renamed)]):
            await send(client, run, {"manager": "Ada"})
            assert "needs by" in await until_blocked(client, run)
        async with Worker(client, workflows=[hook_of(Either)]):
            assert await run.result(timeout=60) == "Either(by='', manager='Ada')"


def signal_of(type: Any) -> Workflow[[], str]:
    @workflow(name="signal of a type")
    async def body() -> str:
        return repr(await holdfast.wait_for_signal("go", type=type))

    return body


async def test_a_wait_that_has_set_a_signal_aside_goes_by_the_type_that_the_newest_code_expects(url: str):
    async with AsyncClient(url) as client:
        async with Worker(client, workflows=[signal_of(Approval)]):
            run = await client.start(signal_of(Approval))
            await until_waiting(run)
        async with Worker(client, workflows=[signal_of(Renamed)]):
            await run.signal("go", {"manager": "Ada"})

            async def is_aside() -> bool:
                return "set aside" in str(await client.explain(run.id))

            await until(is_aside)
            await run.signal("go", {"by": "Bob"})
            assert await run.result(timeout=60) == "Renamed(by='Bob')"


class Unmarked:
    """Neither a dataclass nor anything else that values can be stored by."""


@workflow(name="mistyped")
async def mistyped() -> Any:
    return await holdfast.wait_for_signal("go", type=Unmarked)


@workflow(name="mistyped")
async def typed() -> Any:
    return (await holdfast.wait_for_signal("go", type=Renamed)).by


async def test_a_signal_for_a_type_that_reads_nothing_is_kept_for_code_that_has_another(url: str):
    async with AsyncClient(url) as client:
        async with Worker(client, workflows=[mistyped]):
            run = await client.start(mistyped)
            await until_waiting(run)
            await send(client, run, {"by": "Ada"})
            assert "values annotated Unmarked can't be stored" in await until_blocked(client, run)
        async with Worker(client, workflows=[typed]):
            assert await run.result("30s") == "Ada"


@pytest.mark.parametrize(
    ("wrong", "right", "payload"),
    [
        (list["Later"], list[Renamed], [{"by": "Ada"}]),  # type: ignore[name-defined]  # noqa: F821
        (Optional["Later"], Optional[Renamed], {"by": "Ada"}),  # noqa: F821, UP045
        (dict[str, Unmarked], dict[str, str], {"by": "Ada"}),
    ],
    ids=str,
)
async def test_a_signal_for_a_type_with_an_unknown_class_in_it_is_kept_for_code_that_knows_it(
    url: str, wrong: Any, right: Any, payload: Any
):
    async with AsyncClient(url) as client:
        async with Worker(client, workflows=[signal_of(wrong)]):
            run = await client.start(signal_of(wrong))
            await until_waiting(run)
            await run.signal("go", payload)
            assert "MissingCode" in await until_blocked(client, run)
        async with Worker(client, workflows=[signal_of(right)]):
            assert "Ada" in await run.result(timeout=60)


@pytest.mark.parametrize(
    ("type", "change"),
    [
        (Any, "no module"),
        (list[Any] | None, "no module"),
        (Any, "no class"),
        (Any, "no member"),
    ],
    ids=str,
)
async def test_a_member_of_an_enum_that_the_worker_does_not_know_is_kept_for_one_that_does(
    url: str, monkeypatch: pytest.MonkeyPatch, type: Any, change: str
):
    module: Any = ModuleType("colours_of_the_sender")
    module.Colour = Enum("Colour", {"RED": "red"}, module=module.__name__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    async with AsyncClient(url) as client:
        run = await client.start(signal_of(type))
        await run.signal("go", [module.Colour.RED])
        with pytest.MonkeyPatch.context() as older:
            if change == "no module":
                older.delitem(sys.modules, module.__name__)
            elif change == "no class":
                older.delattr(module, "Colour")
            else:
                older.setattr(module, "Colour", Enum("Colour", {"BLUE": "blue"}, module=module.__name__))
            async with Worker(client, workflows=[signal_of(type)]):
                assert "MissingCode" in await until_blocked(client, run)
        async with Worker(client, workflows=[signal_of(type)]):
            assert await run.result(timeout=60) == "[<Colour.RED: 'red'>]"

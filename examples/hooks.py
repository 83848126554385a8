"""A one-time token that resumes a run: for a link in a mail, or a URL that another system calls back.

Look at what the sender is told: a payload that does not fit is refused, and the hook stays open; the second answer is
refused, because there was a first.
"""

import asyncio
import tempfile
from dataclasses import dataclass

import holdfast
from holdfast import AsyncClient, BadPayload, HookUsed, WaitTimeout, Worker, step, workflow

mails: asyncio.Queue[str] = asyncio.Queue()


@dataclass
class Answer:
    accepted: bool


@step
async def mail(token: str) -> None:
    await mails.put(token)


@workflow
async def invitation() -> str:
    link = holdfast.hook(name="answer", type=Answer, expires="3d")
    await mail(link.token)
    answer = await link.wait()
    short = holdfast.hook(name="reminder", expires="0.1s")
    try:
        await short.wait()
    except WaitTimeout:
        return f"accepted: {answer.accepted}; nobody needed a reminder"
    return "reminded"


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncClient(f"sqlite:///{folder}/party.db") as client, Worker(client, workflows=[invitation]):
            run = await client.start(invitation)
            token = await mails.get()
            try:
                await client.resume_hook(token, {"accepted": "perhaps"})
            except BadPayload:
                print("that is no answer; the hook is still open")
            await client.resume_hook(token, {"accepted": True})
            try:
                await client.resume_hook(token, {"accepted": False})
            except HookUsed as error:
                print("too late:", error)
            print(await run.result(timeout=30))


if __name__ == "__main__":
    asyncio.run(main())

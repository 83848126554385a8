"""A run that waits for people: signals that come early or late, and a wait that gives up.

Look at two things. The note is sent before the run asks for one, and is not lost. The clerk's approval does not fit
`match`, so the wait goes on until the manager's comes.
"""

import asyncio
import tempfile
from dataclasses import dataclass

from holdfast import AsyncClient, BadPayload, Worker, step, wait_for_signal, workflow


@dataclass
class Approval:
    by: str
    cents: int


@step
async def pay(cents: int) -> str:
    return f"paid {cents} cents"


@workflow
async def expense(cents: int) -> str:
    approval = await wait_for_signal("approved", match={"by": "manager"}, type=Approval, timeout="7d")
    note = await wait_for_signal("note", type=str)
    # None is an ordinary payload. `default` is what a wait returns that has timed out.
    veto = await wait_for_signal("veto", timeout="0.1s", default="no veto")
    return f"{await pay(approval.cents)}, {note}, {veto}"


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncClient(f"sqlite:///{folder}/office.db") as client:
            run = await client.start(expense, 1200)
            await run.signal("note", "for the new chair")
            async with Worker(client, workflows=[expense]):
                await run.signal("approved", {"by": "clerk", "cents": 1200})
                async for status in run.changes():
                    if status == "waiting":
                        break
                try:
                    await run.signal("approved", {"by": "manager", "cents": "a lot"})
                except BadPayload as error:
                    print("refused where it was sent:", str(error).rpartition(": ")[2])
                # Sent twice, to be safe, but delivered once: both have the same message_id.
                for _ in range(2):
                    await run.signal("approved", {"by": "manager", "cents": 1000}, message_id="mail-7")
                print(await run.result(timeout=30))


if __name__ == "__main__":
    asyncio.run(main())

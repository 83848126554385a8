"""Steps that fail: tried again after a while, given up at once, or handled by an ordinary except."""

import holdfast
from holdfast import FatalError, Retry, RetryAfter, current_step, step, workflow


@step(retry=Retry(attempts=4, initial="0.2s", factor=2, jitter=0))
async def fetch(page: str) -> str:
    attempt = current_step().attempt
    print(f"fetch {page}, attempt {attempt}")
    if attempt == 1:
        raise ConnectionError("no answer")  # tried again after 0.2 s, by the policy
    if attempt == 2:
        raise RetryAfter("0.1s", "too many requests")  # the other side says how long to wait
    return f"<h1>{page}</h1>"


@step
async def publish(text: str) -> str:
    print("publish, once")
    raise FatalError("the press is broken for good")  # no further attempt, whatever the policy says


@step(timeout="30s", retry=Retry(attempts=1))
async def shelve(text: str) -> str:
    return f"shelved {text}"


@workflow
async def article(page: str) -> str:
    text = await fetch(page)
    try:
        return await publish(text)
    except FatalError as error:
        # The exception comes back as its own class, live and on replay.
        return f"{await shelve(text)}, because {error}"


if __name__ == "__main__":
    print(holdfast.run(article, "news"))

"""A workflow as a plain `def`. Calling a step blocks the run, not a thread, so thousands of runs may wait at once.

The functions that wait come from holdfast.blocking, whose types say that they return their value.
"""

import holdfast
from holdfast import blocking, step, workflow


@step
def count(text: str) -> int:
    return len(text.split())


@step
async def total(counts: list[int]) -> int:
    return sum(counts)


@workflow
def words(texts: list[str]) -> int:
    pending = [count.start(text) for text in texts]  # all under way at once
    counts = blocking.gather(*pending)
    blocking.sleep("0.2s")
    biggest = blocking.call("biggest", max, counts)  # any callable can be called as a step
    return total.start(counts).result() * 100 + biggest


if __name__ == "__main__":
    print(holdfast.run(words, ["to be or not to be", "that is the question"]))

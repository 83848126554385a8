"""Texts on their way into Postgres, which can store neither a NUL nor a lone surrogate.

Names that users give are refused before anything is written. Reports, which may quote anything, are escaped.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model import Lane, NewRun, is_text

_NEITHER = "expected text without a NUL or a lone surrogate"


def refuse_unstorable(runs: Sequence[NewRun]) -> None:
    """Refuse runs that can't be stored, with an error that names the run."""
    for run in runs:
        if not 0 <= run.priority <= 9:
            raise ValueError(f"run {run.id}: priority is {run.priority}; expected 0 to 9")
        texts = [run.id, run.workflow, run.version, run.queue, *run.tags, *run.tags.values()]
        others = (run.key, run.chain_id, run.origin_id, run.parent_id, run.forked_from, run.trace)
        _refuse(f"run {run.id!r}", [*texts, *filter(None, others)])


def refuse_unstorable_lanes(worker_id: str, lanes: Sequence[Lane]) -> None:
    """Refuse a worker whose id or lanes can't be stored."""
    _refuse(
        f"worker {worker_id!r}",
        [worker_id, *(text for lane in lanes for text in (lane.workflow, lane.version, lane.queue))],
    )


def _refuse(what: str, texts: Sequence[str]) -> None:
    if is_text("".join(texts)):
        return
    for text in texts:
        if not is_text(text):
            raise ValueError(f"{what}: {text!r} can't be stored; {_NEITHER}")


def storable(text: str | None) -> str | None:
    """A report with everything escaped that Postgres can't store."""
    if text is None or is_text(text):
        return text
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()

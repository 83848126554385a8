"""Reading from the store what an explanation needs. explain.py, which is pure, puts it into words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from holdfast.codec import Codec
from holdfast.model import Entry, RunRecord, RunStatus, SetAside, history_of, moment_of
from holdfast.store import Store

from .entries import readable
from .explain import Explanation, Surroundings, explain
from .failures import described, error_of, with_report
from .unfinished import open_children

_TOLD = 5
"""Children beyond these are only counted."""


async def explained(store: Store, record: RunRecord, codec: Codec) -> Explanation:
    """Why a run is not moving. If its journal can't be read, that is added to what is known otherwise."""
    is_told = record.status in (RunStatus.COMPLETED, RunStatus.CONTINUED)
    is_final = record.status.is_final
    entries, damage = readable(record.id, [] if is_told else await store.read_journal(record.id))
    entries = [_opened(one, codec) if isinstance(one, SetAside) else one for one in entries]
    surroundings = Surroundings(
        await store.list_workers(),
        store.namespace,
        moment_of(await store.read_clock()),
        lambda stored: described(error_of(codec, stored)),
        () if is_final else await store.read_waits(record.id),
        None if is_final else await store.find_cancel(record.id),
        () if is_final else await store.count_unread(record.id),
        () if is_final else await _joined(store, entries),
    )
    found = explain(with_report(record, codec), entries, surroundings)
    # A blocked run tells its own report, which may be about this very damage.
    return found if damage is None or record.blocked else replace(found, text=f"{found} But {damage}.")


def _opened(entry: SetAside, codec: Codec) -> SetAside:
    """What was set aside, with the reason in plain words."""
    return msgspec.structs.replace(entry, reason=codec.opened_text(entry.reason))


async def _joined(store: Store, entries: Sequence[Entry]) -> list[str]:
    """Ids of children that no run has, of as many as are told."""
    asked = [child.run_id for child in open_children(history_of(entries))[:_TOLD] if child.run_id is not None]
    return [run_id for run_id in asked if await store.get_run(run_id) is None]

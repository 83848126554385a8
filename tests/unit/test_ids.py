"""Ids: UUIDs of version 7, unique, sorted as text in the order of their creation."""

from __future__ import annotations

import threading
import time
from uuid import RFC_4122, UUID

from holdfast.model import bounded_id, new_id


def test_an_id_is_a_uuid_of_version_7():
    for _ in range(100):
        found = UUID(new_id())
        assert found.version == 7
        assert found.variant == RFC_4122


def test_an_id_is_written_in_the_canonical_form():
    found = new_id()
    assert str(UUID(found)) == found


def test_an_id_begins_with_the_time_of_its_creation():
    before = time.time_ns() // 1_000_000
    made = UUID(new_id()).int >> 80
    assert before <= made <= time.time_ns() // 1_000_000


def test_ids_of_later_milliseconds_sort_later():
    ids = []
    for _ in range(5):
        ids.append(new_id())
        made = time.time_ns() // 1_000_000
        while time.time_ns() // 1_000_000 == made:
            pass
    assert ids == sorted(ids)


def test_ids_made_at_once_by_many_threads_are_unique():
    ids: list[str] = []
    threads = [threading.Thread(target=lambda: ids.extend(new_id() for _ in range(2_000))) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(set(ids)) == 8_000


def test_an_id_that_a_store_can_keep_stays_as_it_is():
    assert bounded_id("x" * 500) == "x" * 500


def test_a_longer_id_is_cut_and_stays_distinct_from_others():
    ids = {bounded_id("x" * 500 + end) for end in ("a", "b", "ab")}
    assert len(ids) == 3
    assert {len(one) for one in ids} == {500}

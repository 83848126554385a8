"""The SQL loader: named blocks, and rows that become one statement."""

import sqlite3

import pytest

from holdfast.store.blocks import parse_blocks
from holdfast.store.contract import Store
from holdfast.store.sqlite.statements import LARGEST, SQL, repeat_group, size_for


def test_blocks_are_found_by_name():
    text = "-- A file.\n\n-- name: one\n-- What one does.\nSELECT 1;\n\n-- name: two\n-- And two.\nSELECT 2\nFROM x;\n"
    assert parse_blocks(text) == {"one": "SELECT 1", "two": "SELECT 2\nFROM x"}


def test_a_name_in_a_comment_is_no_parameter():
    text = "-- name: one\n-- At most :limit of them.\n-- All that :known holds is left out.\nSELECT :id;\n"
    assert parse_blocks(text) == {"one": "SELECT :id"}


@pytest.mark.parametrize(
    "text",
    [
        "-- name: one\nSELECT 1;\n",
        "-- name: one\n-- Twice.\nSELECT 1;\n-- name: one\n-- Twice.\nSELECT 1;\n",
        "-- name: one\n-- Empty.\n",
        "-- name: two words\n-- No name.\nSELECT 1;\n",
    ],
)
def test_a_bad_block_is_refused(text):
    with pytest.raises(ValueError, match="block"):
        parse_blocks(text)


@pytest.mark.parametrize(("count", "size"), [(1, 1), (2, 2), (3, 4), (5, 8), (64, 64), (65, 128), (LARGEST, LARGEST)])
def test_a_size_is_the_next_power_of_two(count, size):
    assert size_for(count) == size


def test_a_group_of_values_is_repeated_for_each_row():
    assert repeat_group("VALUES (?, ?)", 3) == "VALUES (?, ?), (?, ?), (?, ?)"
    with pytest.raises(ValueError, match="group"):
        repeat_group("VALUES (:a)", 2)


@pytest.mark.parametrize("count", [1, 2, 3, 100, LARGEST, LARGEST + 1, 3 * LARGEST + 7])
def test_any_number_of_rows_is_inserted_once_each(count):
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE journal (run, seq, epoch, at, data, PRIMARY KEY (run, seq)) WITHOUT ROWID")
    connection.execute("CREATE TABLE runs (number INTEGER PRIMARY KEY, cut_seq, cut_epoch)")
    connection.executemany("INSERT INTO runs (number) VALUES (?)", [(number,) for number in range(1, count + 1)])
    rows = [(number, 0, 1, 2, b"x") for number in range(1, count + 1)]
    texts = set()
    for text, values in SQL.batches("commit_turns", rows):
        texts.add(text)
        connection.execute(text, values)
    assert connection.execute("SELECT count(*), count(DISTINCT run) FROM journal").fetchone() == (count, count)
    assert len(texts) <= 2
    connection.close()


def test_every_method_that_reads_or_writes_has_a_block_of_its_name():
    # These open or lend something; what is done with it has blocks of its own. The last but one looks a chain up, and
    # then its run, by the blocks of those; SQLite's clock is its host's.
    others = {"open", "close", "subscribe", "guest", "lender", "find_last", "read_clock"}
    methods = {name for name in vars(Store) if not name.startswith("_")} - others
    assert methods - set(SQL) == set()

"""The two dialects side by side: the same blocks under the same names, in files of the same names.

A block that only one of them has is listed here with its reason.
"""

from importlib import resources

from holdfast.store.blocks import parse_blocks

ONLY_SQLITE = {
    "drop_messages": "Postgres drops messages in change_runs, one statement for all that a turn changes",
    "find_lane": "Postgres looks lanes up in one go: find_lanes",
    "find_turn": "Postgres asks for all of them in one go: find_turns",
    "hold_key": "Postgres takes keys in start_runs",
    "insert_lane": "Postgres makes lanes known in one go: insert_lanes",
    "insert_starts": "Postgres inserts runs and starts in start_runs",
    "last_number": "Postgres takes numbers from a sequence, in start_runs",
    "list_files": "a database in a file is known by its file",
    "read_long_journal": "SQLite reads the journals of a claim as one text, which has a limit",
    "see_messages": "Postgres marks and reads messages in read_inboxes",
    "take_cancels": "Postgres takes cancels in change_runs",
    "take_runs": "Postgres takes what it found in claim_runs itself, where rows are locked as they are found",
}
ONLY_POSTGRES = {
    "clock": "the time is the database's; SQLite's is its host's",
    "create_schema": "a file has no schemas",
    "drop_key": "SQLite takes a key over by hold_key",
    "find_held": "rows may be locked by others; SQLite has one writer",
    "find_lanes": "see find_lane",
    "find_mark": "whether a transactional step has ended the transaction it was lent; SQLite can be asked directly",
    "find_place": "a database is known by its first migration; see list_files",
    "find_place_taken": "whose turn is at a place, when the answer to a COMMIT was lost; SQLite's is never lost",
    "find_turns": "see find_turn",
    "insert_lanes": "see insert_lane",
    "last_seqs": "SQLite reads the last seq while it takes over",
    "lock_dead": "a lease may be renewed meanwhile; SQLite has one writer",
    "lock_key": "two processes may start with one key at once; SQLite has one writer",
    "lock_migrations": "many processes may open an empty database at once; SQLite locks the file",
    "mark_transaction": "see find_mark",
    "next_generation": "a claim may be executed after it was given up; SQLite's are executed in this process",
    "notify": "other processes are told by the server; SQLite watches the file",
    "settle_constraints": "SQLite has no constraints that can be told to settle early",
    "wake_missed": "two commits may not see each other; SQLite has one writer",
}


def blocks(dialect):
    """Every block of a dialect, with the file that it is in."""
    folder = resources.files(f"holdfast.store.{dialect}")
    return {
        name: file.name
        for file in folder.iterdir()
        if file.name.endswith(".sql")
        for name in parse_blocks(file.read_text(encoding="utf-8"))
    }


def test_blocks_that_only_one_dialect_has_are_known_with_their_reason():
    sqlite, postgres = blocks("sqlite"), blocks("postgres")
    assert sqlite.keys() - postgres.keys() == ONLY_SQLITE.keys()
    assert postgres.keys() - sqlite.keys() == ONLY_POSTGRES.keys()


def test_a_block_is_in_the_file_of_the_same_name_in_both_dialects():
    sqlite, postgres = blocks("sqlite"), blocks("postgres")
    assert {name: (sqlite[name], postgres[name]) for name in sqlite.keys() & postgres.keys()} == {
        name: (sqlite[name], sqlite[name]) for name in sqlite.keys() & postgres.keys()
    }


def test_blocks_that_both_have_stand_in_the_same_order():
    sqlite, postgres = blocks("sqlite"), blocks("postgres")
    for file in sorted(set(sqlite.values())):
        here = [name for name, place in sqlite.items() if place == file and name in postgres]
        there = [name for name, place in postgres.items() if place == file and name in sqlite]
        assert here == there, file

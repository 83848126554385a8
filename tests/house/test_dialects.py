"""The two dialects side by side: the same blocks under the same names, in files of the same names.

A block that only one of them has is listed here with its reason.
"""

from importlib import resources

from holdfast.store.blocks import parse_blocks

ONLY_SQLITE = {
    "cut_journal": "Postgres says from where on a journal goes in truncate_journal",
    "drop_messages": "Postgres drops messages in change_runs, one statement for all that a turn changes",
    "find_lane": "Postgres looks lanes up in one go: find_lanes",
    "find_turn": "Postgres asks for all of them in one go: find_turns",
    "hold_key": "Postgres takes keys in start_runs",
    "insert_lane": "Postgres makes lanes known in one go: insert_lanes",
    "insert_starts": "Postgres inserts runs and starts in start_runs",
    "last_number": "Postgres takes numbers from a sequence, in start_runs",
    "list_files": "a database in a file is known by its file",
    "note_probes": "Postgres notes probes in mark_matched",
    "read_large_inputs": "SQLite reads the small values of a claim as one text, and the others by themselves",
    "read_large_rows": "SQLite reads the small values of a claim as one text, and the others by themselves",
    "see_messages": "Postgres marks and reads messages in read_inboxes",
    "take_cancels": "Postgres takes cancels in change_runs",
    "take_runs": "Postgres takes what it found in claim_runs itself, where rows are locked as they are found",
    **dict.fromkeys(
        [
            *(
                "delete_event_ids",
                "delete_events",
                "delete_hook_ids",
                "delete_hooks",
                "delete_items",
                "delete_journals",
                "delete_messages",
            ),
            *("delete_keys", "delete_runs", "delete_signal_ids", "delete_starts", "delete_taken", "delete_values"),
            *("drop_pauses", "find_empty_chains"),
        ],
        "Postgres removes runs, chains and events with all they own in a statement each: remove_runs and its like",
    ),
    **dict.fromkeys(
        ["bury_hooks", "cancel_children", "drop_followers", "drop_waits", "find_ties", "find_told", "read_ends"],
        "Postgres does what an end brings with it in change_runs",
    ),
    **dict.fromkeys(
        [
            *("find_inherited", "inherit_pause", "move_followers", "move_hooks", "move_waiting"),
            *("name_successor", "insert_followers"),
        ],
        "Postgres continues runs, and joins them, in continue_runs and join_runs",
    ),
    **dict.fromkeys(
        ["chains_of", "find_chain_start", "find_chains", "find_message_id", "insert_message_id"],
        "Postgres finds the chain, the message id and the inbox of a message in the statement that sends it",
    ),
    **dict.fromkeys(
        ["end_waits", "find_open", "take_event"],
        "Postgres delivers an event to many waits by one statement",
    ),
    **dict.fromkeys(["find_used_hook", "resume_hook"], "Postgres takes a hook and tells what became of it: take_hook"),
    **dict.fromkeys(
        ["find_sender", "last_item", "last_place", "was_retried"],
        "Postgres counts the items of a stream in a row, hold_stream, and adds to it by one statement",
    ),
}
ONLY_POSTGRES = {
    "read_clock": "the time is the database's; SQLite's is its host's",
    "commit_turn": "one statement serves one row and many in SQLite, where a text is made for each number of rows",
    "create_schema": "a file has no schemas",
    "drop_key": "SQLite takes a key over by hold_key",
    "find_held": "rows may be locked by others; SQLite has one writer",
    "find_lanes": "see find_lane",
    "find_mark": "whether a transactional step has ended the transaction it was lent; SQLite can be asked directly",
    "find_place": "a database is known by its first migration; see list_files",
    "find_place_taken": "whose turn is at a place, when the answer to a COMMIT was lost; SQLite's is never lost",
    "find_turns": "see find_turn",
    "give_back_lost": "a server may come back without its last commits; SQLite's file has them",
    "insert_lanes": "see insert_lane",
    "last_seqs": "SQLite reads the last seq while it takes over",
    "lock_dead": "a lease may be renewed meanwhile; SQLite has one writer",
    "lock_key": "two processes may start with one key at once; SQLite has one writer",
    "lock_migrations": "many processes may open an empty database at once; SQLite locks the file",
    "mark_transaction": "see find_mark",
    "next_generation": "a claim may be executed after it was given up; SQLite's are executed in this process",
    "notify": "other processes are told by the server; SQLite watches the file",
    "see_holder": "a run that a start returns is not to stand still until the caller commits; SQLite has one writer",
    "sees_run": "a transactional step may see nothing younger than itself; SQLite's has the write lock",
    "settle_constraints": "SQLite has no constraints that can be told to settle early",
    "wake_missed": "two commits may not see each other; SQLite has one writer",
    "find_newest": "a chain's last run, which SQLite finds by find_chains",
    "hurry": "a transaction on the connection of all turns waits for no lock for long",
    **dict.fromkeys(
        ["lock_removals", "remove_chains", "remove_event_ids", "remove_events", "remove_runs"],
        "see delete_runs",
    ),
    **dict.fromkeys(["cancel_orphans", "continue_runs", "join_runs", "lock_continued", "tell_ends"], "see move_hooks"),
    **dict.fromkeys(
        ["await_ends", "find_followers", "find_missed", "move_strays", "tell_missed"],
        "two commits may not see each other; SQLite has one writer",
    ),
    **dict.fromkeys(
        ["begin_look", "end_look", "hold_chain", "hold_chains", "refuse_removed", "undo_look"],
        "a run may go on while a caller's open transaction sends to it; SQLite has one writer",
    ),
    "publish_events": "many of a batch at once",
    **dict.fromkeys(
        ["send_hook", "send_pauses", "send_signals", "settle_hook", "take_hook"],
        "see find_message_id and resume_hook",
    ),
    **dict.fromkeys(
        ["mark_hook", "see_hook", "unmark_hook"],
        "resumers are told apart by a mark, so that a caller's open transaction locks no wait; SQLite has one writer",
    ),
    **dict.fromkeys(["append_given", "hold_stream", "set_values"], "many of a batch at once; see last_place"),
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

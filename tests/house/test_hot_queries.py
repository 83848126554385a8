"""No hot query walks a table: each is explained here, and the claim's work is counted beside a large backlog."""

import sqlite3

import pytest

from holdfast.model import RunFilter
from holdfast.store.listing import fragments
from holdfast.store.sqlite.migrations import migrate
from holdfast.store.sqlite.statements import SQL, repeat_group
from holdfast.store.sqlite.transactions import as_json

LANES = '[["ship", "1", "default"], ["send", "2", "slow"]]'
PARAMS = {
    "namespace_id": 1, "lanes": LANES, "limit": 10, "now": 100, "run_id": "r", "id": "r", "ids": '["r"]', "runs": "[1]",
    "run": 1, "owner": "w", "workers": '["w"]', "workflow": "ship", "version": "1", "queue": "default", "key": "k",
    "writes": '[["r", "w", 1]]', "seq": 0, "epoch": 1, "next_seq": 1, "lane_id": 1, "payload": b"", "lease_until": 1,
    "host": "h", "pid": 1, "has_lock": 1, "number": 1, "name": "n", "packed": 10, "most": 100, "unbegun": False,
    "suspects": 1, "known": "[]", "for_ever": 1 << 62,
    "held": '["r"]', "declared": None, "on_event": None, "waits": "[[1, 1]]", "event": 1, "chains": '["r"]',
    "chain_id": "r", "token": "t", "scope": "event", "probes": '["", "00"]', "published_at": 1, "after_run": 0,
    "after_number": 0, "after_at": 0, "after_id": 0,
    "after": 0, "unmatched_at": 0, "unmatched_id": 0, "since": 0, "successor": 2, "successor_id": "s",
    "stream": "log", "step": "s", "paused": 1, "before": 1, "longest": None, "matched_since": 0, "trace": None,
    "asked": "[[1, 1]]", "askers": "[1]",
}  # fmt: skip
FRAGMENTS = {"get_run", "find_run", "read_ended"}
LISTING = {"list_runs"} | {name for name in SQL if name.startswith(("and_", "list_by_", "end_")) and name != "end_run"}
MAY_WALK = {
    # The partial index holds fresh messages only.
    "read_inbox": "SCAN inbox USING INDEX inbox_fresh",
}


@pytest.fixture
def connection():
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("PRAGMA foreign_keys = OFF")
    migrate(connection, ":memory:", may_change=True)
    yield connection
    connection.close()


def plan(connection, text, params):
    """The lines of a statement's plan."""
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", params)]


def walks(lines):
    """The lines that walk a whole table of the store, by an index or without one."""
    tables = (
        "runs", "due", "one", "listed", "journal", "inbox", "starts", "given", "keys", "lanes", "waits", "open", "seen",
        "closed", "events", "taken_events", "message_ids", "used_hooks", "followers", "chain_values", "stream_items",
        "newer", "late", "probed", "event_probes", "first", "ended", "parent", "child", "next", "registered",
    )  # fmt: skip
    return [line for line in lines if line.startswith("SCAN") and line.split()[1] in tables]


def texts():
    """Every whole statement, by name."""
    for name in SQL:
        if name in LISTING or name == "select_runs":
            continue
        text = SQL.join("select_runs", name) if name in FRAGMENTS else SQL[name]
        yield name, repeat_group(text, 4) if "(?" in text else text


def params_of(text):
    count = text.count("?")
    return [None] * count if count else PARAMS


@pytest.mark.parametrize(("name", "text"), [pytest.param(name, text, id=name) for name, text in texts()])
def test_no_statement_walks_a_table(connection, name, text):
    if text.startswith("CREATE"):
        return
    lines = plan(connection, text, params_of(text))
    assert [line for line in walks(lines) if line != MAY_WALK.get(name)] == []


@pytest.mark.parametrize(
    ("name", "table", "index"),
    [
        ("claim_runs", "due", "runs_claimable (lane_id=? AND priority=? AND due_at"),
        ("claim_runs", "suspect", "runs_suspect (lane_id=?"),
        ("claim_runs", "inbox", "inbox_fresh (lane_id=?"),
        ("claim_runs", "late", "runs_paused (lane_id=? AND deadline_at"),
        ("claim_run", "runs", "runs_by_id (namespace_id=? AND id=?"),
        ("next_due", "due", "runs_claimable (lane_id=? AND priority=?"),
        ("next_due", "suspect", "runs_suspect (lane_id=?"),
        ("next_due", "inbox", "inbox_fresh (lane_id=?"),
        ("next_due", "late", "runs_paused (lane_id=?"),
        ("reap_workers", "runs", "runs_by_owner (namespace_id=? AND owner=?"),
        ("list_owners", "runs", "runs_by_owner (namespace_id=? AND owner>?"),
        ("wake_heirs", "runs", "runs_after (namespace_id=? AND after_run_id=?"),
        ("wake_blocked", "runs", "runs_blocked (lane_id=?"),
        ("free_inboxes", "inbox", "inbox_by_run (run=?"),
        ("read_journals", "journal", "PRIMARY KEY (run=?"),
        ("read_ended", "runs", "runs_by_id (namespace_id=? AND id=?"),
        ("get_run", "runs", "runs_by_id (namespace_id=? AND id=?"),
        ("change_runs", "runs", "INTEGER PRIMARY KEY (rowid=?"),
        ("find_chains", "newer", "starts_by_chain (chain_id=?"),
        ("find_ties", "child", "starts_by_parent (parent_id=?"),
        ("find_ties", "waits", "waits_by_run (run=?"),
        ("find_waits", "one", "waits_for_events (namespace_id=? AND name=? AND probe=?"),
        ("find_events", "events", "events_by_name (namespace_id=? AND name=? AND published_at>"),
        ("find_newer_events", "newer", "events_by_name (namespace_id=? AND name=? AND "),
        ("find_newer_events", "late", "events_by_match (namespace_id=? AND name=? AND matched_at>"),
        ("find_newer_events", "fresh", "events_unmatched_by_name (namespace_id=? AND name=? AND published_at>"),
        ("find_probed_events", "probed", "PRIMARY KEY (namespace_id=? AND probe=? AND "),
        ("find_probed_events", "late", "event_probes_by_match (namespace_id=? AND probe=? AND matched_at>"),
        ("find_probed_events", "one", "events_unmatched_by_name (namespace_id=? AND name=? AND "),
        ("delete_probes", "event_probes", "event_probes_by_event (event=?"),
        ("find_open", "open", "waits_by_run (run=? AND number=?"),
        ("read_unmatched_waits", "waits", "waits_unmatched (namespace_id=?"),
        ("read_unmatched", "events", "events_unmatched (namespace_id=? AND "),
        ("find_hook", "waits", "waits_by_token (namespace_id=? AND token=?"),
        ("sweep", "runs", "runs_expiring (namespace_id=? AND expires_at<"),
        ("find_kept_chains", "other", "starts_by_chain (chain_id=?"),
        ("find_kept_chains", "one", "INTEGER PRIMARY KEY (rowid=?"),
        ("take_up_removals", "runs", "runs_by_id (namespace_id=? AND id=?"),
        ("put_off_removals", "runs", "INTEGER PRIMARY KEY (rowid=?"),
        ("delete_events", "one", "events_by_age (namespace_id=? AND published_at<"),
        ("last_item", "stream_items", "stream_items_by_step (run=? AND stream=? AND step=?"),
    ],
)
def test_a_hot_statement_goes_by_its_index(connection, name, table, index):
    text = dict(texts())[name]
    lines = plan(connection, text, params_of(text))
    assert [line for line in lines if line.startswith(f"SEARCH {table} USING") and index in line], lines


@pytest.mark.parametrize(
    "where",
    [
        RunFilter(),
        RunFilter(workflow="ship"),
        RunFilter(status="failed"),
        RunFilter(key="k"),
        RunFilter(parent="p"),
        RunFilter(workflow="ship", status=("failed", "running"), key="k", parent="p"),
    ],
    ids=["all", "workflow", "status", "key", "parent", "everything"],
)
@pytest.mark.parametrize("after", [None, (1, 1)], ids=["first page", "next page"])
def test_a_listing_walks_along_an_index(connection, where, after):
    names, params = fragments(where, after)
    params["statuses"] = as_json(params["statuses"])
    lines = plan(connection, SQL.join(*names), {**params, "namespace_id": 1, "limit": 10})
    assert walks(lines) == []
    if where.key or where.parent:
        assert any(line.startswith("SEARCH given USING") for line in lines)
        assert "SEARCH one USING INTEGER PRIMARY KEY (rowid=?)" in lines
    else:
        assert any("one USING COVERING INDEX runs_listed (lane_id=? AND status=?" in line for line in lines)


def work(connection, name):
    """How many instructions SQLite's machine takes for a statement."""
    count = 0

    def tick():
        nonlocal count
        count += 1

    connection.set_progress_handler(tick, 1)
    connection.execute(SQL[name], PARAMS).fetchall()
    connection.set_progress_handler(None, 0)
    return count


INSERT = """
INSERT INTO runs (namespace_id, id, lane_id, status, priority, due_at, owner, created_at, ended_at)
SELECT 1, :kind || value, :lane_id, :status, value % 10, :due_at, :owner, 0, :ended_at
FROM (WITH RECURSIVE n (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < :count) SELECT value FROM n)
"""


def fill(connection, kind, count, **fields):
    given = {"lane_id": 1, "status": "waiting", "due_at": None, "owner": None, "ended_at": None}
    connection.execute(INSERT, {**given, **fields, "kind": kind, "count": count})


@pytest.mark.parametrize("name", ["claim_runs", "next_due", "read_inbox", "list_owners"])
def test_the_work_does_not_grow_with_runs_that_are_parked_ended_owned_or_unknown(connection, name):
    connection.execute("INSERT INTO lanes VALUES (1, 1, 'ship', '1', 'default'), (2, 1, 'send', '2', 'slow')")
    connection.execute("INSERT INTO lanes VALUES (3, 1, 'unknown', '1', 'default')")
    fill(connection, "due", 5, due_at=50)
    fill(connection, "owned", 5, owner="somebody")
    fill(connection, "later", 20, due_at=1000)
    before = work(connection, name)
    for kind, fields in {
        "asleep": {"due_at": 5000},
        "parked": {},
        "ended": {"status": "completed", "ended_at": 7},
        "held": {"owner": "somebody"},
        "unknown": {"lane_id": 3, "due_at": 1},
    }.items():
        fill(connection, kind, 5000, **fields)
    assert work(connection, name) <= before * 1.1


def test_the_work_of_a_claim_is_bounded_by_its_limit_not_by_the_backlog(connection):
    connection.execute("INSERT INTO lanes VALUES (1, 1, 'ship', '1', 'default'), (2, 1, 'send', '2', 'slow')")
    fill(connection, "some", 1000, due_at=50)
    before = work(connection, "claim_runs")
    fill(connection, "more", 20_000, due_at=60)
    assert work(connection, "claim_runs") <= before * 1.1


@pytest.mark.parametrize("name", ["find_newer_events", "find_probed_events"])
def test_a_later_look_for_events_does_not_walk_what_was_taken_before(connection, name):
    def fill_events(count, first):
        connection.executemany(
            "INSERT INTO events (id, namespace_id, name, payload, published_at, matched_at, unmatched)"
            " VALUES (?, 1, 'n', '', ?, ?, 0)",
            [(number, number, number) for number in range(first, first + count)],
        )
        connection.executemany(
            "INSERT INTO taken_events VALUES (1, 'r', ?)", [(number,) for number in range(first, first + count)]
        )
        connection.executemany(
            "INSERT INTO event_probes VALUES (1, '00', ?, ?, ?)",
            [(number, number, number) for number in range(first, first + count)],
        )

    def steps(first):
        nonlocal count
        count = 0
        connection.set_progress_handler(tick, 1)
        params = {**PARAMS, "after_at": first, "after_id": first, "matched_since": first}
        connection.execute(SQL[name], params).fetchall()
        connection.set_progress_handler(None, 0)
        return count

    def tick():
        nonlocal count
        count += 1

    count = 0
    fill_events(20, 1)
    before = steps(10)
    fill_events(5_000, 100)
    assert steps(5_089) <= before * 1.2


def test_the_work_of_a_look_back_does_not_grow_with_events_that_the_wait_cannot_match(connection):
    def fill_events(count, first):
        places = [(number, number) for number in range(first, first + count)]
        connection.executemany(
            "INSERT INTO events (id, namespace_id, name, payload, published_at, matched_at, unmatched)"
            " VALUES (?, 1, 'n', '', ?, 1, 0)",
            places,
        )
        connection.executemany("INSERT INTO event_probes VALUES (1, 'other', ?, ?, 1)", places)

    for number, (first, count) in enumerate(((1, 1000), (1001, 4000))):
        fill_events(count, first)
        # Its own events, and one that is unmatched.
        connection.execute("INSERT INTO event_probes VALUES (1, '00', ?, ?, 1)", (first, first))
        connection.execute(
            "INSERT INTO events (id, namespace_id, name, payload, published_at) VALUES (?, 1, ?, '', 1)",
            (10_000 + number, "n" if number == 0 else "of another name"),
        )
        if number == 0:
            before = work(connection, "find_probed_events")
    connection.execute("DELETE FROM event_probes WHERE probe = '00' AND event > 1000")
    assert len(connection.execute(SQL["find_probed_events"], PARAMS).fetchall()) == 2
    assert work(connection, "find_probed_events") <= before * 1.1


TELL = """
INSERT INTO inbox (run, lane_id, priority, kind, payload, sent_at)
SELECT number, lane_id, priority, 'signal', x'', 5 FROM runs WHERE id LIKE :kind || '%'
"""


@pytest.mark.parametrize("name", ["claim_runs", "next_due"])
def test_the_work_of_a_claim_is_bounded_by_what_it_looks_at_not_by_all_that_were_told_something(connection, name):
    connection.execute("INSERT INTO lanes VALUES (1, 1, 'ship', '1', 'default'), (2, 1, 'send', '2', 'slow')")
    for kind, count in (("some", 2000), ("more", 20_000)):
        fill(connection, kind, count)
        connection.execute("UPDATE runs SET started_at = 1, next_seq = 2")
        connection.execute(TELL, {"kind": kind})
        if kind == "some":
            before = work(connection, name)
    assert work(connection, name) <= before * 1.1

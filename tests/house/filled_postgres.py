"""A Postgres database with runs of every kind in it, and values for every statement that may be executed there."""

import asyncio

import asyncpg

from holdfast.model import SECOND
from holdfast.store import open_store
from holdfast.store.postgres.connections import connect, parse_target
from holdfast.store.postgres.statements import blocks_for

BLOCKS = blocks_for("holdfast")
MANY = 20_000
NOW = 1_800_000_000 * SECOND
VALUES = {
    "namespace_id": 1, "now": NOW, "owner": "owner-7", "generation": 0, "lanes": [1, 2], "limit": 100, "reach": 400,
    "most": 1000, "unbegun": False, "suspects": 1, "known": [],
    "floor": 0, "run_id": "parked-77", "of_any_lane": False, "runs": [7, 8, 9], "ids": ["parked-77", "ended-8"],
    "id": "parked-77", "workflow": "ship", "key": "key-9", "run": 7, "lane_id": 1, "payload": b"", "next_seq": 3,
    "epoch": 2, "seqs": [5, 5, 5], "epochs": [1, 1, 1], "ats": [NOW] * 3, "datas": [b"x"] * 3,
    "workers": ["owner-7", "owner-9"], "gone": [], "held": ["owned-77"], "name": "default", "number": 9,
    "changing": [True, True, False], "changed": [7, 8], "statuses": ["waiting", "completed"], "due_ats": [NOW, None],
    "ended_ats": [None, NOW], "released": [True, True], "next_seqs": [6, 6], "crashes": [0, 0], "blocked": [None] * 2,
    "outputs": [None, b"x"], "errors": [None, None], "taken_runs": [7], "taken_ids": [7], "channel": "c", "sender": "s",
    "lease": 30 * SECOND, "host": "h", "pid": 1, "has_lock": False, "workflows": ["ship"], "versions": ["1"],
    "queues": ["default"], "declared": [None], "owners": ["owner-7"] * 2,
}  # fmt: skip
VALUES_OF = {
    "start_runs": {
        "ids": ["new"], "lanes": [1], "priorities": [0], "delays": [0], "due_ats": [None], "deadlines": [None],
        "deadline_ats": [None], "next_seqs": [0], "after_run_ids": [None], "inputs": [b""], "seeds": [b""],
        "keys": ["new"], "tags": ["{}"], "retentions": [None], "chain_ids": [None], "parent_ids": [None],
        "forked_froms": [None], "traces": [None], "journal_ids": [], "journal_seqs": [], "journal_datas": [],
    },
    "register_worker": {"lanes": "[]"},
    "next_generation": {"id": "owner-7", "generation": 1},
    "find_turns": {"seqs": [1, 1, 1]},
    "write_rows": {"epochs": [1, 1]},
    "find_held": {"epochs": [1, 1]},
    "find_newer_events": {
        "run": 1, "name": "name-7", "after_at": 1, "after_id": 1, "matched_since": 1, "since": 1, "limit": 10,
    },
    "find_probed_events": {
        "run": 1, "name": "name-7", "after_at": 1, "after_id": 1, "matched_since": 1, "since": 1, "limit": 10,
        "unmatched_at": 1, "unmatched_id": 1, "probes": [bytes(7) + b"\x07", bytes(8)],
    },
}  # fmt: skip
FILL = """
INSERT INTO holdfast.lanes (namespace_id, workflow, version, queue)
VALUES (1, 'ship', '1', 'default'), (1, 'send', '2', 'slow'), (1, 'unknown', '1', 'default');
INSERT INTO holdfast.workers (started_at, renewed_at, lease_until, namespace_id, pid, has_lock, id, host, lanes)
SELECT 0, 0, {now}, 1, 1, false, 'owner-' || n, 'h', '[]' FROM generate_series(1, 20) AS n;
INSERT INTO holdfast.runs (namespace_id, id, lane_id, status, priority, created_at, due_at, owner, ended_at, started_at,
    next_seq, blocked, after_run_id)
SELECT 1, kind.name || '-' || n, 1 + n % 3, kind.status, n % 10, n,
    CASE kind.name WHEN 'parked' THEN {now} + n WHEN 'due' THEN {now} - n END,
    CASE WHEN kind.name = 'owned' THEN 'owner-' || (n % 20) END, CASE WHEN kind.name = 'ended' THEN {now} END,
    CASE WHEN kind.name <> 'after' THEN 0 END,
    CASE WHEN kind.name <> 'owned' THEN 2 END, CASE WHEN kind.name = 'parked' AND n % 1000 = 0 THEN 'reason' END,
    CASE WHEN kind.name = 'after' THEN 'owned-' || n END
FROM (VALUES ('ended', 'completed', {many}), ('parked', 'waiting', {many}), ('owned', 'running', 2000),
    ('asleep', 'waiting', 2000), ('after', 'pending', 1000), ('due', 'pending', 300)) AS kind (name, status, many)
CROSS JOIN LATERAL generate_series(1, kind.many) AS n;
INSERT INTO holdfast.starts (number, due_at, input, seed, key, tags, parent_id, on_parent_end)
SELECT number, 0, '\\x', '\\x', 'key-' || number % 5000, '{{}}', 'parent-' || number % 5000, 'cancel'
FROM holdfast.runs;
INSERT INTO holdfast.keys (run, namespace_id, workflow, key)
SELECT number, 1, 'ship', 'key-' || number FROM holdfast.runs WHERE number < 20000;
INSERT INTO holdfast.journal (run, at, seq, epoch, data)
SELECT number, 0, seq, 1, '\\x00' FROM holdfast.runs CROSS JOIN generate_series(0, 1) AS seq;
INSERT INTO holdfast.inbox (run, sent_at, lane_id, priority, fresh, kind, payload)
SELECT number, number, lane_id, priority, id LIKE 'owned-%' AND number % 100 = 0, 'signal', '\\x'
FROM holdfast.runs WHERE ended_at IS NULL;
INSERT INTO holdfast.waits (run, registered_at, since, number, namespace_id, unmatched, kind, name, probe)
SELECT number, 0, 0, 1, 1, false, 'event', 'paid', '\\x' FROM holdfast.runs WHERE id LIKE 'asleep-%';
INSERT INTO holdfast.events (published_at, matched_at, namespace_id, unmatched, name, payload)
SELECT n, CASE WHEN n % 100 > 0 THEN n END, 1, n % 100 = 0, 'name-' || n % 20, '\\x'
FROM generate_series(1, 20000) AS n;
INSERT INTO holdfast.event_probes (published_at, event, matched_at, namespace_id, probe)
SELECT n, n, n, 1, decode(lpad(to_hex(CASE WHEN kind = 0 THEN n ELSE 50000 + n % 20 END), 16, '0'), 'hex')
FROM generate_series(1, 20000) AS n CROSS JOIN generate_series(0, 1) AS kind
WHERE n % 100 > 0;
INSERT INTO holdfast.taken_events (event, namespace_id, chain_id)
SELECT n, 1, 'ended-' || n % 10 FROM generate_series(1, 10000) AS n
"""


def migrated(url):
    """A store's database without a run in it."""

    async def migrate():
        store = open_store(url)
        await store.open()
        await store.close()

    asyncio.run(migrate())
    return url


def filled(url, many=MANY, *, with_statistics=True):
    """A store's database with many runs of every kind in it."""
    migrated(url)

    async def fill():
        connection = await asyncpg.connect(url)
        await connection.execute(FILL.format(now=NOW, many=many))
        if with_statistics:
            await connection.execute("ANALYZE")
        await connection.close()

    asyncio.run(fill())
    return url


def on_connection(url, act):
    """Do it on a connection with the store's own settings."""

    async def run():
        connection = await connect(parse_target(url, url))
        try:
            return await act(connection)
        finally:
            await connection.close()

    return asyncio.run(run())

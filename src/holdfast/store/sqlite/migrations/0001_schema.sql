-- The tables. Instants are whole microseconds since 1970; ids are what users see, numbers are what tables join by.

CREATE TABLE namespaces (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);

-- A workflow, in a version, on a queue: what a worker knows or does not. Runs point here with one small number.
CREATE TABLE lanes (
    id INTEGER PRIMARY KEY,
    namespace_id INTEGER NOT NULL,
    workflow TEXT NOT NULL,
    version TEXT NOT NULL,
    queue TEXT NOT NULL,
    UNIQUE (namespace_id, workflow, version, queue)
);

-- What changes in a run's life. A number is never used twice: a worker may still hold that of a run long deleted.
-- next_seq is null while the run is owned and after its owner died; ended_at is set exactly when the status is final.
CREATE TABLE runs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace_id INTEGER NOT NULL,
    id TEXT NOT NULL,
    lane_id INTEGER NOT NULL,
    status TEXT NOT NULL,
    paused INTEGER NOT NULL DEFAULT 0,
    priority INTEGER NOT NULL,
    due_at INTEGER,
    owner TEXT,
    epoch INTEGER NOT NULL DEFAULT 0,
    next_seq INTEGER,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    ended_at INTEGER,
    deadline_at INTEGER,
    after_run_id TEXT,
    crashes INTEGER NOT NULL DEFAULT 0,
    blocked TEXT,
    output BLOB,
    error BLOB
);

CREATE UNIQUE INDEX runs_by_id ON runs (namespace_id, id);
CREATE INDEX runs_claimable ON runs (lane_id, priority, due_at)
    WHERE owner IS NULL AND due_at IS NOT NULL AND paused = 0;
CREATE INDEX runs_by_owner ON runs (namespace_id, owner) WHERE owner IS NOT NULL;
CREATE INDEX runs_listed ON runs (lane_id, status, created_at);
CREATE INDEX runs_after ON runs (namespace_id, after_run_id) WHERE after_run_id IS NOT NULL;
CREATE INDEX runs_blocked ON runs (lane_id) WHERE blocked IS NOT NULL;

-- What a run was started with. It never changes, so a large input is not rewritten by every claim.
CREATE TABLE starts (
    number INTEGER PRIMARY KEY,
    due_at INTEGER NOT NULL,
    input BLOB NOT NULL,
    seed BLOB NOT NULL,
    key TEXT,
    tags TEXT NOT NULL,
    retention INTEGER,
    chain_id TEXT,
    parent_id TEXT,
    forked_from TEXT
);

CREATE INDEX starts_by_key ON starts (key) WHERE key IS NOT NULL;
CREATE INDEX starts_by_parent ON starts (parent_id) WHERE parent_id IS NOT NULL;

-- One row a turn. This primary key is what decides who writes next.
CREATE TABLE journal (
    run INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    at INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (run, seq)
) WITHOUT ROWID;

-- Messages not yet in a journal. A fresh one has been handed to nobody: it is a wake-up by itself.
-- A cancel that was taken stays until the run ends, so that a second one changes nothing.
CREATE TABLE inbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run INTEGER NOT NULL,
    lane_id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    name TEXT,
    payload BLOB NOT NULL,
    sent_at INTEGER NOT NULL,
    fresh INTEGER NOT NULL DEFAULT 1,
    taken INTEGER NOT NULL DEFAULT 0
);

CREATE INDEX inbox_by_run ON inbox (run);
CREATE INDEX inbox_fresh ON inbox (lane_id) WHERE fresh = 1;
CREATE UNIQUE INDEX inbox_cancels ON inbox (run) WHERE kind = 'cancel';

CREATE TABLE keys (
    namespace_id INTEGER NOT NULL,
    workflow TEXT NOT NULL,
    key TEXT NOT NULL,
    run INTEGER NOT NULL,
    PRIMARY KEY (namespace_id, workflow, key)
) WITHOUT ROWID;

CREATE TABLE workers (
    namespace_id INTEGER NOT NULL,
    id TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    has_lock INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    renewed_at INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    lanes TEXT NOT NULL,
    PRIMARY KEY (namespace_id, id)
) WITHOUT ROWID;

-- Versions that workers have ever announced. declared is the JSON of what the workflow says about itself, or null.
CREATE TABLE registered (
    namespace_id INTEGER NOT NULL,
    workflow TEXT NOT NULL,
    version TEXT NOT NULL,
    first_at INTEGER NOT NULL,
    declared TEXT,
    PRIMARY KEY (namespace_id, workflow, version)
) WITHOUT ROWID;

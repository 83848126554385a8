-- The tables. Instants are whole microseconds since 1970; ids are what users see, numbers are what tables join by.

CREATE TABLE namespaces (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);

-- A workflow in a version on a queue: a worker serves some of these. Runs refer to one by its small number.
CREATE TABLE lanes (
    id INTEGER PRIMARY KEY,
    namespace_id INTEGER NOT NULL,
    workflow TEXT NOT NULL,
    version TEXT NOT NULL,
    queue TEXT NOT NULL,
    UNIQUE (namespace_id, workflow, version, queue)
);

-- What changes in a run's life. A number is never used twice: a worker may still know that of a run long deleted.
-- next_seq is null while the run is owned, and after its owner has died. ended_at is set exactly when the status is
-- final, and expires_at with it, unless the run is kept for ever. A checkpoint at cut_seq, with the epoch cut_epoch,
-- has removed all journal rows before it, and none may be written there again.
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
    cut_seq INTEGER,
    cut_epoch INTEGER,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    ended_at INTEGER,
    expires_at INTEGER,
    deadline_at INTEGER,
    after_run_id TEXT,
    successor_id TEXT,
    crashes INTEGER NOT NULL DEFAULT 0,
    blocked TEXT,
    output BLOB,
    error BLOB
);

CREATE UNIQUE INDEX runs_by_id ON runs (namespace_id, id);
CREATE INDEX runs_claimable ON runs (lane_id, priority, due_at)
    WHERE owner IS NULL AND due_at IS NOT NULL AND paused = 0 AND crashes + (next_seq IS NULL) < 2;
-- Two workers or more have died with these runs. The last death may not be counted in `crashes` yet.
CREATE INDEX runs_suspect ON runs (lane_id, priority DESC, due_at)
    WHERE owner IS NULL AND due_at IS NOT NULL AND paused = 0 AND crashes + (next_seq IS NULL) >= 2;
-- A paused run is due when its deadline has passed.
CREATE INDEX runs_paused ON runs (lane_id, deadline_at)
    WHERE owner IS NULL AND ended_at IS NULL AND deadline_at IS NOT NULL AND paused = 1;
CREATE INDEX runs_by_owner ON runs (namespace_id, owner) WHERE owner IS NOT NULL;
CREATE INDEX runs_listed ON runs (lane_id, status, created_at);
CREATE INDEX runs_after ON runs (namespace_id, after_run_id) WHERE after_run_id IS NOT NULL;
CREATE INDEX runs_expiring ON runs (namespace_id, expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX runs_blocked ON runs (lane_id) WHERE blocked IS NOT NULL;

-- What a run was started with. It never changes, so a large input is not rewritten by every claim.
-- For the first run of a chain, chain_id and chain_started_at are null: they are its own id and time of creation.
-- origin_id is the run with which the run's life began; null if that is the first run of the chain.
CREATE TABLE starts (
    number INTEGER PRIMARY KEY,
    due_at INTEGER NOT NULL,
    input BLOB NOT NULL,
    seed BLOB NOT NULL,
    key TEXT,
    tags TEXT NOT NULL,
    retention INTEGER,
    has_own_retention INTEGER NOT NULL DEFAULT 0,
    chain_id TEXT,
    chain_started_at INTEGER,
    parent_id TEXT,
    parent_key TEXT,
    on_parent_end TEXT NOT NULL,
    forked_from TEXT,
    trace TEXT,
    origin_id TEXT
);

CREATE INDEX starts_by_key ON starts (key) WHERE key IS NOT NULL;
CREATE INDEX starts_by_chain ON starts (chain_id) WHERE chain_id IS NOT NULL;
CREATE INDEX starts_by_parent ON starts (parent_id) WHERE parent_id IS NOT NULL;

-- One row a turn. This primary key decides who writes next.
CREATE TABLE journal (
    run INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    at INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (run, seq)
) WITHOUT ROWID;

-- Messages that are not yet in a journal. A fresh one has not been handed to a worker, and so is itself a wake-up.
-- A cancel that was taken stays until the run ends, so that a second one changes nothing. `wait` is the number of the
-- wait that an event or a hook's payload is for; `trace` is the sender's, or null. Lane and priority are the run's.
CREATE TABLE inbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run INTEGER NOT NULL,
    lane_id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    name TEXT,
    payload BLOB NOT NULL,
    sent_at INTEGER NOT NULL,
    wait INTEGER,
    priority INTEGER NOT NULL,
    fresh INTEGER NOT NULL DEFAULT 1,
    taken INTEGER NOT NULL DEFAULT 0,
    trace TEXT
);

CREATE INDEX inbox_by_run ON inbox (run);
CREATE INDEX inbox_fresh ON inbox (lane_id, priority, sent_at) WHERE fresh = 1;
CREATE UNIQUE INDEX inbox_cancels ON inbox (run) WHERE kind = 'cancel';

-- Ids of messages that were delivered, so that each is delivered once. The scope is "signal/<chain>", "event" or
-- "hook/<digest of a token>".
CREATE TABLE message_ids (
    namespace_id INTEGER NOT NULL,
    scope TEXT NOT NULL,
    id TEXT NOT NULL,
    sent_at INTEGER NOT NULL,
    PRIMARY KEY (namespace_id, scope, id)
) WITHOUT ROWID;

CREATE INDEX message_ids_of_events ON message_ids (namespace_id, sent_at) WHERE scope = 'event';

-- Waits for events and hooks, and for signals that have a schema. since is when the run's chain began; an empty probe
-- means none. Whoever deletes a row was first. A hook keeps its number when its run continues as new.
CREATE TABLE waits (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace_id INTEGER NOT NULL,
    run INTEGER NOT NULL,
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    match BLOB,
    probe TEXT NOT NULL,
    schema BLOB,
    token TEXT,
    expires_at INTEGER,
    registered_at INTEGER NOT NULL,
    since INTEGER NOT NULL,
    unmatched INTEGER NOT NULL
);

CREATE UNIQUE INDEX waits_by_run ON waits (run, number);
CREATE UNIQUE INDEX waits_by_token ON waits (namespace_id, token) WHERE token IS NOT NULL;
CREATE INDEX waits_for_events ON waits (namespace_id, name, probe, run, number) WHERE kind = 'event';
CREATE INDEX waits_unmatched ON waits (namespace_id, run, number) WHERE unmatched = 1;

-- Hooks that are no longer open, and why, to tell whoever comes with their tokens.
CREATE TABLE used_hooks (
    namespace_id INTEGER NOT NULL,
    token TEXT NOT NULL,
    run INTEGER NOT NULL,
    became TEXT NOT NULL,
    PRIMARY KEY (namespace_id, token)
) WITHOUT ROWID;

CREATE INDEX used_hooks_by_run ON used_hooks (run);

-- Published events, until they are swept, and with them the notes of which chains have taken them. matched_at is when
-- some worker had looked for waits.
CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    payload BLOB NOT NULL,
    published_at INTEGER NOT NULL,
    matched_at INTEGER,
    unmatched INTEGER NOT NULL DEFAULT 1,
    trace TEXT
);

CREATE INDEX events_by_name ON events (namespace_id, name, published_at, id);
CREATE INDEX events_by_match ON events (namespace_id, name, matched_at) WHERE matched_at IS NOT NULL;
CREATE INDEX events_by_age ON events (namespace_id, published_at);
CREATE INDEX events_unmatched ON events (namespace_id, published_at, id) WHERE unmatched = 1;
CREATE INDEX events_unmatched_by_name ON events (namespace_id, name, published_at, id) WHERE unmatched = 1;

-- What later waits find events by, in the order in which they get them. Whoever marks an event as matched notes its
-- probes, so an event has them exactly if it is matched.
CREATE TABLE event_probes (
    namespace_id INTEGER NOT NULL,
    probe TEXT NOT NULL,
    published_at INTEGER NOT NULL,
    event INTEGER NOT NULL,
    matched_at INTEGER NOT NULL,
    PRIMARY KEY (namespace_id, probe, published_at, event)
) WITHOUT ROWID;

CREATE INDEX event_probes_by_match ON event_probes (namespace_id, probe, matched_at);
CREATE INDEX event_probes_by_event ON event_probes (event);

CREATE TABLE taken_events (
    namespace_id INTEGER NOT NULL,
    chain_id TEXT NOT NULL,
    event INTEGER NOT NULL,
    PRIMARY KEY (namespace_id, chain_id, event)
) WITHOUT ROWID;

CREATE INDEX taken_events_by_event ON taken_events (event);

-- Runs that asked for a child and joined an existing run instead. They are told of its end as of a child's.
CREATE TABLE followers (
    run INTEGER NOT NULL,
    follower INTEGER NOT NULL,
    parent_key TEXT NOT NULL,
    PRIMARY KEY (run, follower, parent_key)
) WITHOUT ROWID;

CREATE INDEX followers_by_follower ON followers (follower);

-- Values of chains. They are removed with the last run of the chain.
CREATE TABLE chain_values (
    namespace_id INTEGER NOT NULL,
    chain_id TEXT NOT NULL,
    name TEXT NOT NULL,
    value BLOB NOT NULL,
    set_at INTEGER NOT NULL,
    PRIMARY KEY (namespace_id, chain_id, name)
) WITHOUT ROWID;

-- Items of streams. run, step, attempt and the run's epoch say which execution sent an item, and number how many it had
-- sent before. Items that a body sent have no step, and zeros.
CREATE TABLE stream_items (
    namespace_id INTEGER NOT NULL,
    chain_id TEXT NOT NULL,
    stream TEXT NOT NULL,
    place INTEGER NOT NULL,
    run INTEGER NOT NULL,
    step TEXT,
    attempt INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    reset INTEGER NOT NULL,
    payload BLOB NOT NULL,
    PRIMARY KEY (namespace_id, chain_id, stream, place)
) WITHOUT ROWID;

CREATE INDEX stream_items_by_step ON stream_items (run, stream, step, epoch, attempt, number) WHERE step IS NOT NULL;

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

-- Versions that workers have ever registered. declared is the JSON of what @workflow declares of the version, or null.
CREATE TABLE registered (
    namespace_id INTEGER NOT NULL,
    workflow TEXT NOT NULL,
    version TEXT NOT NULL,
    first_at INTEGER NOT NULL,
    declared TEXT,
    on_event TEXT,
    PRIMARY KEY (namespace_id, workflow, version)
) WITHOUT ROWID;

CREATE INDEX registered_by_event ON registered (namespace_id, on_event) WHERE on_event IS NOT NULL;

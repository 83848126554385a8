-- Runs: starting, reading, listing, cancelling. A block without a SELECT of its own follows select_runs.

-- name: find_ids
-- Those of some ids that exist already, with the status of their runs.
SELECT runs.id, runs.status
FROM json_each(:ids) AS asked
CROSS JOIN runs ON runs.namespace_id = :namespace_id AND runs.id = asked.value;

-- name: find_holder
-- The run that holds a key, with all that decides what happens to it in a conflict.
SELECT runs.number, runs.id, runs.status, runs.lane_id, runs.started_at, runs.owner, runs.epoch, runs.next_seq,
    runs.after_run_id, runs.due_at, runs.blocked IS NOT NULL
FROM keys
JOIN runs ON runs.number = keys.run
WHERE keys.namespace_id = :namespace_id AND keys.workflow = :workflow AND keys.key = :key;

-- name: find_live
-- The same columns for a run by its id.
SELECT runs.number, runs.id, runs.status, runs.lane_id, runs.started_at, runs.owner, runs.epoch, runs.next_seq,
    runs.after_run_id, runs.due_at, runs.blocked IS NOT NULL
FROM runs
WHERE runs.namespace_id = :namespace_id AND runs.id = :id;

-- name: find_called_off
-- Whether a run is a child that is to end with its parent, and the parent has ended.
SELECT starts.number
FROM starts
WHERE starts.number = :run AND starts.parent_id IS NOT NULL AND starts.on_parent_end = 'cancel' AND NOT EXISTS (
    SELECT 1 FROM runs AS parent
    WHERE parent.namespace_id = :namespace_id AND parent.id = starts.parent_id AND parent.ended_at IS NULL
);

-- name: last_number
-- The largest number ever given to a run. Whoever holds the write lock may use the next ones.
SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'runs';

-- name: insert_lane
-- Make a lane known.
INSERT OR IGNORE INTO lanes (namespace_id, workflow, version, queue)
VALUES (:namespace_id, :workflow, :version, :queue);

-- name: find_lane
-- A lane's number.
SELECT id FROM lanes
WHERE namespace_id = :namespace_id AND workflow = :workflow AND version = :version AND queue = :queue;

-- name: start_runs
-- Many runs in one statement; a row of zeros is padding.
INSERT INTO runs (number, namespace_id, id, lane_id, status, priority, due_at, next_seq, created_at, deadline_at,
    after_run_id)
SELECT column1, column2, column3, column4, 'pending', column5, column6, column7, column8, column9, column10
FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?))
WHERE column1 <> 0;

-- name: insert_starts
-- What these runs were started with; a row of zeros is padding.
INSERT INTO starts (number, due_at, input, seed, key, tags, retention, chain_id, chain_started_at, parent_id, parent_key,
    on_parent_end, forked_from, trace, has_own_retention, origin_id)
SELECT column1, column2, column3, column4, column5, column6, column7, column8, column9, column10, column11, column12,
    column13, column14, column15, column16
FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?))
WHERE column1 <> 0;

-- name: find_seed
-- The seed of a run, for a run that goes on where it stopped.
SELECT starts.seed
FROM runs
CROSS JOIN starts ON starts.number = runs.number
WHERE runs.namespace_id = :namespace_id AND runs.id = :id;

-- name: hold_key
-- Give a key to a run, whoever held it.
INSERT INTO keys (namespace_id, workflow, key, run) VALUES (:namespace_id, :workflow, :key, :run)
ON CONFLICT (namespace_id, workflow, key) DO UPDATE SET run = excluded.run;

-- name: cancel_run
-- Ask a live run to end, once in its life.
INSERT OR IGNORE INTO inbox (run, lane_id, priority, kind, payload, sent_at)
SELECT runs.number, runs.lane_id, runs.priority, 'cancel', :payload, :now FROM runs WHERE runs.number = :run;

-- name: find_cancel
-- The cancel that was sent to a run, if no turn has taken it yet.
SELECT inbox.id, runs.id, inbox.kind, inbox.name, inbox.payload, inbox.sent_at, inbox.wait, inbox.trace
FROM runs
CROSS JOIN inbox ON inbox.run = runs.number AND inbox.kind = 'cancel'
WHERE runs.namespace_id = :namespace_id AND runs.id = :id AND inbox.taken = 0;

-- name: end_run
-- End a run from outside. The row of its journal is inserted by a statement of its own.
UPDATE runs
SET status = 'cancelled', ended_at = :now, due_at = NULL, owner = NULL, next_seq = :next_seq, epoch = :epoch,
    blocked = NULL, expires_at = :now + (
        SELECT min(coalesce(starts.retention, :longest), coalesce(:longest, starts.retention))
        FROM starts WHERE starts.number = runs.number
    )
WHERE number = :run AND ended_at IS NULL;

-- name: free_inboxes
-- Drop messages of ended runs that no run will read any more. Unread messages of a run that can be retried are kept.
DELETE FROM inbox
WHERE run IN (SELECT value FROM json_each(:runs)) AND (
    taken = 1 OR kind NOT IN ('signal', 'event', 'hook')
    OR (SELECT runs.status FROM runs WHERE runs.number = inbox.run) NOT IN ('failed', 'cancelled')
);

-- name: wake_heirs
-- Make the runs due that waited for these to end: at the time for which they were asked, or at their deadline if that
-- is earlier, but not before now.
UPDATE runs
SET after_run_id = NULL,
    due_at = max(:now, (
        SELECT min(starts.due_at, coalesce(runs.deadline_at, starts.due_at))
        FROM starts WHERE starts.number = runs.number
    ))
WHERE namespace_id = :namespace_id
    AND after_run_id IN (SELECT value FROM json_each(:ids))
    AND started_at IS NULL AND ended_at IS NULL;

-- name: read_gone
-- Those of some ids that no run has.
SELECT asked.value
FROM json_each(:ids) AS asked
WHERE NOT EXISTS (SELECT 1 FROM runs WHERE runs.namespace_id = :namespace_id AND runs.id = asked.value);

-- name: read_journal
-- All turns of a run, in order.
SELECT journal.seq, journal.epoch, journal.at, journal.data
FROM runs
CROSS JOIN journal ON journal.run = runs.number
WHERE runs.namespace_id = :namespace_id AND runs.id = :id
ORDER BY journal.seq;

-- name: select_runs
-- The columns of a run's record, in the order in which rows.py reads them. Many rows come as one, with bytes as hex
-- (see claims.sql).
SELECT '[' || group_concat(json_array(
    runs.number, runs.id, lanes.workflow, lanes.version, lanes.queue, runs.status, runs.paused, starts.key, starts.tags,
    runs.priority, runs.created_at, runs.started_at, runs.ended_at, runs.due_at, runs.deadline_at,
    starts.retention, coalesce(starts.chain_id, runs.id), coalesce(starts.origin_id, starts.chain_id, runs.id),
    starts.parent_id, starts.forked_from, runs.successor_id, runs.after_run_id, runs.owner, runs.epoch, runs.crashes, runs.blocked, hex(starts.input),
    CASE WHEN runs.output IS NOT NULL THEN hex(runs.output) END,
    CASE WHEN runs.error IS NOT NULL THEN hex(runs.error) END, starts.trace
)) || ']'
FROM runs
CROSS JOIN lanes ON lanes.id = runs.lane_id
CROSS JOIN starts ON starts.number = runs.number

-- name: get_run
-- One run by its id.
WHERE runs.namespace_id = :namespace_id AND runs.id = :id

-- name: read_ended
-- Those of some runs that have ended.
WHERE runs.namespace_id = :namespace_id AND runs.id IN (SELECT value FROM json_each(:ids))
    AND runs.ended_at IS NOT NULL

-- name: find_run
-- The run that holds a key.
WHERE runs.number = (
    SELECT keys.run FROM keys
    WHERE keys.namespace_id = :namespace_id AND keys.workflow = :workflow AND keys.key = :key
)

-- name: list_runs
-- The newest runs of each lane in each status, by bounded walks along an index; end_listed takes the newest of these.
WHERE runs.number IN (
    SELECT listed.number
    FROM lanes AS wanted
    CROSS JOIN json_each(:statuses) AS state
    CROSS JOIN runs AS listed
    WHERE wanted.namespace_id = :namespace_id
        AND listed.number IN (
            SELECT one.number FROM runs AS one
            WHERE one.lane_id = wanted.id AND one.status = state.value

-- name: list_by_key
-- Runs that were started with a key, whether they still hold it or not. They are few, so no walk is needed: see
-- end_few.
WHERE runs.number IN (
    SELECT one.number
    FROM starts AS given
    CROSS JOIN runs AS one ON one.number = given.number
    CROSS JOIN lanes AS wanted ON wanted.id = one.lane_id
    WHERE given.key = :key AND one.namespace_id = :namespace_id
        AND one.status IN (SELECT value FROM json_each(:statuses))

-- name: list_by_parent
-- The children of a run, likewise.
WHERE runs.number IN (
    SELECT one.number
    FROM starts AS given
    CROSS JOIN runs AS one ON one.number = given.number
    CROSS JOIN lanes AS wanted ON wanted.id = one.lane_id
    WHERE given.parent_id = :parent AND one.namespace_id = :namespace_id
        AND one.status IN (SELECT value FROM json_each(:statuses))

-- name: and_parent
-- Of the runs with a key, only the children of a run.
AND given.parent_id = :parent

-- name: and_before
-- Only runs that come after the cursor.
AND (one.created_at, one.number) < (:cursor_at, :cursor_number)

-- name: and_since
-- Only runs created at this time or later.
AND one.created_at >= :since

-- name: and_until
-- Only runs created before this time.
AND one.created_at < :until

-- name: and_workflow
-- Only runs of this workflow.
AND wanted.workflow = :workflow

-- name: end_walk
-- The end of a walk along one lane and status.
ORDER BY one.created_at DESC, one.number DESC LIMIT :limit
        )

-- name: end_listed
-- The newest of all walks.
    ORDER BY listed.created_at DESC, listed.number DESC LIMIT :limit
)

-- name: end_few
-- The newest of those found without a walk.
    ORDER BY one.created_at DESC, one.number DESC LIMIT :limit
)

-- Runs: starting, reading, listing, cancelling. A block without a SELECT of its own follows select_runs.

-- name: find_ids
-- Those of some ids that exist already, with the status of their runs.
SELECT runs.id, runs.status
FROM holdfast.runs
WHERE runs.namespace_id = :namespace_id AND runs.id = ANY (:ids::text[]);

-- name: find_holder
-- The run that holds a key, with all that decides what happens to it in a conflict. It is locked.
SELECT runs.number, runs.id, runs.status, runs.lane_id, runs.started_at, runs.owner, runs.epoch, runs.next_seq,
    runs.after_run_id, runs.due_at, runs.blocked IS NOT NULL
FROM holdfast.keys
JOIN holdfast.runs ON runs.number = keys.run
WHERE keys.namespace_id = :namespace_id AND keys.workflow = :workflow AND keys.key = :key
FOR NO KEY UPDATE OF runs;

-- name: see_holder
-- The run that holds a key, without a lock.
SELECT runs.id, runs.status
FROM holdfast.keys
JOIN holdfast.runs ON runs.number = keys.run
WHERE keys.namespace_id = :namespace_id AND keys.workflow = :workflow AND keys.key = :key;

-- name: find_live
-- The columns of find_holder for a run by its id. It is locked.
SELECT runs.number, runs.id, runs.status, runs.lane_id, runs.started_at, runs.owner, runs.epoch, runs.next_seq,
    runs.after_run_id, runs.due_at, runs.blocked IS NOT NULL
FROM holdfast.runs
WHERE runs.namespace_id = :namespace_id AND runs.id = :id
FOR NO KEY UPDATE OF runs;

-- name: find_called_off
-- Whether a run is a child that is to end with its parent, and the parent has ended.
SELECT starts.number
FROM holdfast.starts
WHERE starts.number = :run AND starts.parent_id IS NOT NULL AND starts.on_parent_end = 'cancel' AND NOT EXISTS (
    SELECT 1 FROM holdfast.runs AS parent
    WHERE parent.namespace_id = :namespace_id AND parent.id = starts.parent_id AND parent.ended_at IS NULL OFFSET 0
);

-- name: find_newest
-- The newest run of a run's chain.
SELECT runs.id
FROM holdfast.last_of_chain(:namespace_id, :id) AS last
JOIN holdfast.runs ON runs.number = last.number;

-- name: lock_key
-- Let one start at a time decide about a key, whether a run holds it or not. All schemas of a database share such
-- locks, so the text begins with the name of this one.
SELECT pg_advisory_xact_lock(hashtextextended('holdfast.keys/' || :key::text, :namespace_id::bigint));

-- name: insert_lanes
-- Make lanes known.
INSERT INTO holdfast.lanes (namespace_id, workflow, version, queue)
SELECT :namespace_id, asked.workflow, asked.version, asked.queue
FROM unnest(:workflows::text[], :versions::text[], :queues::text[]) AS asked (workflow, version, queue)
ON CONFLICT DO NOTHING;

-- name: find_lanes
-- The numbers of lanes.
SELECT lanes.workflow, lanes.version, lanes.queue, lanes.id
FROM unnest(:workflows::text[], :versions::text[], :queues::text[]) AS asked (workflow, version, queue)
JOIN holdfast.lanes ON lanes.namespace_id = :namespace_id AND lanes.workflow = asked.workflow
    AND lanes.version = asked.version AND lanes.queue = asked.queue;

-- name: start_runs
-- Many runs in one statement, with what they were started with, their keys and their first journal rows. A run whose
-- key is held is not created and not in the answer. An id that exists makes the statement fail, so that no key is left
-- without a run.
WITH clock AS MATERIALIZED (
    SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
),
asked AS MATERIALIZED (
    SELECT nextval('holdfast.runs_number_seq') AS number, clock.now, given.id, given.workflow,
        given.lane_id, given.priority, given.next_seq, given.after_run_id, given.input, given.seed, given.key,
        given.tags, given.retention, given.chain_id, given.parent_id, given.parent_key, given.on_parent_end,
        given.forked_from, given.trace, given.has_own_retention, given.origin_id,
        CASE WHEN given.chain_id IS NOT NULL THEN (
            SELECT coalesce(starts.chain_started_at, runs.created_at)
            FROM holdfast.last_of_chain(:namespace_id, given.chain_id) AS last
            JOIN holdfast.runs ON runs.number = last.number
            JOIN holdfast.starts ON starts.number = last.number
        ) END AS chain_started_at,
        coalesce(given.given_due_at, clock.now + given.delay) AS due_at,
        coalesce(given.given_deadline_at, clock.now + given.deadline) AS deadline_at
    FROM clock
    CROSS JOIN unnest(:ids::text[], :workflows::text[], :lanes::integer[], :priorities::smallint[], :delays::bigint[],
            :due_ats::bigint[], :deadlines::bigint[], :deadline_ats::bigint[], :next_seqs::integer[],
            :after_run_ids::text[], :inputs::bytea[], :seeds::bytea[], :keys::text[], :tags::text[],
            :retentions::bigint[], :chain_ids::text[], :parent_ids::text[], :parent_keys::text[],
            :on_parent_ends::text[], :forked_froms::text[], :traces::text[], :own_retentions::boolean[],
            :origin_ids::text[])
        AS given (id, workflow, lane_id, priority, delay, given_due_at, deadline, given_deadline_at, next_seq,
            after_run_id, input, seed, key, tags, retention, chain_id, parent_id, parent_key, on_parent_end,
            forked_from, trace, has_own_retention, origin_id)
),
held AS (
    INSERT INTO holdfast.keys (namespace_id, workflow, key, run)
    SELECT :namespace_id, asked.workflow, asked.key, asked.number FROM asked WHERE asked.key IS NOT NULL
    ON CONFLICT (namespace_id, workflow, key) DO NOTHING
    RETURNING run
),
free AS (
    SELECT asked.number, asked.now, asked.id, asked.lane_id, asked.priority, asked.next_seq, asked.after_run_id,
        asked.input, asked.seed, asked.key, asked.tags, asked.retention, asked.chain_id, asked.chain_started_at,
        asked.parent_id, asked.parent_key, asked.on_parent_end, asked.forked_from, asked.trace,
        asked.has_own_retention, asked.origin_id, asked.due_at, asked.deadline_at
    FROM asked WHERE asked.key IS NULL OR asked.number IN (SELECT held.run FROM held)
),
started AS (
    INSERT INTO holdfast.runs (number, namespace_id, id, lane_id, status, priority, due_at, next_seq, created_at,
        deadline_at, after_run_id)
    SELECT free.number, :namespace_id, free.id, free.lane_id, 'pending', free.priority,
        least(CASE WHEN free.after_run_id IS NULL THEN free.due_at END, free.deadline_at), free.next_seq, free.now,
        free.deadline_at, free.after_run_id
    FROM free
),
begun AS (
    INSERT INTO holdfast.starts (number, due_at, input, seed, key, tags, retention, chain_id, chain_started_at,
        parent_id, parent_key, on_parent_end, forked_from, trace, has_own_retention, origin_id)
    SELECT free.number, free.due_at, free.input, free.seed, free.key, free.tags, free.retention, free.chain_id,
        free.chain_started_at, free.parent_id, free.parent_key, free.on_parent_end, free.forked_from,
        free.trace, free.has_own_retention, free.origin_id
    FROM free
),
written AS (
    INSERT INTO holdfast.journal (run, seq, epoch, at, data)
    SELECT free.number, first.seq, 0, free.now, first.data
    FROM unnest(:journal_ids::text[], :journal_seqs::integer[], :journal_datas::bytea[]) AS first (id, seq, data)
    JOIN free ON free.id = first.id
)
SELECT free.id, free.number FROM free;

-- name: find_seed
-- The seed of a run, for a run that goes on where it stopped.
SELECT starts.seed
FROM holdfast.runs
JOIN holdfast.starts ON starts.number = runs.number
WHERE runs.namespace_id = :namespace_id AND runs.id = :id;

-- name: drop_key
-- Take a key from the run that holds it. The next start gets it.
DELETE FROM holdfast.keys WHERE namespace_id = :namespace_id AND workflow = :workflow AND key = :key;

-- name: cancel_run
-- Ask a live run to end, once in its life.
INSERT INTO holdfast.inbox (run, lane_id, priority, kind, payload, sent_at)
SELECT runs.number, runs.lane_id, runs.priority, 'cancel', :payload, :now
FROM holdfast.runs
WHERE runs.number = :run
ON CONFLICT DO NOTHING;

-- name: find_cancel
-- The cancel that was sent to a run, if no turn has taken it yet. LATERAL, or all cancels might be walked.
SELECT found.id, runs.id, found.kind, found.name, found.payload, found.sent_at, found.wait, found.trace
FROM holdfast.runs
CROSS JOIN LATERAL (
    SELECT inbox.id, inbox.kind, inbox.name, inbox.payload, inbox.sent_at, inbox.wait, inbox.trace
    FROM holdfast.inbox
    WHERE inbox.run = runs.number AND inbox.kind = 'cancel' AND NOT inbox.taken
    LIMIT 1
) AS found
WHERE runs.namespace_id = :namespace_id AND runs.id = :id;

-- name: end_run
-- End a run from outside. The row of its journal is inserted by a statement of its own.
UPDATE holdfast.runs
SET status = 'cancelled', ended_at = :now, due_at = NULL, owner = NULL, next_seq = :next_seq, epoch = :epoch,
    blocked = NULL,
    expires_at = :now + (
        SELECT least(starts.retention, :longest::bigint) FROM holdfast.starts WHERE starts.number = :run
    )
WHERE number = :run AND ended_at IS NULL;

-- name: free_inboxes
-- Drop messages of cancelled runs that no run will read any more. Unread messages that a retry may read are kept.
DELETE FROM holdfast.inbox
WHERE run = ANY (:runs::bigint[]) AND (inbox.taken OR inbox.kind NOT IN ('signal', 'event', 'hook'));

-- name: wake_heirs
-- Make the runs due that waited for these to end: at the time for which they were asked, or at their deadline if that
-- is earlier, but not before now.
UPDATE holdfast.runs
SET after_run_id = NULL, due_at = greatest(:now::bigint, least(starts.due_at, runs.deadline_at))
FROM unnest(:ids::text[]) AS ended (id), holdfast.starts
WHERE runs.namespace_id = :namespace_id AND runs.after_run_id = ended.id
    AND runs.started_at IS NULL AND runs.ended_at IS NULL AND starts.number = runs.number;

-- name: read_gone
-- Those of some ids that no run has.
SELECT asked.id
FROM unnest(:ids::text[]) AS asked (id)
WHERE NOT EXISTS (SELECT 1 FROM holdfast.runs WHERE runs.namespace_id = :namespace_id AND runs.id = asked.id);

-- name: read_journal
-- All turns of a run, in order.
SELECT journal.seq, journal.epoch, journal.at, journal.data
FROM holdfast.runs
JOIN holdfast.journal ON journal.run = runs.number
WHERE runs.namespace_id = :namespace_id AND runs.id = :id
ORDER BY journal.seq;

-- name: select_runs
-- The columns of a run's record, in the order in which rows.py reads them.
SELECT runs.number, runs.id, lanes.workflow, lanes.version, lanes.queue, runs.status, runs.paused, starts.key, starts.tags,
    runs.priority, runs.created_at, runs.started_at, runs.ended_at, runs.due_at, runs.deadline_at,
    starts.retention, coalesce(starts.chain_id, runs.id), coalesce(starts.origin_id, starts.chain_id, runs.id),
    starts.parent_id, starts.forked_from,
    runs.successor_id, runs.after_run_id, runs.owner, runs.epoch, runs.crashes, runs.blocked, starts.input, runs.output, runs.error,
    starts.trace
FROM holdfast.runs
JOIN holdfast.lanes ON lanes.id = runs.lane_id
JOIN holdfast.starts ON starts.number = runs.number

-- name: get_run
-- One run by its id.
WHERE runs.namespace_id = :namespace_id AND runs.id = :id

-- name: read_ended
-- Those of some runs that have ended.
WHERE runs.namespace_id = :namespace_id AND runs.id = ANY (:ids::text[])
    AND runs.ended_at IS NOT NULL

-- name: find_run
-- The run that holds a key.
WHERE runs.number = (
    SELECT keys.run FROM holdfast.keys
    WHERE keys.namespace_id = :namespace_id AND keys.workflow = :workflow AND keys.key = :key
)

-- name: list_runs
-- The newest runs of each lane in each status, by bounded walks along an index; end_listed takes the newest of these.
WHERE runs.number IN (
    SELECT listed.number
    FROM holdfast.lanes AS wanted
    CROSS JOIN unnest(:statuses::text[]) AS state (status)
    CROSS JOIN LATERAL (
            SELECT one.number, one.created_at FROM holdfast.runs AS one
            WHERE one.lane_id = wanted.id AND one.status = state.status

-- name: list_by_key
-- Runs that were started with a key, whether they still hold it or not. They are few, so no walk is needed: see
-- end_few.
WHERE runs.number IN (
    SELECT one.number
    FROM holdfast.starts AS given
    JOIN holdfast.runs AS one ON one.number = given.number
    JOIN holdfast.lanes AS wanted ON wanted.id = one.lane_id
    WHERE given.key = :key AND one.namespace_id = :namespace_id
        AND one.status = ANY (:statuses::text[])

-- name: list_by_parent
-- The children of a run, likewise.
WHERE runs.number IN (
    SELECT one.number
    FROM holdfast.starts AS given
    JOIN holdfast.runs AS one ON one.number = given.number
    JOIN holdfast.lanes AS wanted ON wanted.id = one.lane_id
    WHERE given.parent_id = :parent AND one.namespace_id = :namespace_id
        AND one.status = ANY (:statuses::text[])

-- name: and_parent
-- Of the runs with a key, only the children of a run.
AND given.parent_id = :parent

-- name: and_before
-- Only runs that come after the cursor.
AND (one.created_at, one.number) < (:cursor_at::bigint, :cursor_number::bigint)

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
    ) AS listed
    WHERE wanted.namespace_id = :namespace_id

-- name: end_listed
-- The newest of all walks.
    ORDER BY listed.created_at DESC, listed.number DESC LIMIT :limit
)
ORDER BY runs.created_at DESC, runs.number DESC

-- name: end_few
-- The newest of those found without a walk.
    ORDER BY one.created_at DESC, one.number DESC LIMIT :limit
)
ORDER BY runs.created_at DESC, runs.number DESC

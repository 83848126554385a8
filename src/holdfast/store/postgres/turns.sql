-- Turns: the hot path. A batch is one statement in an implicit transaction, and each turn of it stands for itself.

-- name: commit_turns
-- Many journal rows; a row whose place is taken is left out of the answer.
-- Unlike SQLite's, where a taken place refuses them all and they are sorted out one by one.
INSERT INTO holdfast.journal (run, seq, epoch, at, data)
SELECT asked.run, asked.seq, asked.epoch, asked.at, asked.data
FROM unnest(:runs::bigint[], :seqs::integer[], :epochs::integer[], :ats::bigint[], :datas::bytea[])
    AS asked (run, seq, epoch, at, data)
ON CONFLICT (run, seq) DO NOTHING
RETURNING run;

-- name: find_turns
-- Whose rows are at these places; no epoch where there is none.
SELECT runs.number, journal.epoch
FROM unnest(:runs::bigint[], :seqs::integer[]) AS asked (run, seq)
JOIN holdfast.runs ON runs.number = asked.run
LEFT JOIN holdfast.journal ON journal.run = asked.run AND journal.seq = asked.seq;

-- name: find_numbers
-- The numbers of runs that this process did not claim.
SELECT runs.id, runs.number
FROM holdfast.runs
WHERE runs.namespace_id = :namespace_id AND runs.id = ANY (:ids::text[]);

-- name: change_runs
-- Journal rows, and all that the accepted ones change beside: their runs, messages taken, inboxes of ended runs, followers.
-- A run whose row somebody else has locked is left out, turn and all: it is sent again, and nobody here waits for it. A
-- follower that is locked is left to wake_missed.
-- A run whose worker was reaped stays due: its turn was accepted since nobody has taken it over yet, and somebody must.
WITH locked AS MATERIALIZED (
    SELECT runs.number FROM holdfast.runs WHERE runs.number = ANY (:changed::bigint[])
    ORDER BY runs.number FOR NO KEY UPDATE SKIP LOCKED
),
inserted AS (
    INSERT INTO holdfast.journal (run, seq, epoch, at, data)
    SELECT asked.run, asked.seq, asked.epoch, asked.at, asked.data
    FROM unnest(:runs::bigint[], :seqs::integer[], :epochs::integer[], :ats::bigint[], :datas::bytea[],
            :changing::boolean[])
        AS asked (run, seq, epoch, at, data, changing)
    WHERE NOT asked.changing OR asked.run IN (SELECT locked.number FROM locked)
    ON CONFLICT (run, seq) DO NOTHING
    RETURNING run
),
changed AS (
    UPDATE holdfast.runs
    SET status = change.status, ended_at = change.ended_at,
        due_at = CASE WHEN change.released OR runs.owner IS NOT NULL THEN change.due_at ELSE runs.due_at END,
        owner = CASE WHEN change.released THEN NULL ELSE runs.owner END,
        next_seq = CASE WHEN change.released THEN change.next_seq ELSE runs.next_seq END,
        crashes = change.crashes, blocked = change.blocked, output = change.output, error = change.error
    FROM inserted
    JOIN unnest(:changed::bigint[], :statuses::text[], :due_ats::bigint[], :ended_ats::bigint[], :released::boolean[],
            :next_seqs::integer[], :crashes::integer[], :blocked::text[], :outputs::bytea[], :errors::bytea[])
        AS change (run, status, due_at, ended_at, released, next_seq, crashes, blocked, output, error)
        ON change.run = inserted.run
    WHERE runs.number = change.run AND runs.ended_at IS NULL
    RETURNING runs.number, runs.namespace_id, runs.id, runs.ended_at
),
ended AS (
    SELECT changed.number, changed.namespace_id, changed.id, changed.ended_at
    FROM changed WHERE changed.ended_at IS NOT NULL
),
dropped AS (
    DELETE FROM holdfast.inbox
    USING unnest(:taken_runs::bigint[], :taken_ids::bigint[]) AS taken (run, id)
    JOIN inserted ON inserted.run = taken.run
    WHERE inbox.id = taken.id AND inbox.run = taken.run AND inbox.kind <> 'cancel'
),
cancels AS (
    UPDATE holdfast.inbox SET taken = true, fresh = false
    FROM unnest(:taken_runs::bigint[], :taken_ids::bigint[]) AS taken (run, id)
    JOIN inserted ON inserted.run = taken.run
    WHERE inbox.id = taken.id AND inbox.run = taken.run AND inbox.kind = 'cancel'
        AND taken.run NOT IN (SELECT ended.number FROM ended)
),
freed AS (
    DELETE FROM holdfast.inbox USING ended WHERE inbox.run = ended.number
),
followers AS MATERIALIZED (
    SELECT runs.number, greatest(ended.ended_at, least(starts.due_at, runs.deadline_at)) AS due_at
    FROM ended
    JOIN holdfast.runs ON runs.namespace_id = ended.namespace_id AND runs.after_run_id = ended.id
        AND runs.started_at IS NULL AND runs.ended_at IS NULL
    JOIN holdfast.starts ON starts.number = runs.number
    FOR NO KEY UPDATE OF runs SKIP LOCKED
),
woken AS (
    UPDATE holdfast.runs SET after_run_id = NULL, due_at = followers.due_at
    FROM followers
    WHERE runs.number = followers.number
)
SELECT inserted.run FROM inserted;

-- name: write_rows
-- Row-only writes whose runs still have the owner and epoch that they were made with; the answer is their positions.
-- A row that somebody else has locked is left out, as in change_runs.
WITH held AS MATERIALIZED (
    SELECT runs.number, asked.position, asked.status, asked.due_at, asked.released, asked.next_seq, asked.crashes,
        asked.blocked
    FROM unnest(:ids::text[], :owners::text[], :epochs::integer[], :statuses::text[], :due_ats::bigint[],
            :released::boolean[], :next_seqs::integer[], :crashes::integer[], :blocked::text[])
        WITH ORDINALITY
        AS asked (id, owner, epoch, status, due_at, released, next_seq, crashes, blocked, position)
    JOIN holdfast.runs ON runs.namespace_id = :namespace_id AND runs.id = asked.id
    WHERE runs.owner = asked.owner AND runs.epoch = asked.epoch AND runs.ended_at IS NULL
    ORDER BY runs.number FOR NO KEY UPDATE OF runs SKIP LOCKED
)
UPDATE holdfast.runs
SET status = held.status, due_at = held.due_at,
    owner = CASE WHEN held.released THEN NULL ELSE runs.owner END,
    next_seq = CASE WHEN held.released THEN held.next_seq ELSE runs.next_seq END,
    crashes = held.crashes, blocked = held.blocked
FROM held
WHERE runs.number = held.number
RETURNING held.position;

-- name: find_held
-- Those of the writes left out that would be accepted if their rows were free.
SELECT asked.position
FROM unnest(:ids::text[], :owners::text[], :epochs::integer[]) WITH ORDINALITY AS asked (id, owner, epoch, position)
JOIN holdfast.runs ON runs.namespace_id = :namespace_id AND runs.id = asked.id
WHERE runs.owner = asked.owner AND runs.epoch = asked.epoch AND runs.ended_at IS NULL;

-- Turns: the hot path. A batch is one statement in an implicit transaction, and each turn of it is accepted by itself.

-- name: commit_turns
-- Many journal rows. Left out of the answer are rows whose place is taken, those of deleted runs, and those before a
-- checkpoint. (One race is left: another owner fills a place and removes it by a checkpoint between this statement's
-- snapshot and its insert.) Unlike SQLite's, where a taken place refuses all rows, and they are then tried one by one.
INSERT INTO holdfast.journal (run, seq, epoch, at, data)
SELECT asked.run, asked.seq, asked.epoch, asked.at, asked.data
FROM unnest(:runs::bigint[], :seqs::integer[], :epochs::integer[], :ats::bigint[], :datas::bytea[])
    AS asked (run, seq, epoch, at, data)
WHERE EXISTS (
    SELECT 1 FROM holdfast.runs
    WHERE runs.number = asked.run AND (runs.cut_seq > asked.seq) IS NOT TRUE OFFSET 0
)
ON CONFLICT (run, seq) DO NOTHING
RETURNING run;

-- name: commit_turn
-- The same for one row.
INSERT INTO holdfast.journal (run, seq, epoch, at, data)
SELECT :run::bigint, :seq::integer, :epoch::integer, :at::bigint, :data::bytea
WHERE EXISTS (
    SELECT 1 FROM holdfast.runs
    WHERE runs.number = :run AND (runs.cut_seq > :seq) IS NOT TRUE OFFSET 0
)
ON CONFLICT (run, seq) DO NOTHING
RETURNING run;

-- name: hurry
-- Wait only shortly for locks of others: all such turns of a process go over one connection. See hold_ups.py.
SELECT set_config('lock_timeout', :lock_timeout::text, true);

-- name: find_turns
-- The epochs of the rows at these places; null where a place is free. For a row that was removed by a checkpoint, the
-- checkpoint's epoch is the answer: if that is the turn's own, so was the row's, for the rows of an epoch follow one
-- another.
SELECT runs.number, coalesce(journal.epoch, CASE WHEN runs.cut_seq > asked.seq THEN runs.cut_epoch END)
FROM unnest(:runs::bigint[], :seqs::integer[]) AS asked (run, seq)
JOIN holdfast.runs ON runs.number = asked.run
LEFT JOIN holdfast.journal ON journal.run = asked.run AND journal.seq = asked.seq;

-- name: give_back_lost
-- Those of some runs whose claim, or the turn before the given one, the server has lost although it had confirmed it:
-- see learn_again. A run that is still its worker's is handed back as it is now, due at once. Also answers whether the
-- run is settled; if not, somebody has locked it.
WITH lost AS MATERIALIZED (
    SELECT known.number, asked.id, known.epoch = asked.epoch AND known.owner = ANY (:workers::text[]) AS is_held
    FROM unnest(:ids::text[], :seqs::integer[], :epochs::integer[]) AS asked (id, seq, epoch)
    CROSS JOIN LATERAL (
        SELECT runs.number, runs.epoch, runs.owner, runs.cut_seq
        FROM holdfast.runs WHERE runs.namespace_id = :namespace_id AND runs.id = asked.id OFFSET 0
    ) AS known
    WHERE known.epoch < asked.epoch OR known.owner <> ALL (:workers::text[])
        OR asked.seq > coalesce(known.cut_seq, 0) AND NOT EXISTS (
            SELECT 1 FROM holdfast.journal WHERE journal.run = known.number AND journal.seq = asked.seq - 1 OFFSET 0
        )
),
free AS MATERIALIZED (
    SELECT runs.number FROM holdfast.runs
    WHERE runs.number = ANY (ARRAY(SELECT lost.number FROM lost WHERE lost.is_held)) AND runs.ended_at IS NULL
    ORDER BY runs.number FOR NO KEY UPDATE SKIP LOCKED
),
given_back AS (
    UPDATE holdfast.runs
    SET owner = NULL, due_at = coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint),
        next_seq = (SELECT coalesce(max(journal.seq) + 1, 0) FROM holdfast.journal WHERE journal.run = runs.number)
    FROM free
    WHERE runs.number = free.number
)
SELECT lost.id, lost.is_held IS NOT TRUE OR lost.number IN (SELECT free.number FROM free) FROM lost;

-- name: find_numbers
-- The numbers of runs by their ids, and when they were created.
SELECT runs.id, runs.number, runs.created_at
FROM holdfast.runs
WHERE runs.namespace_id = :namespace_id AND runs.id = ANY (:ids::text[]);

-- name: change_runs
-- Insert journal rows, and do what the accepted turns do beside: change runs, take messages, and all that follows from
-- an end. Answers the accepted runs, and whether this leaves anything for workers to do. A turn whose run somebody else
-- has locked is left out: it is sent again, and nobody here waits for it. A locked run that waits for the end of one of
-- these is left to wake_missed. Sets are tested by `IN (...) IS TRUE` and `= ANY (ARRAY(...))`: as joins, the planner,
-- which can't know how many members they have, would compare each row with each of them. A run whose worker was reaped
-- stays due: its turn was accepted because nobody has taken the run over yet, and somebody must. A run that becomes
-- pending again was never begun. A continued run keeps its inbox and its open hooks, which continue_runs moves. For
-- parents and followers it has not ended. Messages that a failed or cancelled run has not read are kept for a retry;
-- move_strays makes sure that they wake nobody. Parents, followers and children are seen as they were when this
-- statement began. If a parent ends or continues as new meanwhile, it is sent a message that nobody reads, which does
-- no harm: its successor does not know the child. A child that continues as new meanwhile gets its cancel by
-- move_strays. A run that joins one of these meanwhile is told by tell_missed. Most runs have no children: one question
-- for all of them finds that out. If there are any, the children of each run are looked up by themselves, as in
-- tell_ends.
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
    WHERE (NOT asked.changing OR asked.run IN (SELECT locked.number FROM locked)) AND EXISTS (
        SELECT 1 FROM holdfast.runs
        WHERE runs.number = asked.run AND (runs.cut_seq > asked.seq) IS NOT TRUE OFFSET 0
    )
    ON CONFLICT (run, seq) DO NOTHING
    RETURNING run
),
changed AS (
    UPDATE holdfast.runs
    SET status = change.status, ended_at = change.ended_at,
        started_at = CASE WHEN change.status <> 'pending' THEN runs.started_at END,
        due_at = CASE WHEN change.released OR runs.owner IS NOT NULL THEN change.due_at ELSE runs.due_at END,
        owner = CASE WHEN change.released THEN NULL ELSE runs.owner END,
        next_seq = CASE WHEN change.released THEN change.next_seq ELSE runs.next_seq END,
        crashes = change.crashes, blocked = change.blocked, output = change.output, error = change.error,
        expires_at = CASE WHEN change.ended_at IS NOT NULL THEN change.ended_at + (
            SELECT least(starts.retention, :longest::bigint) FROM holdfast.starts WHERE starts.number = runs.number
        ) END
    FROM unnest(:changed::bigint[], :statuses::text[], :due_ats::bigint[], :ended_ats::bigint[], :released::boolean[],
            :next_seqs::integer[], :crashes::integer[], :blocked::text[], :outputs::bytea[], :errors::bytea[])
        AS change (run, status, due_at, ended_at, released, next_seq, crashes, blocked, output, error)
    WHERE runs.number = change.run AND runs.ended_at IS NULL
        AND (change.run IN (SELECT inserted.run FROM inserted)) IS TRUE
    RETURNING runs.number, runs.namespace_id, runs.id, runs.ended_at, runs.status, runs.output, runs.error
),
ended AS MATERIALIZED (
    SELECT changed.number, changed.namespace_id, changed.id, changed.ended_at, changed.status, changed.output,
        changed.error
    FROM changed WHERE changed.ended_at IS NOT NULL
),
finished AS MATERIALIZED (
    SELECT ended.number, ended.namespace_id, ended.id, ended.ended_at, ended.status, ended.output, ended.error
    FROM ended WHERE ended.status <> 'continued'
),
taking AS MATERIALIZED (
    SELECT taken.id
    FROM unnest(:taken_runs::bigint[], :taken_ids::bigint[]) AS taken (run, id)
    WHERE (taken.run IN (SELECT inserted.run FROM inserted)) IS TRUE
),
dropped AS (
    DELETE FROM holdfast.inbox
    WHERE inbox.id = ANY (ARRAY(SELECT taking.id FROM taking)) AND inbox.run = ANY (:taken_runs::bigint[])
        AND inbox.kind <> 'cancel'
),
cancels AS (
    UPDATE holdfast.inbox SET taken = true, fresh = false
    WHERE inbox.id = ANY (ARRAY(SELECT taking.id FROM taking)) AND inbox.run = ANY (:taken_runs::bigint[])
        AND inbox.kind = 'cancel' AND inbox.run NOT IN (SELECT finished.number FROM finished)
),
freed AS (
    DELETE FROM holdfast.inbox
    WHERE inbox.run = ANY (ARRAY(SELECT finished.number FROM finished)) AND (
        inbox.taken OR inbox.kind NOT IN ('signal', 'event', 'hook')
        OR inbox.run IN (SELECT finished.number FROM finished WHERE finished.status = 'completed')
    )
),
closed AS (
    DELETE FROM holdfast.waits
    WHERE waits.run = ANY (ARRAY(SELECT ended.number FROM ended))
        AND (waits.kind <> 'hook' OR waits.run = ANY (ARRAY(SELECT finished.number FROM finished)))
    RETURNING waits.run, waits.namespace_id, waits.token
),
hung_up AS (
    INSERT INTO holdfast.used_hooks (namespace_id, token, run, became)
    SELECT closed.namespace_id, closed.token, closed.run, 'ended' FROM closed WHERE closed.token IS NOT NULL
    ON CONFLICT (namespace_id, token) DO UPDATE SET run = excluded.run, became = excluded.became
),
left_by AS (
    DELETE FROM holdfast.followers WHERE followers.run = ANY (ARRAY(SELECT finished.number FROM finished))
    RETURNING followers.run, followers.follower, followers.parent_key
),
unfollowed AS (
    DELETE FROM holdfast.followers
    WHERE followers.follower = ANY (ARRAY(SELECT ended.number FROM ended))
        AND followers.run <> ALL (ARRAY(SELECT finished.number FROM finished))
),
kin AS MATERIALIZED (
    SELECT finished.number, finished.namespace_id, starts.parent_id, starts.parent_key, finished.id, finished.status,
        finished.output, finished.error, finished.ended_at, starts.first
    FROM finished
    CROSS JOIN LATERAL (
        SELECT starts.parent_id, starts.parent_key, coalesce((
                SELECT first.number FROM holdfast.runs AS first
                WHERE first.namespace_id = finished.namespace_id AND first.id = starts.chain_id OFFSET 0
            ), finished.number) AS first
        FROM holdfast.starts WHERE starts.number = finished.number OFFSET 0
    ) AS starts
    WHERE starts.parent_key IS NOT NULL
),
told AS (
    INSERT INTO holdfast.inbox (run, lane_id, priority, kind, name, payload, sent_at)
    SELECT parents.number, parents.lane_id, parents.priority, 'child', hearers.parent_key,
        holdfast.child_end(hearers.id, hearers.status, hearers.output, hearers.error), hearers.ended_at
    FROM (
        SELECT kin.number AS run, parent.number, kin.parent_key, kin.id, kin.status, kin.output, kin.error, kin.ended_at
        FROM kin
        JOIN holdfast.runs AS parent ON parent.namespace_id = kin.namespace_id AND parent.id = kin.parent_id
            AND parent.number < kin.first
        UNION ALL
        SELECT left_by.run, left_by.follower, left_by.parent_key, finished.id, finished.status, finished.output,
            finished.error, finished.ended_at
        FROM left_by
        JOIN finished ON finished.number = left_by.run
    ) AS hearers
    JOIN holdfast.runs AS parents ON parents.number = hearers.number
    WHERE parents.ended_at IS NULL AND parents.number NOT IN (SELECT ended.number FROM ended)
    ORDER BY hearers.run
    RETURNING inbox.run
),
orphaned AS (
    INSERT INTO holdfast.inbox (run, lane_id, priority, kind, payload, sent_at)
    SELECT children.number, children.lane_id, children.priority, 'cancel',
        convert_to('its parent ' || ended.id || ' has ended', 'UTF8'), ended.ended_at
    FROM ended
    CROSS JOIN LATERAL (
        SELECT starts.number FROM holdfast.starts
        WHERE starts.parent_id = ended.id AND starts.on_parent_end = 'cancel' AND ended.number < coalesce((
            SELECT first.number FROM holdfast.runs AS first
            WHERE first.namespace_id = ended.namespace_id AND first.id = starts.chain_id OFFSET 0
        ), starts.number)
        OFFSET 0
    ) AS born
    CROSS JOIN LATERAL (
        SELECT runs.number, runs.lane_id, runs.priority, runs.namespace_id
        FROM holdfast.runs WHERE runs.number = born.number AND runs.ended_at IS NULL
        OFFSET 0
    ) AS children
    WHERE EXISTS (SELECT 1 FROM holdfast.starts WHERE starts.parent_id = ANY (ARRAY(SELECT parent.id FROM ended AS parent)))
        AND children.namespace_id = ended.namespace_id
        AND children.number NOT IN (SELECT gone.number FROM ended AS gone)
    ON CONFLICT DO NOTHING
    RETURNING inbox.run
),
heirs AS MATERIALIZED (
    SELECT runs.number, greatest(finished.ended_at, least(starts.due_at, runs.deadline_at)) AS due_at
    FROM finished
    JOIN holdfast.runs ON runs.namespace_id = finished.namespace_id AND runs.after_run_id = finished.id
        AND runs.started_at IS NULL AND runs.ended_at IS NULL
    JOIN holdfast.starts ON starts.number = runs.number
    FOR NO KEY UPDATE OF runs SKIP LOCKED
),
woken AS (
    UPDATE holdfast.runs SET after_run_id = NULL, due_at = heirs.due_at
    FROM heirs
    WHERE runs.number = heirs.number
)
SELECT inserted.run,
    EXISTS (SELECT 1 FROM told) OR EXISTS (SELECT 1 FROM orphaned) OR EXISTS (SELECT 1 FROM heirs)
FROM inserted;

-- name: write_rows
-- Make those row-only writes whose runs still have the owner and epoch that the write expects. Answers their positions.
-- Writes to runs that somebody else has locked are left out, as in change_runs.
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
    started_at = CASE WHEN held.status <> 'pending' THEN runs.started_at END,
    owner = CASE WHEN held.released THEN NULL ELSE runs.owner END,
    next_seq = CASE WHEN held.released THEN held.next_seq ELSE runs.next_seq END,
    crashes = held.crashes, blocked = held.blocked
FROM held
WHERE runs.number = held.number
RETURNING held.position;

-- name: find_held
-- Of the writes that were left out, those that would be accepted if their runs were not locked.
SELECT asked.position
FROM unnest(:ids::text[], :owners::text[], :epochs::integer[]) WITH ORDINALITY AS asked (id, owner, epoch, position)
JOIN holdfast.runs ON runs.namespace_id = :namespace_id AND runs.id = asked.id
WHERE runs.owner = asked.owner AND runs.epoch = asked.epoch AND runs.ended_at IS NULL;

-- name: truncate_journal
-- Remove what came before a checkpoint, and note where the journal begins now. A run that somebody else has locked
-- keeps all of its rows until the next checkpoint: nobody here waits for it.
WITH cut AS MATERIALIZED (
    SELECT runs.number, asked.seq, asked.epoch
    FROM unnest(:runs::bigint[], :seqs::integer[], :epochs::integer[]) AS asked (run, seq, epoch)
    JOIN holdfast.runs ON runs.number = asked.run
    ORDER BY runs.number FOR NO KEY UPDATE OF runs SKIP LOCKED
),
marked AS (
    UPDATE holdfast.runs SET cut_seq = cut.seq, cut_epoch = cut.epoch FROM cut WHERE runs.number = cut.number
)
DELETE FROM holdfast.journal
USING cut
WHERE journal.run = cut.number AND journal.seq < cut.seq;

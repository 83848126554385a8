-- Claims: which runs a worker takes, what comes with them, and when the next one is due. Many rows are fetched as one,
-- packed into JSON with bytes as hex: each fetched row waits for the interpreter lock, and beside a busy event loop a
-- claim of a hundred runs took 300 ms row by row. Large values are read one by one, for packing them takes even longer,
-- and nobody else can write meanwhile. Rows are packed by group_concat, which fails where a string gets too long:
-- json_group_array goes on until memory is exhausted, and that rolls the whole transaction back.

-- name: claim_runs
-- Due runs and runs with fresh messages. Each lane and priority is one index probe of bounded length: no backlog is
-- ever sorted. Of messages, only the oldest are looked at that may wake a run. A run that has not begun is due after its
-- delay, or after another run's end: no message makes it begin earlier, but a cancel ends it. A paused run comes when
-- its deadline has passed. Suspects, with which two workers or more have died, have an index of their own: at most
-- :suspects of them come, and none beside a run with which one worker has died.
WITH wanted (lane_id) AS MATERIALIZED (
    SELECT lanes.id
    FROM json_each(:lanes) AS asked
    CROSS JOIN lanes ON lanes.namespace_id = :namespace_id
        AND lanes.workflow = json_extract(asked.value, '$[0]')
        AND lanes.version = json_extract(asked.value, '$[1]')
        AND lanes.queue = json_extract(asked.value, '$[2]')
),
levels (priority) AS (VALUES (9), (8), (7), (6), (5), (4), (3), (2), (1), (0)),
candidates (number, due_at) AS (
    SELECT runs.number, runs.due_at
    FROM wanted
    CROSS JOIN levels
    CROSS JOIN runs
    WHERE runs.number IN (
        SELECT due.number FROM runs AS due
        WHERE due.lane_id = wanted.lane_id AND due.priority = levels.priority AND due.due_at <= :now
            AND due.owner IS NULL AND due.due_at IS NOT NULL AND due.paused = 0 AND due.crashes + (due.next_seq IS NULL) < 2
        ORDER BY due.due_at LIMIT :limit
    )
    UNION ALL
    SELECT runs.number, runs.due_at
    FROM wanted
    CROSS JOIN runs
    WHERE runs.number IN (
        SELECT suspect.number FROM runs AS suspect
        WHERE suspect.lane_id = wanted.lane_id AND suspect.due_at <= :now AND suspect.owner IS NULL AND suspect.due_at IS NOT NULL
            AND suspect.paused = 0 AND suspect.crashes + (suspect.next_seq IS NULL) >= 2
        ORDER BY suspect.priority DESC, suspect.due_at LIMIT coalesce(:suspects, :limit)
    )
    UNION ALL
    SELECT sent.run, sent.sent_at
    FROM wanted
    CROSS JOIN levels
    CROSS JOIN inbox AS sent
    WHERE sent.id IN (
        SELECT inbox.id
        FROM inbox INDEXED BY inbox_fresh
        CROSS JOIN runs AS receiver ON receiver.number = inbox.run
        WHERE inbox.lane_id = wanted.lane_id AND inbox.priority = levels.priority AND inbox.fresh = 1
            AND receiver.owner IS NULL AND receiver.ended_at IS NULL AND inbox.kind <> 'pause'
            AND (receiver.paused = 0 AND receiver.started_at IS NOT NULL OR inbox.kind = 'cancel')
            AND (receiver.crashes + (receiver.next_seq IS NULL) < 2 OR coalesce(:suspects, 1))
        ORDER BY inbox.sent_at LIMIT :most
    )
    UNION ALL
    SELECT runs.number, runs.deadline_at
    FROM wanted
    CROSS JOIN runs
    WHERE runs.number IN (
        SELECT late.number FROM runs AS late
        WHERE late.lane_id = wanted.lane_id AND late.deadline_at <= :now
            AND late.owner IS NULL AND late.ended_at IS NULL AND late.deadline_at IS NOT NULL AND late.paused = 1
        ORDER BY late.deadline_at LIMIT :limit
    )
),
ordered (number, due_at, priority, crashes) AS (
    SELECT candidates.number, min(candidates.due_at), runs.priority, runs.crashes + (runs.next_seq IS NULL)
    FROM candidates
    CROSS JOIN runs ON runs.number = candidates.number
    GROUP BY candidates.number
),
ranked (number, due_at, priority, crashes, place) AS (
    SELECT number, due_at, priority, crashes,
        row_number() OVER (PARTITION BY crashes >= 2 ORDER BY priority DESC, due_at, number)
    FROM ordered
),
chosen (number, due_at, crashes) AS MATERIALIZED (
    SELECT number, due_at, crashes
    FROM ranked
    WHERE crashes < 2 OR place <= coalesce(:suspects, :limit)
    ORDER BY priority DESC, due_at, number
    LIMIT :limit
)
SELECT '[' || group_concat(json_array(
    runs.number, runs.id, lanes.workflow, lanes.version, runs.epoch, runs.next_seq,
    CASE WHEN runs.next_seq IS NULL THEN (SELECT max(journal.seq) FROM journal WHERE journal.run = runs.number) END,
    CASE WHEN length(starts.input) <= :packed THEN hex(starts.input) END, hex(starts.seed), starts.key, starts.tags,
    runs.priority, runs.created_at, runs.started_at, runs.deadline_at, coalesce(starts.chain_id, runs.id), starts.parent_id, lanes.queue,
    runs.paused, runs.crashes, runs.blocked,
    EXISTS (SELECT 1 FROM inbox WHERE inbox.run = runs.number), chosen.due_at, starts.trace,
    coalesce(starts.origin_id, starts.chain_id, runs.id), runs.after_run_id IS NOT NULL
)) || ']'
FROM chosen
CROSS JOIN runs ON runs.number = chosen.number
    AND (NOT :unbegun OR runs.started_at IS NULL AND runs.due_at <= :now AND runs.paused = 0)
    AND (chosen.crashes < 2 OR :suspects IS NULL OR NOT EXISTS (SELECT 1 FROM chosen AS other WHERE other.crashes = 1))
CROSS JOIN lanes ON lanes.id = runs.lane_id
CROSS JOIN starts ON starts.number = runs.number;

-- name: claim_run
-- The one run named, if it can be claimed; of any lane if none are given. The same columns as claim_runs.
SELECT '[' || group_concat(json_array(
    runs.number, runs.id, lanes.workflow, lanes.version, runs.epoch, runs.next_seq,
    CASE WHEN runs.next_seq IS NULL THEN (SELECT max(journal.seq) FROM journal WHERE journal.run = runs.number) END,
    CASE WHEN length(starts.input) <= :packed THEN hex(starts.input) END, hex(starts.seed), starts.key, starts.tags,
    runs.priority, runs.created_at, runs.started_at, runs.deadline_at, coalesce(starts.chain_id, runs.id), starts.parent_id, lanes.queue,
    runs.paused, runs.crashes, runs.blocked,
    EXISTS (SELECT 1 FROM inbox WHERE inbox.run = runs.number), coalesce(runs.due_at, :now), starts.trace,
    coalesce(starts.origin_id, starts.chain_id, runs.id), runs.after_run_id IS NOT NULL
)) || ']'
FROM runs
CROSS JOIN lanes ON lanes.id = runs.lane_id
CROSS JOIN starts ON starts.number = runs.number
WHERE runs.namespace_id = :namespace_id AND runs.id = :run_id AND runs.owner IS NULL AND runs.ended_at IS NULL
    AND (
        runs.due_at <= :now AND runs.paused = 0
        OR runs.deadline_at <= :now AND runs.paused = 1
        OR EXISTS (
            SELECT 1 FROM inbox
            WHERE inbox.run = runs.number AND inbox.fresh = 1 AND inbox.kind <> 'pause'
                AND (runs.paused = 0 AND runs.started_at IS NOT NULL OR inbox.kind = 'cancel')
        )
    )
    AND (
        json_array_length(:lanes) = 0
        OR json_array(lanes.workflow, lanes.version, lanes.queue) IN (SELECT value FROM json_each(:lanes))
    );

-- name: take_runs
-- Make the chosen runs ours. A run that was not handed back counts a crash. A cancel or a deadline ends a pause.
UPDATE runs
SET owner = :owner, epoch = epoch + 1, status = 'running', started_at = coalesce(started_at, :now),
    crashes = crashes + (next_seq IS NULL), next_seq = NULL,
    paused = paused AND coalesce(deadline_at > :now, 1)
        AND NOT EXISTS (SELECT 1 FROM inbox WHERE inbox.run = runs.number AND inbox.kind = 'cancel')
WHERE number IN (SELECT value FROM json_each(:runs));

-- name: read_large_inputs
-- Inputs that were too large to be packed.
SELECT starts.number, starts.input
FROM json_each(:runs) AS taken
CROSS JOIN starts ON starts.number = taken.value;

-- name: read_journals
-- The journals of the runs just taken, read after they were.
SELECT '[' || group_concat(json_array(
    journal.run, journal.seq, journal.epoch, journal.at,
    CASE WHEN length(journal.data) <= :packed THEN hex(journal.data) END
)) || ']'
FROM json_each(:runs) AS taken
CROSS JOIN journal ON journal.run = taken.value;

-- name: read_large_rows
-- The rows of one journal that have more than so many bytes and so were not packed.
SELECT run, seq, epoch, at, data FROM journal WHERE run = :run AND length(data) > :packed;

-- name: read_inboxes
-- Their messages, fresh or not. A "pause" was meant for the owner before: that a run is paused, its row says.
SELECT inbox.run, inbox.id, inbox.kind, inbox.name, inbox.payload, inbox.sent_at, inbox.wait, inbox.trace
FROM json_each(:runs) AS taken
CROSS JOIN inbox ON inbox.run = taken.value
WHERE inbox.taken = 0 AND inbox.kind <> 'pause'
ORDER BY inbox.id;

-- name: see_messages
-- Messages that are handed over with a claim wake their run no more.
UPDATE inbox SET fresh = 0 WHERE fresh = 1 AND run IN (SELECT value FROM json_each(:runs));

-- name: read_inbox
-- Fresh messages for runs that a worker holds. Few messages are fresh, so these are walked, and not the runs.
SELECT inbox.id, runs.id, inbox.kind, inbox.name, inbox.payload, inbox.sent_at, inbox.wait, inbox.trace
FROM inbox INDEXED BY inbox_fresh
CROSS JOIN runs ON runs.number = inbox.run
WHERE inbox.fresh = 1 AND runs.namespace_id = :namespace_id AND runs.owner = :owner
    AND inbox.id NOT IN (SELECT value FROM json_each(:known))
ORDER BY inbox.id;

-- name: next_due
-- The earliest due time of unowned runs in these lanes, of suspects only if they are asked for, and of fresh messages.
WITH wanted (lane_id) AS MATERIALIZED (
    SELECT lanes.id
    FROM json_each(:lanes) AS asked
    CROSS JOIN lanes ON lanes.namespace_id = :namespace_id
        AND lanes.workflow = json_extract(asked.value, '$[0]')
        AND lanes.version = json_extract(asked.value, '$[1]')
        AND lanes.queue = json_extract(asked.value, '$[2]')
),
levels (priority) AS (VALUES (9), (8), (7), (6), (5), (4), (3), (2), (1), (0))
SELECT min(due_at)
FROM (
    SELECT (
        SELECT due.due_at FROM runs AS due
        WHERE due.lane_id = wanted.lane_id AND due.priority = levels.priority
            AND due.owner IS NULL AND due.due_at IS NOT NULL AND due.paused = 0 AND due.crashes + (due.next_seq IS NULL) < 2
        ORDER BY due.due_at LIMIT 1
    ) AS due_at
    FROM wanted
    CROSS JOIN levels
    UNION ALL
    SELECT (
        SELECT min(suspect.due_at) FROM runs AS suspect INDEXED BY runs_suspect
        WHERE suspect.lane_id = wanted.lane_id AND suspect.owner IS NULL AND suspect.due_at IS NOT NULL AND suspect.paused = 0
            AND suspect.crashes + (suspect.next_seq IS NULL) >= 2
    )
    FROM wanted
    WHERE :suspects
    UNION ALL
    SELECT (
        SELECT late.deadline_at FROM runs AS late
        WHERE late.lane_id = wanted.lane_id
            AND late.owner IS NULL AND late.ended_at IS NULL AND late.deadline_at IS NOT NULL AND late.paused = 1
            AND (:suspects OR late.crashes + (late.next_seq IS NULL) < 2)
        ORDER BY late.deadline_at LIMIT 1
    )
    FROM wanted
    UNION ALL
    SELECT min((
        SELECT inbox.sent_at
        FROM inbox INDEXED BY inbox_fresh
        CROSS JOIN runs ON runs.number = inbox.run
        WHERE inbox.lane_id = wanted.lane_id AND inbox.priority = levels.priority AND inbox.fresh = 1
            AND runs.owner IS NULL AND runs.ended_at IS NULL AND inbox.kind <> 'pause'
            AND (runs.paused = 0 AND runs.started_at IS NOT NULL OR inbox.kind = 'cancel')
            AND (:suspects OR runs.crashes + (runs.next_seq IS NULL) < 2)
        ORDER BY inbox.sent_at LIMIT 1
    ), :now)
    FROM wanted
    CROSS JOIN levels
);

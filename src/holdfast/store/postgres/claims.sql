-- Claims: which runs a worker takes, what comes with them, and when the next one is due.
-- OFFSET 0 keeps the planner from turning one probe for each lane, or each run, into a walk along all of them.
-- A claim holds its worker's row until it is committed. So whoever raises the worker's generation, or removes the
-- worker, waits for the claim and finds what was claimed. Renewals don't wait for it. A floor spares claims the walk
-- over dead index entries that can't be removed while somebody holds an old snapshot open.

-- name: claim_runs
-- Make due runs and runs with fresh messages ours. Each lane and priority is one index probe of bounded length: no
-- backlog is ever sorted. Of messages, only the oldest are looked at that may wake a run. Runs that others have locked
-- are left to them, so more runs than the limit are looked at, one by one in the chosen order. A run that was not handed
-- back counts a crash, and a cancel or a deadline ends a pause. Journals are read by a later statement, since this
-- one's snapshot may be older than its locks. Suspects, with which two workers or more have died, have an index of
-- their own, and no floor: at most :suspects of them come, and none beside a run with which one worker has died.
WITH clock AS MATERIALIZED (
    SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
),
me AS MATERIALIZED (
    SELECT workers.id FROM holdfast.workers
    WHERE workers.namespace_id = :namespace_id AND workers.id = :owner AND workers.generation = :generation::integer
    FOR KEY SHARE
),
candidates AS (
    SELECT due.number, due.due_at, level.priority, due.crashes
    FROM clock
    CROSS JOIN unnest(:lanes::integer[]) AS wanted (lane_id)
    CROSS JOIN generate_series(9, 0, -1) AS level (priority)
    CROSS JOIN LATERAL (
        SELECT runs.number, runs.due_at, runs.crashes + (runs.next_seq IS NULL)::integer AS crashes FROM holdfast.runs
        WHERE runs.lane_id = wanted.lane_id AND runs.priority = level.priority
            AND runs.due_at >= :floor::bigint AND runs.due_at <= clock.now
            AND runs.owner IS NULL AND runs.due_at IS NOT NULL AND NOT runs.paused
            AND runs.crashes + (runs.next_seq IS NULL)::integer < 2
        ORDER BY runs.due_at LIMIT :reach::integer
    ) AS due
    UNION ALL
    SELECT told.number, told.sent_at, level.priority, told.crashes
    FROM unnest(:lanes::integer[]) AS wanted (lane_id)
    CROSS JOIN generate_series(9, 0, -1) AS level (priority)
    CROSS JOIN LATERAL (
        SELECT receiver.number, inbox.sent_at, receiver.crashes
        FROM holdfast.inbox
        CROSS JOIN LATERAL (
            SELECT runs.number, runs.paused, runs.started_at, runs.crashes + (runs.next_seq IS NULL)::integer AS crashes
            FROM holdfast.runs
            WHERE runs.number = inbox.run AND runs.owner IS NULL AND runs.ended_at IS NULL
            OFFSET 0
        ) AS receiver
        WHERE inbox.lane_id = wanted.lane_id AND inbox.priority = level.priority AND inbox.fresh
            AND inbox.sent_at >= :floor::bigint AND inbox.kind <> 'pause'
            AND (NOT receiver.paused AND receiver.started_at IS NOT NULL OR inbox.kind = 'cancel')
            AND (receiver.crashes < 2 OR coalesce(:suspects::integer, 1) > 0)
        ORDER BY inbox.sent_at LIMIT :most::integer
    ) AS told
    UNION ALL
    SELECT late.number, late.deadline_at, late.priority, late.crashes
    FROM clock
    CROSS JOIN unnest(:lanes::integer[]) AS wanted (lane_id)
    CROSS JOIN LATERAL (
        SELECT runs.number, runs.deadline_at, runs.priority, runs.crashes + (runs.next_seq IS NULL)::integer AS crashes
        FROM holdfast.runs
        WHERE runs.lane_id = wanted.lane_id AND runs.deadline_at <= clock.now
            AND runs.owner IS NULL AND runs.ended_at IS NULL AND runs.deadline_at IS NOT NULL AND runs.paused
        ORDER BY runs.deadline_at LIMIT :reach::integer
    ) AS late
),
suspects AS (
    SELECT due.number, due.due_at, due.priority, due.crashes
    FROM clock
    CROSS JOIN unnest(:lanes::integer[]) AS wanted (lane_id)
    CROSS JOIN LATERAL (
        SELECT runs.number, runs.due_at, runs.priority, runs.crashes + (runs.next_seq IS NULL)::integer AS crashes
        FROM holdfast.runs
        WHERE runs.lane_id = wanted.lane_id AND runs.due_at <= clock.now
            AND runs.owner IS NULL AND runs.due_at IS NOT NULL AND NOT runs.paused
            AND runs.crashes + (runs.next_seq IS NULL)::integer >= 2
        ORDER BY runs.priority DESC, runs.due_at LIMIT coalesce(:suspects::integer, :reach::integer)
    ) AS due
),
ordered AS (
    SELECT number, priority, crashes, min(due_at) AS due_at
    FROM (
        SELECT number, due_at, priority, crashes FROM candidates
        UNION ALL
        SELECT number, due_at, priority, crashes FROM suspects
    ) AS found
    GROUP BY number, priority, crashes
),
ranked AS (
    SELECT number, priority, crashes, due_at,
        row_number() OVER (PARTITION BY crashes >= 2 ORDER BY priority DESC, due_at, number) AS place
    FROM ordered
),
chosen AS MATERIALIZED (
    SELECT number, priority, crashes, due_at
    FROM ranked
    WHERE crashes < 2 OR place <= coalesce(:suspects::integer, :reach::integer)
    ORDER BY priority DESC, due_at, number
    LIMIT :reach::integer
),
locked AS MATERIALIZED (
    SELECT free.number, chosen.due_at, free.next_seq, free.started_at, free.paused, clock.now
    FROM clock
    CROSS JOIN chosen
    CROSS JOIN LATERAL (
        SELECT runs.number, runs.next_seq, runs.started_at, runs.paused
        FROM holdfast.runs WHERE runs.number = chosen.number AND runs.owner IS NULL AND runs.ended_at IS NULL
            AND (NOT :unbegun::boolean OR runs.started_at IS NULL AND runs.due_at <= clock.now AND NOT runs.paused)
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS free
    WHERE (:generation::integer IS NULL OR EXISTS (SELECT 1 FROM me)) AND (
        chosen.crashes < 2 OR :suspects::integer IS NULL
        OR NOT EXISTS (SELECT 1 FROM chosen AS other WHERE other.crashes = 1)
    )
    LIMIT :limit::integer
)
UPDATE holdfast.runs
SET owner = :owner, epoch = runs.epoch + 1, status = 'running', started_at = coalesce(runs.started_at, locked.now),
    crashes = runs.crashes + CASE WHEN runs.next_seq IS NULL THEN 1 ELSE 0 END, next_seq = NULL,
    paused = runs.paused AND coalesce(runs.deadline_at > locked.now, true) AND NOT EXISTS (
        SELECT 1 FROM holdfast.inbox WHERE inbox.run = runs.number AND inbox.kind = 'cancel' OFFSET 0
    )
FROM locked, holdfast.lanes, holdfast.starts
WHERE runs.number = locked.number AND lanes.id = runs.lane_id AND starts.number = runs.number
RETURNING runs.number, runs.id, lanes.workflow, lanes.version, runs.epoch, locked.next_seq, starts.input, starts.seed,
    starts.key, starts.tags, runs.priority, runs.created_at, runs.started_at, runs.deadline_at,
    coalesce(starts.chain_id, runs.id), starts.parent_id, lanes.queue,
    locked.paused, runs.crashes, runs.blocked,
    EXISTS (SELECT 1 FROM holdfast.inbox WHERE inbox.run = runs.number), locked.due_at, locked.now,
    starts.trace, coalesce(starts.origin_id, starts.chain_id, runs.id), runs.after_run_id IS NOT NULL,
    locked.started_at IS NULL,
    (SELECT min(candidates.due_at) FROM candidates);

-- name: claim_run
-- The one run named, if it can be claimed; of any lane if none are given. The same columns as claim_runs.
WITH clock AS MATERIALIZED (
    SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
),
me AS MATERIALIZED (
    SELECT workers.id FROM holdfast.workers
    WHERE workers.namespace_id = :namespace_id AND workers.id = :owner AND workers.generation = :generation::integer
    FOR KEY SHARE
),
locked AS MATERIALIZED (
    SELECT runs.number, runs.due_at, runs.next_seq, runs.started_at, runs.paused, clock.now
    FROM clock
    CROSS JOIN holdfast.runs
    WHERE runs.namespace_id = :namespace_id AND runs.id = :run_id AND runs.owner IS NULL AND runs.ended_at IS NULL
        AND (
            runs.due_at <= clock.now AND NOT runs.paused
            OR runs.deadline_at <= clock.now AND runs.paused
            OR EXISTS (
                SELECT 1 FROM holdfast.inbox
                WHERE inbox.run = runs.number AND inbox.fresh AND inbox.kind <> 'pause'
                    AND (NOT runs.paused AND runs.started_at IS NOT NULL OR inbox.kind = 'cancel')
            )
        )
        AND (:of_any_lane::boolean OR runs.lane_id = ANY (:lanes::integer[]))
        AND (:generation::integer IS NULL OR EXISTS (SELECT 1 FROM me))
    FOR NO KEY UPDATE OF runs SKIP LOCKED
)
UPDATE holdfast.runs
SET owner = :owner, epoch = runs.epoch + 1, status = 'running', started_at = coalesce(runs.started_at, locked.now),
    crashes = runs.crashes + CASE WHEN runs.next_seq IS NULL THEN 1 ELSE 0 END, next_seq = NULL,
    paused = runs.paused AND coalesce(runs.deadline_at > locked.now, true) AND NOT EXISTS (
        SELECT 1 FROM holdfast.inbox WHERE inbox.run = runs.number AND inbox.kind = 'cancel' OFFSET 0
    )
FROM locked, holdfast.lanes, holdfast.starts
WHERE runs.number = locked.number AND lanes.id = runs.lane_id AND starts.number = runs.number
RETURNING runs.number, runs.id, lanes.workflow, lanes.version, runs.epoch, locked.next_seq, starts.input, starts.seed,
    starts.key, starts.tags, runs.priority, runs.created_at, runs.started_at, runs.deadline_at,
    coalesce(starts.chain_id, runs.id), starts.parent_id, lanes.queue,
    locked.paused, runs.crashes, runs.blocked,
    EXISTS (SELECT 1 FROM holdfast.inbox WHERE inbox.run = runs.number), coalesce(locked.due_at, locked.now),
    locked.now, starts.trace, coalesce(starts.origin_id, starts.chain_id, runs.id),
    runs.after_run_id IS NOT NULL, locked.started_at IS NULL, locked.due_at;

-- name: read_journals
-- The journals of the runs just taken, read after they were.
SELECT journal.run, journal.seq, journal.epoch, journal.at, journal.data
FROM holdfast.journal
WHERE journal.run = ANY (:runs::bigint[])
ORDER BY journal.run, journal.seq;

-- name: last_seqs
-- The last seq of each journal that has one.
SELECT asked.run, (SELECT max(journal.seq) FROM holdfast.journal WHERE journal.run = asked.run)
FROM unnest(:runs::bigint[]) AS asked (run);

-- name: read_inboxes
-- Their messages, fresh or not. Messages that are handed over with a claim wake their run no more. A "pause" is left
-- out: that a run is paused, the claim itself says.
WITH seen AS (
    UPDATE holdfast.inbox SET fresh = false WHERE inbox.run = ANY (:runs::bigint[]) AND inbox.fresh
)
SELECT inbox.run, inbox.id, inbox.kind, inbox.name, inbox.payload, inbox.sent_at, inbox.wait, inbox.trace
FROM holdfast.inbox
WHERE inbox.run = ANY (:runs::bigint[]) AND NOT inbox.taken AND inbox.kind <> 'pause'
ORDER BY inbox.id;

-- name: read_inbox
-- Fresh messages for runs that a worker holds. Few messages are fresh, so these are walked, and not the runs. All lanes
-- are asked if it is not known which ones are the worker's. The ids in :known, maybe thousands, are a set to look into:
-- as a join, each row would be compared with each of them. Unlike SQLite's, it begins at a floor, says which messages
-- are strays, and answers the time even if there are none.
SELECT found.id, found.run_id, found.kind, found.name, found.payload, found.sent_at, found.wait, found.trace,
    found.is_stray, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FROM (SELECT 1) AS always
LEFT JOIN (
    SELECT sent.id, receiver.id AS run_id, sent.kind, sent.name, sent.payload, sent.sent_at, sent.wait, sent.trace,
        receiver.ended_at IS NOT NULL AS is_stray
    FROM holdfast.lanes
    CROSS JOIN LATERAL (
        SELECT inbox.id, inbox.run, inbox.kind, inbox.name, inbox.payload, inbox.sent_at, inbox.wait, inbox.trace
        FROM holdfast.inbox
        WHERE inbox.lane_id = lanes.id AND inbox.priority = ANY ('{9,8,7,6,5,4,3,2,1,0}') AND inbox.fresh
            AND inbox.sent_at >= :floor::bigint
        OFFSET 0
    ) AS sent
    CROSS JOIN LATERAL (
        SELECT runs.id, runs.owner, runs.ended_at FROM holdfast.runs WHERE runs.number = sent.run OFFSET 0
    ) AS receiver
    WHERE lanes.namespace_id = :namespace_id AND (:lanes::integer[] IS NULL OR lanes.id = ANY (:lanes::integer[]))
        AND (receiver.owner = :owner OR receiver.ended_at IS NOT NULL AND sent.kind <> 'child')
        AND (sent.id IN (SELECT known.id FROM unnest(:known::bigint[]) AS known (id))) IS NOT TRUE
) AS found ON true
ORDER BY found.id;

-- name: next_due
-- The earliest due time of unowned runs in these lanes, with suspects only if they are asked for, and of fresh
-- messages; the earliest entry that the floor must not hide, which messages to suspects always count for; and the time.
WITH clock AS MATERIALIZED (
    SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
),
found AS (
    SELECT (
        SELECT runs.due_at FROM holdfast.runs
        WHERE runs.lane_id = wanted.lane_id AND runs.priority = level.priority AND runs.due_at >= :floor::bigint
            AND runs.owner IS NULL AND runs.due_at IS NOT NULL AND NOT runs.paused
            AND runs.crashes + (runs.next_seq IS NULL)::integer < 2
        ORDER BY runs.due_at LIMIT 1
    ) AS due_at, true AS may_come
    FROM unnest(:lanes::integer[]) AS wanted (lane_id)
    CROSS JOIN generate_series(9, 0, -1) AS level (priority)
    UNION ALL
    SELECT (
        SELECT min(runs.due_at) FROM holdfast.runs
        WHERE runs.lane_id = wanted.lane_id AND runs.owner IS NULL AND runs.due_at IS NOT NULL AND NOT runs.paused
            AND runs.crashes + (runs.next_seq IS NULL)::integer >= 2
    ), true
    FROM unnest(:lanes::integer[]) AS wanted (lane_id)
    WHERE :suspects::integer > 0
    UNION ALL
    SELECT (
        SELECT runs.deadline_at FROM holdfast.runs
        WHERE runs.lane_id = wanted.lane_id
            AND runs.owner IS NULL AND runs.ended_at IS NULL AND runs.deadline_at IS NOT NULL AND runs.paused
            AND (:suspects::integer > 0 OR runs.crashes + (runs.next_seq IS NULL)::integer < 2)
        ORDER BY runs.deadline_at LIMIT 1
    ), true
    FROM unnest(:lanes::integer[]) AS wanted (lane_id)
    UNION ALL
    SELECT least(told.sent_at, clock.now), may.come
    FROM clock
    CROSS JOIN (VALUES (true), (false)) AS may (come)
    CROSS JOIN unnest(:lanes::integer[]) AS wanted (lane_id)
    CROSS JOIN generate_series(9, 0, -1) AS level (priority)
    CROSS JOIN LATERAL (
        SELECT inbox.sent_at
        FROM holdfast.inbox
        CROSS JOIN LATERAL (
            SELECT runs.paused, runs.started_at, runs.crashes + (runs.next_seq IS NULL)::integer AS crashes
            FROM holdfast.runs
            WHERE runs.number = inbox.run AND runs.owner IS NULL AND runs.ended_at IS NULL
            OFFSET 0
        ) AS receiver
        WHERE inbox.lane_id = wanted.lane_id AND inbox.priority = level.priority AND inbox.fresh
            AND inbox.sent_at >= :floor::bigint AND inbox.kind <> 'pause'
            AND (NOT receiver.paused AND receiver.started_at IS NOT NULL OR inbox.kind = 'cancel')
            AND (receiver.crashes < 2 OR :suspects::integer > 0 OR NOT may.come)
        ORDER BY inbox.sent_at LIMIT 1
    ) AS told
    WHERE may.come OR :suspects::integer = 0
)
SELECT earliest.due_at, earliest.in_sight, clock.now
FROM clock
CROSS JOIN (
    SELECT min(found.due_at) FILTER (WHERE found.may_come) AS due_at, min(found.due_at) AS in_sight FROM found
) AS earliest;

-- Workers: leases, who is alive, what is registered.

-- name: register_worker
-- Announce a worker. To announce it again extends its lease. Answers the time and its generation.
INSERT INTO holdfast.workers (namespace_id, id, host, pid, has_lock, started_at, renewed_at, lease_until, lanes, generation)
SELECT :namespace_id, :id, :host, :pid, :has_lock, clock.now, clock.now, clock.now + :lease::bigint, :lanes, 0
FROM (SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now) AS clock
ON CONFLICT (namespace_id, id) DO UPDATE
SET host = excluded.host, pid = excluded.pid, has_lock = excluded.has_lock, renewed_at = excluded.renewed_at,
    lease_until = excluded.lease_until, lanes = excluded.lanes
RETURNING renewed_at, generation;

-- name: insert_registered
-- Remember when a version was first registered, and what was last declared of it.
INSERT INTO holdfast.registered (namespace_id, workflow, version, first_at, declared, on_event)
SELECT :namespace_id, asked.workflow, asked.version, :now, asked.declared, asked.on_event
FROM unnest(:workflows::text[], :versions::text[], :declared::text[], :on_events::text[])
    AS asked (workflow, version, declared, on_event)
ORDER BY asked.workflow, asked.version
ON CONFLICT (namespace_id, workflow, version) DO UPDATE
SET declared = coalesce(excluded.declared, registered.declared),
    on_event = CASE WHEN excluded.declared IS NULL THEN registered.on_event ELSE excluded.on_event END;

-- name: wake_blocked
-- Make the blocked runs of some lanes due at once: a worker that has just started may have the mended code. A run that
-- somebody has locked is left out: no worker waits for it.
WITH blocked AS MATERIALIZED (
    SELECT runs.number FROM holdfast.runs
    WHERE runs.blocked IS NOT NULL AND runs.owner IS NULL AND runs.ended_at IS NULL
        AND runs.lane_id = ANY (:lanes::integer[])
    ORDER BY runs.number FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE holdfast.runs SET due_at = least(coalesce(runs.due_at, :now), :now)
FROM blocked
WHERE runs.number = blocked.number;

-- name: renew_lease
-- Extend a lease, unless the worker was reaped. Answers the time.
UPDATE holdfast.workers SET renewed_at = clock.now, lease_until = clock.now + :lease::bigint
FROM (SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now) AS clock
WHERE workers.namespace_id = :namespace_id AND workers.id = :id
RETURNING clock.now;

-- name: list_workers
-- Every worker that has neither left nor been reaped, and the time.
SELECT workers.id, workers.host, workers.pid, workers.has_lock, workers.started_at, workers.renewed_at,
    workers.lease_until, workers.lanes,
    coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
FROM holdfast.workers
WHERE workers.namespace_id = :namespace_id
ORDER BY workers.started_at, workers.id;

-- name: list_owners
-- Every owner of a run. It hops along the index from one owner to the next.
WITH RECURSIVE owners (owner) AS (
    SELECT (
        SELECT runs.owner FROM holdfast.runs
        WHERE runs.namespace_id = :namespace_id AND runs.owner IS NOT NULL
        ORDER BY runs.owner LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT runs.owner FROM holdfast.runs
        WHERE runs.namespace_id = :namespace_id AND runs.owner > owners.owner AND runs.owner IS NOT NULL
        ORDER BY runs.owner LIMIT 1
    )
    FROM owners
    WHERE owners.owner IS NOT NULL
)
SELECT owners.owner FROM owners WHERE owners.owner IS NOT NULL;

-- name: reap_workers
-- Make the runs of dead workers due at once. Their next_seq stays null, so that the next claim is a takeover. A run
-- that somebody has locked is left out and found the next time, when its owner has no row any more.
WITH dead AS MATERIALIZED (
    SELECT runs.number
    FROM unnest(:workers::text[]) AS worker (id)
    JOIN holdfast.runs ON runs.namespace_id = :namespace_id AND runs.owner = worker.id AND runs.owner IS NOT NULL
    ORDER BY runs.number FOR NO KEY UPDATE OF runs SKIP LOCKED
)
UPDATE holdfast.runs SET owner = NULL, due_at = :now
FROM dead
WHERE runs.number = dead.number;

-- name: lock_dead
-- Lock workers that seemed dead, and say of each whether it is: one that has renewed its lease since is alive.
SELECT workers.id, workers.lease_until < :now OR workers.id = ANY (:gone::text[])
FROM holdfast.workers
WHERE workers.namespace_id = :namespace_id AND workers.id = ANY (:workers::text[])
ORDER BY workers.id FOR UPDATE;

-- name: next_generation
-- Raise a worker's generation: from here on, claims of an older one do nothing. No row: the worker was reaped, or a
-- later call came first. The row is locked FOR UPDATE first, since an update that changes no key would neither wait for
-- a claim that is under way nor make one wait.
WITH mine AS MATERIALIZED (
    SELECT workers.namespace_id, workers.id FROM holdfast.workers
    WHERE workers.namespace_id = :namespace_id AND workers.id = :id AND workers.generation < :generation
    FOR UPDATE
)
UPDATE holdfast.workers SET generation = :generation
FROM mine
WHERE workers.namespace_id = mine.namespace_id AND workers.id = mine.id AND workers.generation < :generation
RETURNING workers.generation;

-- name: release_strays
-- Hand back runs that a worker owns without knowing it: nothing of them was begun, so the next claim is no takeover.
-- The ids in :held are a set to look into, as in read_inbox.
WITH strays AS MATERIALIZED (
    SELECT runs.number FROM holdfast.runs
    WHERE runs.namespace_id = :namespace_id AND runs.owner = :id
        AND (runs.id IN (SELECT held.id FROM unnest(:held::text[]) AS held (id))) IS NOT TRUE
    ORDER BY runs.number FOR NO KEY UPDATE
)
UPDATE holdfast.runs
SET owner = NULL, due_at = :now,
    next_seq = (SELECT coalesce(max(journal.seq) + 1, 0) FROM holdfast.journal WHERE journal.run = runs.number)
FROM strays
WHERE runs.number = strays.number
RETURNING runs.id;

-- name: remove_worker
-- Remove workers.
DELETE FROM holdfast.workers WHERE workers.namespace_id = :namespace_id AND workers.id = ANY (:workers::text[]);

-- name: wake_missed
-- Make runs due that still wait for one that has ended: it ended while they were being created, so that neither commit
-- could see the other, or while they were locked. It may have been removed since.
WITH missed AS MATERIALIZED (
    SELECT runs.number, least(starts.due_at, runs.deadline_at) AS due_at
    FROM holdfast.runs
    JOIN holdfast.starts ON starts.number = runs.number
    WHERE runs.namespace_id = :namespace_id AND runs.after_run_id IS NOT NULL AND runs.started_at IS NULL
        AND runs.ended_at IS NULL AND NOT EXISTS (
            SELECT 1 FROM holdfast.runs AS before
            WHERE before.namespace_id = :namespace_id AND before.id = runs.after_run_id AND before.ended_at IS NULL
            OFFSET 0
        )
    ORDER BY runs.number FOR NO KEY UPDATE OF runs SKIP LOCKED
)
UPDATE holdfast.runs
SET after_run_id = NULL,
    due_at = greatest(missed.due_at,
        coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint))
FROM missed
WHERE runs.number = missed.number
RETURNING runs.number;

-- Workers: leases, who is alive, what is registered.

-- name: register_worker
-- Announce a worker; again is the same as once, with a new lease. Answers the time.
INSERT INTO holdfast.workers (namespace_id, id, host, pid, has_lock, started_at, renewed_at, lease_until, lanes, generation)
SELECT :namespace_id, :id, :host, :pid, :has_lock, clock.now, clock.now, clock.now + :lease::bigint, :lanes, 0
FROM (SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now) AS clock
ON CONFLICT (namespace_id, id) DO UPDATE
SET host = excluded.host, pid = excluded.pid, has_lock = excluded.has_lock, renewed_at = excluded.renewed_at,
    lease_until = excluded.lease_until, lanes = excluded.lanes
RETURNING renewed_at, generation;

-- name: insert_registered
-- Remember when a version was first seen, and what was last declared of it.
INSERT INTO holdfast.registered (namespace_id, workflow, version, first_at, declared, on_event)
SELECT :namespace_id, asked.workflow, asked.version, :now, asked.declared, asked.on_event
FROM unnest(:workflows::text[], :versions::text[], :declared::text[], :on_events::text[])
    AS asked (workflow, version, declared, on_event)
ORDER BY asked.workflow, asked.version
ON CONFLICT (namespace_id, workflow, version) DO UPDATE
SET declared = coalesce(excluded.declared, registered.declared),
    on_event = CASE WHEN excluded.declared IS NULL THEN registered.on_event ELSE excluded.on_event END;

-- name: wake_blocked
-- A newly started worker may hold the fix: blocked runs of its lanes are tried at once. One that somebody has locked is
-- left to its own time: no worker waits for it.
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
-- Every worker that has not left or been reaped, and the time.
SELECT workers.id, workers.host, workers.pid, workers.has_lock, workers.started_at, workers.renewed_at,
    workers.lease_until, workers.lanes,
    coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
FROM holdfast.workers
WHERE workers.namespace_id = :namespace_id
ORDER BY workers.started_at, workers.id;

-- name: list_owners
-- Everyone who owns a run, by hops along the index of owners.
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
-- What the dead held becomes due at once. next_seq stays null, so that the next claim is a takeover. A run that somebody
-- has locked holds up none of the others: its owner has no row then, and is found the next time.
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
-- Workers that seemed dead, locked, and whether they are: one that renewed its lease meanwhile is alive.
SELECT workers.id, workers.lease_until < :now OR workers.id = ANY (:gone::text[])
FROM holdfast.workers
WHERE workers.namespace_id = :namespace_id AND workers.id = ANY (:workers::text[])
ORDER BY workers.id FOR UPDATE;

-- name: next_generation
-- From here on, claims of an older generation do nothing. No row: the worker was reaped, or this came too late. The update
-- alone would neither wait for a claim that is under way nor be waited for: it changes no key. So the row is locked first.
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
-- What a worker owns without knowing it goes back as if handed back: nothing of it was begun. What it knows is a set, as
-- what read_inbox is told.
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
-- The dead leave.
DELETE FROM holdfast.workers WHERE workers.namespace_id = :namespace_id AND workers.id = ANY (:workers::text[]);

-- name: wake_missed
-- Runs that waited for one that ended while they were being created, or while they were locked: neither commit could see
-- the other's. That one may have been removed since.
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

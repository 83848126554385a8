-- Workers: leases, who is alive, what is registered.

-- name: register_worker
-- Announce a worker; again is the same as once, with a new lease.
INSERT INTO workers (namespace_id, id, host, pid, has_lock, started_at, renewed_at, lease_until, lanes)
VALUES (:namespace_id, :id, :host, :pid, :has_lock, :now, :now, :lease_until, :lanes)
ON CONFLICT (namespace_id, id) DO UPDATE
SET host = excluded.host, pid = excluded.pid, has_lock = excluded.has_lock, renewed_at = excluded.renewed_at,
    lease_until = excluded.lease_until, lanes = excluded.lanes;

-- name: insert_registered
-- Remember when a version was first seen, and what was last declared of it.
INSERT INTO registered (namespace_id, workflow, version, first_at, declared, on_event)
VALUES (:namespace_id, :workflow, :version, :now, :declared, :on_event)
ON CONFLICT (namespace_id, workflow, version) DO UPDATE
SET declared = coalesce(excluded.declared, registered.declared),
    on_event = CASE WHEN excluded.declared IS NULL THEN registered.on_event ELSE excluded.on_event END;

-- name: wake_blocked
-- A newly started worker may hold the fix: blocked runs of its lanes are tried at once.
UPDATE runs
SET due_at = min(coalesce(due_at, :now), :now)
WHERE blocked IS NOT NULL AND owner IS NULL AND ended_at IS NULL
    AND lane_id IN (
        SELECT lanes.id
        FROM json_each(:lanes) AS asked
        CROSS JOIN lanes ON lanes.namespace_id = :namespace_id
            AND lanes.workflow = json_extract(asked.value, '$[0]')
            AND lanes.version = json_extract(asked.value, '$[1]')
            AND lanes.queue = json_extract(asked.value, '$[2]')
    );

-- name: renew_lease
-- Extend a lease, unless the worker was reaped.
UPDATE workers SET renewed_at = :now, lease_until = :lease_until
WHERE namespace_id = :namespace_id AND id = :id;

-- name: list_workers
-- Every worker that has not left or been reaped.
SELECT id, host, pid, has_lock, started_at, renewed_at, lease_until, lanes
FROM workers
WHERE namespace_id = :namespace_id
ORDER BY started_at, id;

-- name: list_owners
-- Everyone who owns a run, by hops along the index of owners.
WITH RECURSIVE owners (owner) AS (
    SELECT min(runs.owner) FROM runs
    WHERE runs.namespace_id = :namespace_id AND runs.owner IS NOT NULL
    UNION ALL
    SELECT (
        SELECT min(runs.owner) FROM runs
        WHERE runs.namespace_id = :namespace_id AND runs.owner > owners.owner
    )
    FROM owners
    WHERE owners.owner IS NOT NULL
)
SELECT owner FROM owners WHERE owner IS NOT NULL;

-- name: reap_workers
-- What the dead held becomes due at once. next_seq stays null, so that the next claim is a takeover.
UPDATE runs SET owner = NULL, due_at = :now
WHERE namespace_id = :namespace_id AND owner IN (SELECT value FROM json_each(:workers));

-- name: release_strays
-- What a worker owns without knowing it goes back as if handed back: nothing of it was begun.
UPDATE runs
SET owner = NULL, due_at = :now,
    next_seq = (SELECT coalesce(max(journal.seq) + 1, 0) FROM journal WHERE journal.run = runs.number)
WHERE namespace_id = :namespace_id AND owner = :id AND id NOT IN (SELECT value FROM json_each(:held))
RETURNING id;

-- name: remove_worker
-- The dead leave.
DELETE FROM workers WHERE namespace_id = :namespace_id AND id IN (SELECT value FROM json_each(:workers));

-- Workers: leases, who is alive, what is registered.

-- name: register_worker
-- Announce a worker. To announce it again extends its lease.
INSERT INTO workers (namespace_id, id, host, pid, has_lock, started_at, renewed_at, lease_until, lanes)
VALUES (:namespace_id, :id, :host, :pid, :has_lock, :now, :now, :lease_until, :lanes)
ON CONFLICT (namespace_id, id) DO UPDATE
SET host = excluded.host, pid = excluded.pid, has_lock = excluded.has_lock, renewed_at = excluded.renewed_at,
    lease_until = excluded.lease_until, lanes = excluded.lanes;

-- name: insert_registered
-- Remember when a version was first registered, and what was last declared of it.
INSERT INTO registered (namespace_id, workflow, version, first_at, declared, on_event)
VALUES (:namespace_id, :workflow, :version, :now, :declared, :on_event)
ON CONFLICT (namespace_id, workflow, version) DO UPDATE
SET declared = coalesce(excluded.declared, registered.declared),
    on_event = CASE WHEN excluded.declared IS NULL THEN registered.on_event ELSE excluded.on_event END;

-- name: wake_blocked
-- Make the blocked runs of some lanes due at once: a worker that has just started may have the mended code.
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
-- Every worker that has neither left nor been reaped.
SELECT id, host, pid, has_lock, started_at, renewed_at, lease_until, lanes
FROM workers
WHERE namespace_id = :namespace_id
ORDER BY started_at, id;

-- name: list_owners
-- Every owner of a run. It hops along the index from one owner to the next.
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
-- Make the runs of dead workers due at once. Their next_seq stays null, so that the next claim is a takeover.
UPDATE runs SET owner = NULL, due_at = :now
WHERE namespace_id = :namespace_id AND owner IN (SELECT value FROM json_each(:workers));

-- name: release_strays
-- Hand back runs that a worker owns without knowing it: nothing of them was begun, so the next claim is no takeover.
UPDATE runs
SET owner = NULL, due_at = :now,
    next_seq = (SELECT coalesce(max(journal.seq) + 1, 0) FROM journal WHERE journal.run = runs.number)
WHERE namespace_id = :namespace_id AND owner = :id AND id NOT IN (SELECT value FROM json_each(:held))
RETURNING id;

-- name: remove_worker
-- Remove workers.
DELETE FROM workers WHERE namespace_id = :namespace_id AND id IN (SELECT value FROM json_each(:workers));

-- Retention: pausing runs, and removing ended ones with everything they own.

-- name: pause_runs
-- Set or clear the flag of live runs.
UPDATE runs SET paused = :paused
WHERE namespace_id = :namespace_id AND id IN (SELECT value FROM json_each(:ids))
    AND ended_at IS NULL AND paused <> :paused
RETURNING number, id, owner;

-- name: drop_pauses
-- Drop earlier messages about pauses: a later one replaces them.
DELETE FROM inbox WHERE kind = 'pause' AND run IN (SELECT value FROM json_each(:runs));

-- name: find_ended
-- Those of some runs that have ended, with the ids of their chains.
SELECT runs.number, runs.id, coalesce(starts.chain_id, runs.id)
FROM json_each(:ids) AS asked
CROSS JOIN runs ON runs.namespace_id = :namespace_id AND runs.id = asked.value
CROSS JOIN starts ON starts.number = runs.number
WHERE runs.ended_at IS NOT NULL;

-- name: sweep
-- Ended runs whose retention is over.
SELECT runs.number, runs.id, coalesce(starts.chain_id, runs.id)
FROM runs
CROSS JOIN starts ON starts.number = runs.number
WHERE runs.namespace_id = :namespace_id AND runs.expires_at <= :now
ORDER BY runs.expires_at, runs.number LIMIT :limit;

-- name: find_kept_chains
-- Those of some chains of which a run is kept that is not among the given ones. The newest is looked at first: it is
-- the one that is most likely kept.
SELECT asked.value
FROM json_each(:chains) AS asked
WHERE (
    SELECT other.number
    FROM starts AS other
    CROSS JOIN runs AS one ON one.number = other.number
    WHERE other.chain_id = asked.value AND one.namespace_id = :namespace_id
        AND other.number NOT IN (SELECT value FROM json_each(:runs))
    ORDER BY other.number DESC LIMIT 1
) IS NOT NULL;

-- name: put_off_removals
-- Put off the removal of these runs until `take_up_removals`. The + keeps SQLite from walking all that expire.
UPDATE runs SET expires_at = expires_at + :for_ever
WHERE number IN (SELECT value FROM json_each(:runs)) AND +expires_at < :for_ever;

-- name: take_up_removals
-- Take up again the removals of these runs, if they were put off.
UPDATE runs SET expires_at = expires_at - :for_ever
WHERE namespace_id = :namespace_id AND id IN (SELECT value FROM json_each(:ids)) AND +expires_at >= :for_ever
RETURNING id;

-- name: give_back_keys
-- Give the keys of these runs back to those live runs from which they took them over.
UPDATE keys
SET run = (
    SELECT before.number
    FROM runs
    CROSS JOIN runs AS before ON before.namespace_id = runs.namespace_id AND before.id = runs.after_run_id
    WHERE runs.number = keys.run
)
WHERE (namespace_id, workflow, key) IN (
    SELECT runs.namespace_id, lanes.workflow, starts.key
    FROM json_each(:runs) AS gone
    CROSS JOIN runs ON runs.number = gone.value
    CROSS JOIN runs AS before ON before.namespace_id = runs.namespace_id AND before.id = runs.after_run_id
    CROSS JOIN lanes ON lanes.id = runs.lane_id
    CROSS JOIN starts ON starts.number = runs.number
    WHERE starts.key IS NOT NULL AND before.ended_at IS NULL
) AND run IN (SELECT value FROM json_each(:runs));

-- name: delete_keys
-- The keys that these runs hold.
DELETE FROM keys
WHERE (namespace_id, workflow, key) IN (
    SELECT runs.namespace_id, lanes.workflow, starts.key
    FROM json_each(:runs) AS gone
    CROSS JOIN runs ON runs.number = gone.value
    CROSS JOIN lanes ON lanes.id = runs.lane_id
    CROSS JOIN starts ON starts.number = runs.number
    WHERE starts.key IS NOT NULL
) AND run IN (SELECT value FROM json_each(:runs));

-- name: delete_journals
-- Their journals.
DELETE FROM journal WHERE run IN (SELECT value FROM json_each(:runs));

-- name: delete_messages
-- Messages that they did not read.
DELETE FROM inbox WHERE run IN (SELECT value FROM json_each(:runs));

-- name: delete_hook_ids
-- The ids of messages to their hooks.
DELETE FROM message_ids
WHERE namespace_id = :namespace_id AND scope IN (
    SELECT 'hook/' || used_hooks.token
    FROM json_each(:runs) AS gone
    CROSS JOIN used_hooks ON used_hooks.run = gone.value
);

-- name: delete_hooks
-- The tokens of their hooks.
DELETE FROM used_hooks WHERE run IN (SELECT value FROM json_each(:runs));

-- name: delete_starts
-- What they were started with.
DELETE FROM starts WHERE number IN (SELECT value FROM json_each(:runs));

-- name: delete_runs
-- The runs themselves.
DELETE FROM runs WHERE number IN (SELECT value FROM json_each(:runs)) AND ended_at IS NOT NULL;

-- name: find_empty_chains
-- Those of some chains of which no run is left.
SELECT asked.value
FROM json_each(:chains) AS asked
WHERE NOT EXISTS (
        SELECT 1 FROM runs AS first WHERE first.namespace_id = :namespace_id AND first.id = asked.value
    )
    AND NOT EXISTS (
        SELECT 1 FROM starts
        CROSS JOIN runs AS one ON one.number = starts.number
        WHERE starts.chain_id = asked.value AND one.namespace_id = :namespace_id
    );

-- name: delete_values
-- Their values.
DELETE FROM chain_values
WHERE namespace_id = :namespace_id AND chain_id IN (SELECT value FROM json_each(:chains));

-- name: delete_items
-- Their streams.
DELETE FROM stream_items
WHERE namespace_id = :namespace_id AND chain_id IN (SELECT value FROM json_each(:chains));

-- name: delete_taken
-- The notes of which events they have taken.
DELETE FROM taken_events
WHERE namespace_id = :namespace_id AND chain_id IN (SELECT value FROM json_each(:chains));

-- name: delete_signal_ids
-- The ids of signals to them.
DELETE FROM message_ids
WHERE namespace_id = :namespace_id AND scope IN (SELECT 'signal/' || value FROM json_each(:chains));

-- name: delete_events
-- A batch of old events.
DELETE FROM events
WHERE id IN (
    SELECT one.id FROM events AS one
    WHERE one.namespace_id = :namespace_id AND one.published_at < :before
    ORDER BY one.published_at LIMIT :limit
)
RETURNING id;

-- name: forget_events
-- The notes of which chains have taken these events.
DELETE FROM taken_events WHERE event IN (SELECT value FROM json_each(:ids));

-- name: delete_probes
-- What these events were found by.
DELETE FROM event_probes WHERE event IN (SELECT value FROM json_each(:ids));

-- name: delete_event_ids
-- The message ids of old events.
DELETE FROM message_ids
WHERE namespace_id = :namespace_id AND scope = 'event' AND id IN (
    SELECT one.id FROM message_ids AS one
    WHERE one.namespace_id = :namespace_id AND one.scope = 'event' AND one.sent_at < :before
    ORDER BY one.sent_at LIMIT :limit
);

-- Retention: pausing runs, and removing ended ones with everything they own.

-- name: pause_runs
-- Set or clear the flag of live runs.
WITH live AS MATERIALIZED (
    SELECT runs.number FROM holdfast.runs
    WHERE runs.namespace_id = :namespace_id AND runs.id = ANY (:ids::text[]) AND runs.ended_at IS NULL
        AND runs.paused <> :paused::boolean
    ORDER BY runs.number FOR NO KEY UPDATE
)
UPDATE holdfast.runs SET paused = :paused
FROM live
WHERE runs.number = live.number
RETURNING runs.id, runs.number;

-- name: lock_removals
-- Let one removal at a time happen in a namespace. If two remove one run each of the same chain, each sees the other's
-- run, and neither removes what the chain owns.
SELECT pg_advisory_xact_lock(hashtextextended('holdfast.removals', :namespace_id::bigint));

-- name: find_ended
-- Lock those of some runs that have ended, and find their chains. Rows of starts are locked, too: there, a run that is
-- just being joined is held.
SELECT runs.number, runs.id, coalesce(starts.chain_id, runs.id)
FROM holdfast.runs
JOIN holdfast.starts ON starts.number = runs.number
WHERE runs.namespace_id = :namespace_id AND runs.id = ANY (:ids::text[]) AND runs.ended_at IS NOT NULL
ORDER BY runs.number FOR UPDATE OF runs, starts;

-- name: sweep
-- Lock runs whose retention is over, behind a place among them, and find their chains.
SELECT runs.number, runs.id, coalesce(starts.chain_id, runs.id), runs.expires_at
FROM holdfast.runs
JOIN holdfast.starts ON starts.number = runs.number
WHERE runs.namespace_id = :namespace_id AND runs.expires_at <= :now::bigint
    AND (runs.expires_at, runs.number) > (:after_at::bigint, :after_number::bigint)
ORDER BY runs.namespace_id, runs.expires_at, runs.number LIMIT :limit::integer
FOR UPDATE OF runs, starts SKIP LOCKED;

-- name: hold_chains
-- Those of some chains that live on and that open transactions of callers have sent to, or that share a lock with such
-- a chain. What those have sent to a run that has continued since is moved on when they have committed. The other
-- chains are held until this transaction ends.
WITH living AS MATERIALIZED (
    SELECT asked.chain_id
    FROM unnest(:chains::text[]) AS asked (chain_id)
    CROSS JOIN LATERAL holdfast.last_of_chain(:namespace_id, asked.chain_id) AS last
    JOIN holdfast.runs ON runs.number = last.number
    WHERE runs.ended_at IS NULL
)
SELECT living.chain_id
FROM living
WHERE NOT pg_try_advisory_xact_lock(hashtext('holdfast.chains/' || :namespace_id::integer), hashtext(living.chain_id) & 255);

-- name: find_kept_chains
-- Those of some chains of which a run is kept that is not among the given ones. The newest is looked at first: it is
-- the one that is most likely kept.
SELECT asked.chain_id
FROM unnest(:chains::text[]) AS asked (chain_id)
CROSS JOIN LATERAL (
    SELECT other.number FROM holdfast.starts AS other
    WHERE other.chain_id = asked.chain_id AND other.number <> ALL (:runs::bigint[]) AND EXISTS (
        SELECT 1 FROM holdfast.runs AS one
        WHERE one.number = other.number AND one.namespace_id = :namespace_id OFFSET 0
    )
    ORDER BY other.number + 0 DESC LIMIT 1
) AS kept;

-- name: put_off_removals
-- Put off the removal of these runs until `take_up_removals`. By coalesce, the planner can't walk all that expire.
UPDATE holdfast.runs SET expires_at = runs.expires_at + :for_ever::bigint
WHERE runs.number = ANY (:runs::bigint[]) AND coalesce(runs.expires_at, :for_ever::bigint) < :for_ever::bigint;

-- name: take_up_removals
-- Take up again the removals of these runs, if they were put off.
UPDATE holdfast.runs SET expires_at = runs.expires_at - :for_ever::bigint
WHERE runs.namespace_id = :namespace_id AND runs.id = ANY (:ids::text[]) AND coalesce(runs.expires_at, 0) >= :for_ever::bigint
RETURNING runs.id;

-- name: give_back_keys
-- Give the keys of these runs back to those live runs from which they took them over.
WITH theirs AS MATERIALIZED (
    SELECT runs.number, lanes.workflow, starts.key, before.number AS before
    FROM holdfast.runs
    JOIN holdfast.starts ON starts.number = runs.number
    JOIN holdfast.lanes ON lanes.id = runs.lane_id
    CROSS JOIN LATERAL (
        SELECT one.number FROM holdfast.runs AS one
        WHERE one.namespace_id = :namespace_id AND one.id = runs.after_run_id AND one.ended_at IS NULL
        OFFSET 0
    ) AS before
    WHERE runs.number = ANY (:runs::bigint[]) AND runs.after_run_id IS NOT NULL AND starts.key IS NOT NULL
)
UPDATE holdfast.keys SET run = theirs.before
FROM theirs
WHERE keys.namespace_id = :namespace_id AND keys.workflow = theirs.workflow AND keys.key = theirs.key
    AND keys.run = theirs.number AND keys.key = ANY (ARRAY(SELECT theirs.key FROM theirs));

-- name: remove_runs
-- Remove ended runs, with all that is theirs alone.
WITH key AS (
    DELETE FROM holdfast.keys
    USING holdfast.starts
    JOIN holdfast.runs ON runs.number = starts.number
    JOIN holdfast.lanes ON lanes.id = runs.lane_id
    WHERE starts.number = ANY (:runs::bigint[]) AND keys.namespace_id = :namespace_id
        AND keys.workflow = lanes.workflow AND keys.key = starts.key AND keys.run = starts.number
        AND keys.key = ANY (ARRAY(SELECT theirs.key FROM holdfast.starts AS theirs WHERE theirs.number = ANY (:runs::bigint[])))
),
turn AS (
    DELETE FROM holdfast.journal WHERE journal.run = ANY (:runs::bigint[])
),
message AS (
    DELETE FROM holdfast.inbox WHERE inbox.run = ANY (:runs::bigint[])
),
wait AS (
    DELETE FROM holdfast.waits WHERE waits.run = ANY (:runs::bigint[])
),
followed AS (
    DELETE FROM holdfast.followers WHERE followers.run = ANY (:runs::bigint[])
),
following AS (
    DELETE FROM holdfast.followers
    WHERE followers.follower = ANY (:runs::bigint[]) AND followers.run <> ALL (:runs::bigint[])
),
hook AS (
    DELETE FROM holdfast.used_hooks WHERE used_hooks.run = ANY (:runs::bigint[])
    RETURNING used_hooks.token
),
hook_id AS (
    DELETE FROM holdfast.message_ids
    WHERE message_ids.namespace_id = :namespace_id
        AND message_ids.scope = ANY (ARRAY(SELECT 'hook/' || hook.token FROM hook))
),
start AS (
    DELETE FROM holdfast.starts WHERE starts.number = ANY (:runs::bigint[])
)
DELETE FROM holdfast.runs WHERE runs.number = ANY (:runs::bigint[]);

-- name: remove_chains
-- Remove what belongs to chains of which no run is left.
WITH gone AS MATERIALIZED (
    SELECT asked.chain_id
    FROM unnest(:chains::text[]) AS asked (chain_id)
    WHERE NOT EXISTS (SELECT 1 FROM holdfast.last_of_chain(:namespace_id, asked.chain_id) AS last)
),
value AS (
    DELETE FROM holdfast.chain_values
    WHERE chain_values.namespace_id = :namespace_id
        AND chain_values.chain_id = ANY (ARRAY(SELECT gone.chain_id FROM gone))
),
stream AS (
    DELETE FROM holdfast.streams
    WHERE streams.namespace_id = :namespace_id AND streams.chain_id = ANY (ARRAY(SELECT gone.chain_id FROM gone))
),
item AS (
    DELETE FROM holdfast.stream_items
    WHERE stream_items.namespace_id = :namespace_id
        AND stream_items.chain_id = ANY (ARRAY(SELECT gone.chain_id FROM gone))
),
event AS (
    DELETE FROM holdfast.taken_events
    WHERE taken_events.namespace_id = :namespace_id
        AND taken_events.chain_id = ANY (ARRAY(SELECT gone.chain_id FROM gone))
)
DELETE FROM holdfast.message_ids
WHERE message_ids.namespace_id = :namespace_id
    AND message_ids.scope = ANY (ARRAY(SELECT 'signal/' || gone.chain_id FROM gone));

-- name: remove_events
-- Remove a batch of old events.
WITH old AS MATERIALIZED (
    SELECT events.id FROM holdfast.events
    WHERE events.namespace_id = :namespace_id AND events.published_at < :before::bigint
    ORDER BY events.published_at LIMIT :limit::integer
    FOR UPDATE SKIP LOCKED
)
DELETE FROM holdfast.events USING old WHERE events.id = old.id
RETURNING events.id;

-- name: forget_events
-- Remove the notes of which chains have taken these events. A statement of its own: it also sees what was committed while
-- the events' rows were waited for.
DELETE FROM holdfast.taken_events WHERE taken_events.event = ANY (:events::bigint[]);

-- name: delete_probes
-- Remove what these events were found by.
DELETE FROM holdfast.event_probes WHERE event_probes.event = ANY (:events::bigint[]);

-- name: remove_event_ids
-- Remove the message ids of old events.
DELETE FROM holdfast.message_ids
WHERE message_ids.namespace_id = :namespace_id AND message_ids.scope = 'event' AND message_ids.id IN (
    SELECT old.id FROM holdfast.message_ids AS old
    WHERE old.namespace_id = :namespace_id AND old.scope = 'event' AND old.sent_at < :before::bigint
    ORDER BY old.sent_at LIMIT :limit::integer
)
RETURNING message_ids.id;

-- Events: a publish inserts them, and any worker matches them with waits, in commits of its own.
-- Both sides are committed first and looked at by a later statement: of an event and a wait that are committed at the
-- same time, whichever is looked at last finds the other.

-- name: publish_event
-- Keep an event, unless its message id was published before.
WITH clock AS MATERIALIZED (
    SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
),
remembered AS (
    INSERT INTO holdfast.message_ids (namespace_id, scope, id, sent_at)
    SELECT :namespace_id, 'event', :message_id::text, clock.now FROM clock WHERE :message_id::text IS NOT NULL
    ON CONFLICT DO NOTHING
    RETURNING message_ids.id
)
INSERT INTO holdfast.events (namespace_id, name, payload, published_at, trace)
SELECT :namespace_id, :name, :payload, clock.now, :trace
FROM clock
WHERE :message_id::text IS NULL OR EXISTS (SELECT 1 FROM remembered)
RETURNING events.id;

-- name: publish_events
-- Keep events that turns publish, in order. They get the time of this statement, not of the turn: a run that was
-- created while the turn was on its way, perhaps by the turn itself, does not miss them.
INSERT INTO holdfast.events (namespace_id, name, payload, published_at, trace)
SELECT :namespace_id, asked.name, asked.payload,
    coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint), asked.trace
FROM unnest(:names::text[], :payloads::bytea[], :traces::text[]) WITH ORDINALITY AS asked (name, payload, trace, place)
ORDER BY asked.place;

-- name: read_unmatched
-- Events that nobody has looked at yet.
SELECT events.id, events.name, events.payload, events.published_at, events.trace
FROM holdfast.events
WHERE events.namespace_id = :namespace_id AND events.unmatched
    AND (events.published_at + 0, events.id) > (:after_at::bigint, :after_id::bigint)
ORDER BY events.published_at + 0, events.id LIMIT :limit::integer;

-- name: read_unmatched_waits
-- Waits for events that nobody has looked at yet.
SELECT waits.run, waits.number, waits.name, waits.match, waits.since, waits.registered_at, waits.probe
FROM holdfast.waits
WHERE waits.namespace_id = :namespace_id AND waits.unmatched
    AND (waits.run, waits.number) > (:after_run::bigint, :after_number::integer)
ORDER BY waits.run, waits.number LIMIT :limit::integer;

-- name: find_waits
-- Waits that an event may match: for each of its probes, and for none, a bounded walk along the index.
SELECT found.run, found.number, found.name, found.match, found.since, found.registered_at, found.probe,
    found.unmatched AND EXISTS (
        SELECT 1 FROM holdfast.events AS older
        WHERE older.namespace_id = :namespace_id AND older.name = :name AND older.published_at >= found.since
            AND (older.published_at, older.id) < (:published_at::bigint, :event::bigint)
    )
FROM unnest(:probes::bytea[]) AS wanted (probe)
CROSS JOIN LATERAL (
    SELECT waits.run, waits.number, waits.name, waits.match, waits.since, waits.registered_at, waits.probe,
        waits.unmatched
    FROM holdfast.waits
    WHERE waits.namespace_id = :namespace_id AND waits.name = :name AND waits.probe = wanted.probe
        AND waits.kind = 'event' AND (waits.run, waits.number) > (:after_run::bigint, :after_number::integer)
        AND waits.since <= :published_at::bigint
    ORDER BY waits.run, waits.number LIMIT :limit::integer
) AS found
ORDER BY found.run, found.number LIMIT :limit::integer;

-- name: find_events
-- Events of a name that a chain has not taken, after a place.
SELECT events.id, events.name, events.payload, events.published_at, events.trace
FROM holdfast.events
WHERE events.namespace_id = :namespace_id AND events.name = :name
    AND (events.published_at, events.id) > (:after_at::bigint, :after_id::bigint)
    AND NOT EXISTS (
        SELECT 1 FROM holdfast.taken_events
        WHERE taken_events.event = events.id AND taken_events.chain_id = (
            SELECT coalesce(starts.chain_id, runs.id)
            FROM holdfast.runs
            JOIN holdfast.starts ON starts.number = runs.number
            WHERE runs.number = :run
        )
    )
ORDER BY events.published_at, events.id LIMIT :limit::integer;

-- name: find_newer_events
-- The same for a later look: events after the place up to which an earlier look has seen all, and events that have been
-- matched since, or are still unmatched. Those were committed late, and whoever looks at them at this moment may not
-- see this wait. The expressions on name and time leave one index for each part, whatever the planner knows.
WITH chain AS MATERIALIZED (
    SELECT coalesce(starts.chain_id, runs.id) AS id
    FROM holdfast.runs
    JOIN holdfast.starts ON starts.number = runs.number
    WHERE runs.number = :run
)
SELECT found.id, found.name, found.payload, found.published_at, found.trace
FROM (
    (
        SELECT newer.id, newer.name, newer.payload, newer.published_at, newer.trace
        FROM holdfast.events AS newer
        WHERE newer.namespace_id = :namespace_id AND newer.name = :name
            AND (newer.published_at, newer.id) > (:after_at::bigint, :after_id::bigint)
            AND NOT EXISTS (
                SELECT 1 FROM holdfast.taken_events
                WHERE taken_events.event = newer.id AND taken_events.chain_id = (SELECT chain.id FROM chain)
            )
        ORDER BY newer.published_at, newer.id LIMIT :limit::integer
    )
    UNION
    SELECT late.id, late.name, late.payload, late.published_at, late.trace
    FROM holdfast.events AS late
    WHERE late.namespace_id = :namespace_id AND late.name || '' = :name AND late.matched_at >= :matched_since::bigint
        AND late.published_at + 0 BETWEEN :since::bigint AND :after_at::bigint
        AND NOT EXISTS (
            SELECT 1 FROM holdfast.taken_events
            WHERE taken_events.event = late.id AND taken_events.chain_id = (SELECT chain.id FROM chain)
        )
    UNION
    SELECT fresh.id, fresh.name, fresh.payload, fresh.published_at, fresh.trace
    FROM holdfast.events AS fresh
    WHERE fresh.namespace_id = :namespace_id AND fresh.unmatched AND fresh.name || '' = :name
        AND fresh.published_at - 0 BETWEEN :since::bigint AND :after_at::bigint
        AND NOT EXISTS (
            SELECT 1 FROM holdfast.taken_events
            WHERE taken_events.event = fresh.id AND taken_events.chain_id = (SELECT chain.id FROM chain)
        )
) AS found
ORDER BY found.published_at, found.id LIMIT :limit::integer;

-- name: find_probed_events
-- Events that a wait with a probe may match and its chain has not taken: those that were matched, by their probes, after
-- a place; those before it that were matched since an earlier look; and those that are still unmatched, which have no
-- probes yet. One statement, which sees one moment: an event that is just being marked is found either way.
WITH chain AS MATERIALIZED (
    SELECT coalesce(starts.chain_id, runs.id) AS id
    FROM holdfast.runs
    JOIN holdfast.starts ON starts.number = runs.number
    WHERE runs.number = :run
)
SELECT events.id, events.name, events.payload, events.published_at, events.trace
FROM (
    SELECT found.id, found.published_at
    FROM (
        SELECT newer.event AS id, newer.published_at
        FROM unnest(:probes::bytea[]) AS asked (probe)
        CROSS JOIN LATERAL (
            SELECT probed.event, probed.published_at
            FROM holdfast.event_probes AS probed
            WHERE probed.namespace_id = :namespace_id AND probed.probe = asked.probe
                AND (probed.published_at, probed.event) > (:after_at::bigint, :after_id::bigint)
                AND NOT EXISTS (
                    SELECT 1 FROM holdfast.taken_events
                    WHERE taken_events.event = probed.event AND taken_events.chain_id = (SELECT chain.id FROM chain)
                )
            ORDER BY probed.published_at, probed.event LIMIT :limit::integer
        ) AS newer
        UNION ALL
        SELECT late.event, late.published_at
        FROM unnest(:probes::bytea[]) AS asked (probe)
        CROSS JOIN LATERAL (
            SELECT probed.event, probed.published_at
            FROM holdfast.event_probes AS probed
            WHERE probed.namespace_id = :namespace_id AND probed.probe || ''::bytea = asked.probe
                AND probed.matched_at >= :matched_since::bigint AND probed.published_at + 0 >= :since::bigint
                AND (probed.published_at + 0, probed.event + 0) <= (:after_at::bigint, :after_id::bigint)
                AND NOT EXISTS (
                    SELECT 1 FROM holdfast.taken_events
                    WHERE taken_events.event = probed.event AND taken_events.chain_id = (SELECT chain.id FROM chain)
                )
            OFFSET 0
        ) AS late
        UNION ALL
        (
            SELECT fresh.id, fresh.published_at
            FROM holdfast.events AS fresh
            WHERE fresh.namespace_id = :namespace_id AND fresh.unmatched AND fresh.name || '' = :name
                AND (fresh.published_at - 0, fresh.id) > (:unmatched_at::bigint, :unmatched_id::bigint)
                AND NOT EXISTS (
                    SELECT 1 FROM holdfast.taken_events
                    WHERE taken_events.event = fresh.id AND taken_events.chain_id = (SELECT chain.id FROM chain)
                )
            ORDER BY fresh.published_at - 0, fresh.id LIMIT :limit::integer
        )
    ) AS found
    ORDER BY found.published_at, found.id LIMIT :limit::integer
) AS first
CROSS JOIN LATERAL (
    SELECT one.id, one.name, one.payload, one.published_at, one.trace
    FROM holdfast.events AS one
    WHERE one.id = first.id
    OFFSET 0
) AS events
ORDER BY events.published_at, events.id;

-- name: deliver_event
-- Give an event to waits. Their rows are locked in order: of two that deliver at the same time the second waits here,
-- and then finds the rows gone. For another wait of the same chain it finds the event taken, since taken_events is
-- unique. A run that ends or continues as new deletes the same rows, so it comes wholly before or after this; if after,
-- the message is in its inbox.
WITH present AS MATERIALIZED (
    SELECT wait.run, wait.number, wait.name
    FROM (
        SELECT given.run, given.number, given.registered_at
        FROM unnest(:runs::bigint[], :numbers::integer[], :registered_ats::bigint[])
            AS given (run, number, registered_at)
        ORDER BY given.run, given.number
    ) AS asked
    CROSS JOIN LATERAL (
        SELECT waits.run, waits.number, waits.name, waits.kind, waits.namespace_id, waits.registered_at
        FROM holdfast.waits
        WHERE waits.run = asked.run AND waits.number = asked.number
        OFFSET 0
        FOR UPDATE
    ) AS wait
    WHERE wait.kind = 'event' AND wait.namespace_id = :namespace_id AND wait.registered_at = asked.registered_at
),
first AS MATERIALIZED (
    SELECT DISTINCT ON (receiver.chain_id) present.run, present.number, present.name, receiver.lane_id, receiver.priority,
        receiver.chain_id
    FROM present
    CROSS JOIN LATERAL (
        SELECT runs.lane_id, runs.priority, coalesce(starts.chain_id, runs.id) AS chain_id
        FROM holdfast.runs
        JOIN holdfast.starts ON starts.number = runs.number
        WHERE runs.number = present.run AND starts.number = present.run AND runs.ended_at IS NULL
        OFFSET 0
    ) AS receiver
    ORDER BY receiver.chain_id, present.number
),
taken AS (
    INSERT INTO holdfast.taken_events (event, namespace_id, chain_id)
    SELECT :event, :namespace_id, first.chain_id FROM first
    ON CONFLICT DO NOTHING
    RETURNING taken_events.chain_id
),
gone AS (
    DELETE FROM holdfast.waits
    WHERE waits.run = ANY (ARRAY(SELECT first.run FROM first))
        AND ((waits.run, waits.number) IN (
            SELECT first.run, first.number FROM first
            WHERE (first.chain_id IN (SELECT taken.chain_id FROM taken)) IS TRUE
        )) IS TRUE
)
INSERT INTO holdfast.inbox (run, lane_id, priority, kind, name, payload, sent_at, wait, trace)
SELECT first.run, first.lane_id, first.priority, 'event', first.name, :payload, :published_at, first.number, :trace
FROM first
WHERE (first.chain_id IN (SELECT taken.chain_id FROM taken)) IS TRUE
RETURNING inbox.run;

-- name: mark_matched
-- Note that events were looked at, and what later waits find them by. `IS NOT FALSE` keeps the indexes of the unmatched
-- out of the plan: they may hold a flood.
WITH marked AS (
    UPDATE holdfast.events
    SET unmatched = false,
        matched_at = coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
    WHERE events.id = ANY (:events::bigint[]) AND events.unmatched IS NOT FALSE
    RETURNING events.id, events.published_at, events.matched_at
),
noted AS (
    INSERT INTO holdfast.event_probes (published_at, event, matched_at, namespace_id, probe)
    SELECT marked.published_at, marked.id, marked.matched_at, :namespace_id, given.probe
    FROM marked
    JOIN unnest(:probed::bigint[], :probes::bytea[]) AS given (event, probe) ON given.event = marked.id
)
SELECT marked.id FROM marked;

-- name: mark_waits
-- Note that waits were looked at, unless they were registered anew meanwhile.
UPDATE holdfast.waits SET unmatched = false
WHERE waits.run = ANY (:runs::bigint[]) AND waits.unmatched
    AND ((waits.run, waits.number, waits.registered_at) IN (
        SELECT asked.run, asked.number, asked.registered_at
        FROM unnest(:runs::bigint[], :numbers::integer[], :registered_ats::bigint[])
            AS asked (run, number, registered_at)
    )) IS TRUE;

-- name: list_triggers
-- All declared versions of those workflows of which some version declares this event, and their queues as in
-- list_versions.
WITH wanted AS MATERIALIZED (
    SELECT DISTINCT one.workflow FROM holdfast.registered AS one
    WHERE one.namespace_id = :namespace_id AND one.on_event = :event
),
served AS MATERIALIZED (
    SELECT lane.value ->> 0 AS workflow, lane.value ->> 1 AS version, array_agg(DISTINCT lane.value ->> 2) AS queues
    FROM holdfast.workers
    CROSS JOIN json_array_elements(workers.lanes::json) AS lane (value)
    WHERE workers.namespace_id = :namespace_id
        AND workers.lease_until >= coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
        AND lane.value ->> 0 IN (SELECT wanted.workflow FROM wanted)
    GROUP BY lane.value ->> 0, lane.value ->> 1
)
SELECT registered.workflow, registered.version, registered.first_at, registered.declared, served.queues
FROM wanted
JOIN holdfast.registered ON registered.namespace_id = :namespace_id AND registered.workflow = wanted.workflow
LEFT JOIN served ON served.workflow = registered.workflow AND served.version = registered.version
WHERE registered.declared IS NOT NULL;

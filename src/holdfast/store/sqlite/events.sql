-- Events: publishing them, and how events and waits find each other.

-- name: publish_event
-- Keep events; a row of zeros is padding.
INSERT INTO events (namespace_id, name, payload, published_at, trace)
SELECT column1, column2, column3, column4, column5
FROM (VALUES (?, ?, ?, ?, ?))
WHERE column1 <> 0;

-- name: read_unmatched
-- Events that nobody has looked at.
SELECT id, name, payload, published_at, trace
FROM events
WHERE namespace_id = :namespace_id AND unmatched = 1 AND (published_at, id) > (:after_at, :after_id)
ORDER BY published_at, id LIMIT :limit;

-- name: read_unmatched_waits
-- Waits that nobody has looked at.
SELECT run, number, name, match, since, registered_at, probe
FROM waits
WHERE namespace_id = :namespace_id AND unmatched = 1 AND (run, number) > (:after_run, :after_number)
ORDER BY run, number LIMIT :limit;

-- name: find_waits
-- Waits that an event may match: a bounded walk for each of its probes, and then the first of all that were found.
SELECT waits.run, waits.number, waits.name, waits.match, waits.since, waits.registered_at, waits.probe,
    waits.unmatched AND EXISTS (
        SELECT 1 FROM events AS older
        WHERE older.namespace_id = :namespace_id AND older.name = :name AND older.published_at >= waits.since
            AND (older.published_at, older.id) < (:published_at, :event)
    )
FROM json_each(:probes) AS asked
CROSS JOIN waits ON waits.id IN (
    SELECT one.id FROM waits AS one
    WHERE one.namespace_id = :namespace_id AND one.name = :name AND one.probe = asked.value AND one.kind = 'event'
        AND (one.run, one.number) > (:after_run, :after_number) AND one.since <= :published_at
    ORDER BY one.run, one.number LIMIT :limit
)
ORDER BY waits.run, waits.number LIMIT :limit;

-- name: find_events
-- Events of a name that a chain has not taken, after a place.
SELECT events.id, events.name, events.payload, events.published_at, events.trace
FROM events
WHERE events.namespace_id = :namespace_id AND events.name = :name
    AND (events.published_at, events.id) > (:after_at, :after_id)
    AND NOT EXISTS (
        SELECT 1 FROM taken_events
        WHERE taken_events.namespace_id = :namespace_id AND taken_events.chain_id = :chain_id
            AND taken_events.event = events.id
    )
ORDER BY events.published_at, events.id LIMIT :limit;

-- name: find_newer_events
-- The same for a later look: events after the place up to which an earlier look has seen all, and events that have been
-- matched since, or are still unmatched. Whoever looks at those at this moment may not see this wait.
SELECT events.id, events.name, events.payload, events.published_at, events.trace
FROM events
WHERE events.id IN (
        SELECT newer.id FROM events AS newer INDEXED BY events_by_name
        WHERE newer.namespace_id = :namespace_id AND newer.name = :name
            AND (newer.published_at, newer.id) > (:after_at, :after_id)
            AND NOT EXISTS (
                SELECT 1 FROM taken_events
                WHERE taken_events.namespace_id = :namespace_id AND taken_events.chain_id = :chain_id
                    AND taken_events.event = newer.id
            )
        ORDER BY newer.published_at, newer.id LIMIT :limit
    )
    OR events.id IN (
        SELECT late.id FROM events AS late INDEXED BY events_by_match
        WHERE late.namespace_id = :namespace_id AND late.name = :name AND late.matched_at >= :matched_since
            AND late.published_at BETWEEN :since AND :after_at
            AND NOT EXISTS (
                SELECT 1 FROM taken_events
                WHERE taken_events.namespace_id = :namespace_id AND taken_events.chain_id = :chain_id
                    AND taken_events.event = late.id
            )
    )
    OR events.id IN (
        SELECT fresh.id FROM events AS fresh INDEXED BY events_unmatched_by_name
        WHERE fresh.namespace_id = :namespace_id AND fresh.unmatched = 1 AND fresh.name = :name
            AND fresh.published_at BETWEEN :since AND :after_at
            AND NOT EXISTS (
                SELECT 1 FROM taken_events
                WHERE taken_events.namespace_id = :namespace_id AND taken_events.chain_id = :chain_id
                    AND taken_events.event = fresh.id
            )
    )
ORDER BY events.published_at, events.id LIMIT :limit;

-- name: find_probed_events
-- Events that a wait with a probe may match and its chain has not taken: those that were matched, by their probes, after
-- a place; those before it that were matched since an earlier look; and those that are still unmatched, which have no
-- probes yet. One statement: an event that is just being marked is found either way.
SELECT events.id, events.name, events.payload, events.published_at, events.trace
FROM (
    SELECT newer.id
    FROM json_each(:probes) AS asked
    CROSS JOIN events AS newer ON newer.id IN (
        SELECT probed.event FROM event_probes AS probed
        WHERE probed.namespace_id = :namespace_id AND probed.probe = asked.value
            AND (probed.published_at, probed.event) > (:after_at, :after_id)
            AND NOT EXISTS (
                SELECT 1 FROM taken_events
                WHERE taken_events.namespace_id = :namespace_id AND taken_events.chain_id = :chain_id
                    AND taken_events.event = probed.event
            )
        ORDER BY probed.published_at, probed.event LIMIT :limit
    )
    UNION ALL
    SELECT late.event
    FROM json_each(:probes) AS asked
    CROSS JOIN event_probes AS late INDEXED BY event_probes_by_match ON late.namespace_id = :namespace_id
        AND late.probe = asked.value AND late.matched_at >= :matched_since
    WHERE late.published_at >= :since AND (late.published_at, late.event) <= (:after_at, :after_id)
        AND NOT EXISTS (
            SELECT 1 FROM taken_events
            WHERE taken_events.namespace_id = :namespace_id AND taken_events.chain_id = :chain_id
                AND taken_events.event = late.event
        )
    UNION ALL
    SELECT fresh.id FROM (
        SELECT one.id FROM events AS one INDEXED BY events_unmatched_by_name
        WHERE one.namespace_id = :namespace_id AND one.name = :name AND one.unmatched = 1
            AND (one.published_at, one.id) > (:unmatched_at, :unmatched_id)
            AND NOT EXISTS (
                SELECT 1 FROM taken_events
                WHERE taken_events.namespace_id = :namespace_id AND taken_events.chain_id = :chain_id
                    AND taken_events.event = one.id
            )
        ORDER BY one.published_at, one.id LIMIT :limit
    ) AS fresh
) AS found
CROSS JOIN events ON events.id = found.id
ORDER BY events.published_at, events.id LIMIT :limit;

-- name: find_open
-- Those of some waits that are still registered as they were, and whose chains have not taken the event: one a chain,
-- the first.
SELECT open.id, coalesce(starts.chain_id, runs.id), min(open.number)
FROM json_each(:waits) AS asked
CROSS JOIN waits AS open ON open.run = json_extract(asked.value, '$[0]')
    AND open.number = json_extract(asked.value, '$[1]') AND open.registered_at = json_extract(asked.value, '$[2]')
CROSS JOIN runs ON runs.number = open.run
CROSS JOIN starts ON starts.number = runs.number
WHERE open.kind = 'event' AND runs.ended_at IS NULL
    AND NOT EXISTS (
        SELECT 1 FROM taken_events
        WHERE taken_events.namespace_id = :namespace_id AND taken_events.chain_id = coalesce(starts.chain_id, runs.id)
            AND taken_events.event = :event
    )
GROUP BY coalesce(starts.chain_id, runs.id);

-- name: take_event
-- Note the chains that take an event.
INSERT INTO taken_events (namespace_id, chain_id, event)
SELECT :namespace_id, value, :event FROM json_each(:chains);

-- name: deliver_event
-- Put the event into the inboxes of the waits' runs.
INSERT INTO inbox (run, lane_id, priority, kind, name, payload, sent_at, wait, trace)
SELECT open.run, runs.lane_id, runs.priority, 'event', :name, :payload, :published_at, open.number, :trace
FROM json_each(:waits) AS asked
CROSS JOIN waits AS open ON open.id = asked.value
CROSS JOIN runs ON runs.number = open.run;

-- name: end_waits
-- Remove waits that have got their event.
DELETE FROM waits WHERE id IN (SELECT value FROM json_each(:waits));

-- name: mark_matched
-- Note that events were looked at.
UPDATE events SET unmatched = 0, matched_at = :now WHERE id IN (SELECT value FROM json_each(:ids)) AND unmatched = 1
RETURNING id;

-- name: note_probes
-- What later waits find these events by.
INSERT INTO event_probes (namespace_id, probe, published_at, event, matched_at)
SELECT events.namespace_id, json_extract(asked.value, '$[1]'), events.published_at, events.id, events.matched_at
FROM json_each(:probes) AS asked
CROSS JOIN events ON events.id = json_extract(asked.value, '$[0]');

-- name: mark_waits
-- Note that waits were looked at, unless they were registered anew meanwhile.
UPDATE waits SET unmatched = 0
WHERE id IN (
    SELECT seen.id
    FROM json_each(:waits) AS asked
    CROSS JOIN waits AS seen ON seen.run = json_extract(asked.value, '$[0]')
        AND seen.number = json_extract(asked.value, '$[1]') AND seen.registered_at = json_extract(asked.value, '$[2]')
);

-- name: list_triggers
-- All declared versions of those workflows of which some version declares this event, and their queues as in
-- list_versions.
WITH wanted (workflow) AS MATERIALIZED (
    SELECT DISTINCT one.workflow FROM registered AS one
    WHERE one.namespace_id = :namespace_id AND one.on_event = :event
),
served (workflow, version, queues) AS MATERIALIZED (
    SELECT json_extract(lane.value, '$[0]'), json_extract(lane.value, '$[1]'),
        json_group_array(DISTINCT json_extract(lane.value, '$[2]'))
    FROM workers
    CROSS JOIN json_each(workers.lanes) AS lane
    WHERE workers.namespace_id = :namespace_id AND workers.lease_until >= :now
        AND json_extract(lane.value, '$[0]') IN (SELECT wanted.workflow FROM wanted)
    GROUP BY json_extract(lane.value, '$[0]'), json_extract(lane.value, '$[1]')
)
SELECT registered.workflow, registered.version, registered.first_at, registered.declared, coalesce(served.queues, '[]')
FROM wanted
CROSS JOIN registered ON registered.namespace_id = :namespace_id AND registered.workflow = wanted.workflow
LEFT JOIN served ON served.workflow = registered.workflow AND served.version = registered.version
WHERE registered.declared IS NOT NULL;

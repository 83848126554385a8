-- Waits for events and hooks, and signals that have a schema. Whoever deletes a wait's row was first.

-- name: register_waits
-- Register the waits of turns. A wait that is registered anew with a number replaces the earlier one. A hook of this
-- run whose token was used is not opened again, and a token that another live run has given out stays with that run.
-- Waits for events begin as unmatched: another commit looks for events that exist already, so that publishing and
-- registering can't miss each other. If the same turn continues the run, only its hooks are registered. If it ends the
-- run, nothing is, and its hooks are remembered as ended, to tell whoever comes with their tokens.
WITH known AS MATERIALIZED (
    SELECT given.run, given.number, given.kind, given.name, given.match, given.probe, given.schema, given.token,
        given.expires_at, given.at, coalesce(starts.chain_started_at, runs.created_at) AS since,
        runs.ended_at IS NULL OR runs.status = 'continued' AND given.kind = 'hook' AS is_open
    FROM unnest(:runs::bigint[], :numbers::integer[], :kinds::text[], :names::text[], :matches::bytea[],
            :probes::bytea[], :schemas::bytea[], :tokens::text[], :expires_ats::bigint[], :ats::bigint[])
        AS given (run, number, kind, name, match, probe, schema, token, expires_at, at)
    JOIN holdfast.runs ON runs.number = given.run
    JOIN holdfast.starts ON starts.number = given.run
),
asked AS MATERIALIZED (
    SELECT known.run, known.number, known.kind, known.name, known.match, known.probe, known.schema, known.token,
        known.expires_at, known.at, known.since
    FROM known
    WHERE known.is_open
),
hung_up AS (
    INSERT INTO holdfast.used_hooks AS used (namespace_id, token, run, became)
    SELECT DISTINCT ON (known.token) :namespace_id, known.token, known.run, 'ended'
    FROM known
    WHERE NOT known.is_open AND known.token IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM holdfast.waits WHERE waits.namespace_id = :namespace_id AND waits.token = known.token OFFSET 0
    )
    ON CONFLICT (namespace_id, token) DO UPDATE SET run = excluded.run, became = excluded.became
        WHERE used.run <> excluded.run OR used.became <> 'used'
),
renewed AS (
    UPDATE holdfast.waits
    SET kind = asked.kind, name = asked.name, match = asked.match, probe = asked.probe, schema = asked.schema,
        token = asked.token, expires_at = asked.expires_at, registered_at = asked.at,
        unmatched = asked.kind = 'event'
    FROM asked
    WHERE waits.run = asked.run AND waits.number = asked.number
    RETURNING waits.run, waits.number
)
INSERT INTO holdfast.waits (run, number, namespace_id, kind, name, match, probe, schema, token, expires_at, registered_at,
    since, unmatched)
SELECT asked.run, asked.number, :namespace_id, asked.kind, asked.name, asked.match, asked.probe, asked.schema,
    asked.token, asked.expires_at, asked.at, asked.since, asked.kind = 'event'
FROM asked
WHERE NOT EXISTS (SELECT 1 FROM renewed WHERE renewed.run = asked.run AND renewed.number = asked.number)
    AND NOT EXISTS (
        SELECT 1 FROM holdfast.used_hooks
        WHERE used_hooks.namespace_id = :namespace_id AND used_hooks.token = asked.token
            AND used_hooks.run = asked.run AND used_hooks.became = 'used'
    )
ON CONFLICT DO NOTHING;

-- name: close_waits
-- Remove waits that are over. A hook is remembered as expired, to tell whoever comes with its token.
WITH closed AS (
    DELETE FROM holdfast.waits
    USING unnest(:runs::bigint[], :numbers::integer[]) AS asked (run, number)
    WHERE waits.run = asked.run AND waits.number = asked.number
    RETURNING waits.run, waits.token
)
INSERT INTO holdfast.used_hooks (namespace_id, token, run, became)
SELECT :namespace_id, closed.token, closed.run, 'expired' FROM closed WHERE closed.token IS NOT NULL
ON CONFLICT (namespace_id, token) DO UPDATE SET run = excluded.run, became = excluded.became;

-- name: find_hook
-- The open hook with this digest of a token.
SELECT runs.id, waits.number, waits.kind, waits.name, waits.match, waits.schema, waits.expires_at, waits.registered_at
FROM holdfast.waits
JOIN holdfast.runs ON runs.number = waits.run
WHERE waits.namespace_id = :namespace_id AND waits.token = :token;

-- name: read_waits
-- The waits of a chain's newest run. A hook that was resumed in a caller's transaction still has its row, and is left
-- out.
SELECT runs.id, waits.number, waits.kind, waits.name, waits.match, waits.schema, waits.expires_at, waits.registered_at
FROM holdfast.last_of_chain(:namespace_id, :id) AS last
JOIN holdfast.runs ON runs.number = last.number
JOIN holdfast.waits ON waits.run = last.number
WHERE waits.token IS NULL OR NOT EXISTS (
    SELECT 1 FROM holdfast.message_ids
    WHERE message_ids.namespace_id = :namespace_id AND message_ids.scope = 'hook/' || waits.token
        AND message_ids.id = chr(1) || last.chain_id
)
ORDER BY waits.number;

-- name: mark_hook
-- Mark an open hook: whoever does is first to resume it, and others wait for that commit. Turns never look at the mark,
-- so no turn waits for a caller's open transaction, as it would for a lock on the wait's row. The mark names the hook's
-- chain.
INSERT INTO holdfast.message_ids (namespace_id, scope, id, sent_at)
SELECT :namespace_id, 'hook/' || :token::text, chr(1) || coalesce(starts.chain_id, runs.id), :now
FROM holdfast.waits
JOIN holdfast.runs ON runs.number = waits.run
JOIN holdfast.starts ON starts.number = waits.run
WHERE waits.namespace_id = :namespace_id AND waits.token = :token
    AND (waits.expires_at IS NULL OR waits.expires_at > :now)
ON CONFLICT DO NOTHING
RETURNING message_ids.id;

-- name: unmark_hook
-- Remove the mark of a hook that was closed between the mark and the delete.
DELETE FROM holdfast.message_ids
WHERE message_ids.namespace_id = :namespace_id AND message_ids.scope = 'hook/' || :token::text
    AND message_ids.id = :mark;

-- name: see_hook
-- The columns of take_hook for a hook whose row is left alone.
SELECT waits.run, waits.number, waits.name
FROM holdfast.waits
WHERE waits.namespace_id = :namespace_id AND waits.token = :token;

-- name: take_hook
-- Delete the row of a hook that is being resumed. If its run is just continuing as new, this waits, and then the hook
-- is the successor's.
DELETE FROM holdfast.waits
WHERE waits.namespace_id = :namespace_id AND waits.token = :token
    AND (waits.expires_at IS NULL OR waits.expires_at > :now)
RETURNING waits.run, waits.number, waits.name;

-- name: settle_hook
-- Why a hook could not be resumed: whether its message id was sent before, whether somebody has marked it, whether its
-- row exists, and what became of it.
SELECT EXISTS (
        SELECT 1 FROM holdfast.message_ids
        WHERE message_ids.namespace_id = :namespace_id AND message_ids.scope = 'hook/' || :token::text
            AND message_ids.id = :message_id::text
    ),
    EXISTS (
        SELECT 1
        FROM (
            SELECT waits.run FROM holdfast.waits
            WHERE waits.namespace_id = :namespace_id AND waits.token = :token::text
            UNION ALL
            SELECT used_hooks.run FROM holdfast.used_hooks
            WHERE used_hooks.namespace_id = :namespace_id AND used_hooks.token = :token::text
        ) AS hooks
        JOIN holdfast.runs ON runs.number = hooks.run
        JOIN holdfast.starts ON starts.number = hooks.run
        JOIN holdfast.message_ids ON message_ids.namespace_id = :namespace_id
            AND message_ids.scope = 'hook/' || :token::text
            AND message_ids.id = chr(1) || coalesce(starts.chain_id, runs.id)
    ),
    EXISTS (SELECT 1 FROM holdfast.waits WHERE waits.namespace_id = :namespace_id AND waits.token = :token::text),
    (
        SELECT used_hooks.became FROM holdfast.used_hooks
        WHERE used_hooks.namespace_id = :namespace_id AND used_hooks.token = :token::text
    );

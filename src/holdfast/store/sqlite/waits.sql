-- Waits and hooks: what runs have registered, and tokens that are open no more.

-- name: register_waits
-- Register waits; a row of zeros is padding. A wait that is registered anew with a number replaces the earlier one. A
-- hook of this run whose token was used is not opened again, and a token that another live run has given out stays with
-- that run.
INSERT INTO waits (namespace_id, run, number, kind, name, match, probe, schema, token, expires_at, registered_at, since,
    unmatched)
SELECT runs.namespace_id, runs.number, column2, column3, column4, column5, column6, column7, column8, column9, column10,
    coalesce(starts.chain_started_at, runs.created_at), column3 = 'event'
FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?))
CROSS JOIN runs ON runs.number = column1
CROSS JOIN starts ON starts.number = runs.number
WHERE NOT EXISTS (
    SELECT 1 FROM used_hooks
    WHERE used_hooks.namespace_id = runs.namespace_id AND used_hooks.token = column8 AND used_hooks.run = runs.number
        AND used_hooks.became = 'used'
)
ON CONFLICT (run, number) DO UPDATE
SET kind = excluded.kind, name = excluded.name, match = excluded.match, probe = excluded.probe,
    schema = excluded.schema, token = excluded.token, expires_at = excluded.expires_at,
    registered_at = excluded.registered_at, unmatched = excluded.unmatched
ON CONFLICT DO NOTHING;

-- name: close_waits
-- Remove waits that are over.
DELETE FROM waits
WHERE id IN (
    SELECT closed.id
    FROM json_each(:waits) AS asked
    CROSS JOIN waits AS closed ON closed.run = json_extract(asked.value, '$[0]')
        AND closed.number = json_extract(asked.value, '$[1]')
)
RETURNING token, run;

-- name: drop_waits
-- Remove the waits of runs that have ended.
DELETE FROM waits WHERE run IN (SELECT value FROM json_each(:runs)) RETURNING token, run;

-- name: bury_hooks
-- Remember why hooks are no longer open; a row of zeros is padding.
INSERT INTO used_hooks (namespace_id, token, run, became)
SELECT column1, column2, column3, column4
FROM (VALUES (?, ?, ?, ?))
WHERE column1 <> 0
ON CONFLICT (namespace_id, token) DO UPDATE SET run = excluded.run, became = excluded.became;

-- name: move_hooks
-- Open hooks of a run that goes on in another are the other's. No other hook of the chain has their numbers.
UPDATE waits SET run = :successor WHERE run = :run AND token IS NOT NULL;

-- name: find_hook
-- The open hook with a token.
SELECT runs.id, waits.number, waits.kind, waits.name, waits.match, waits.schema, waits.expires_at, waits.registered_at,
    waits.id, waits.run
FROM waits
CROSS JOIN runs ON runs.number = waits.run
WHERE waits.namespace_id = :namespace_id AND waits.token = :token;

-- name: find_used_hook
-- What became of a hook that is no longer open.
SELECT became FROM used_hooks WHERE namespace_id = :namespace_id AND token = :token;

-- name: resume_hook
-- The delete that decides who was first.
DELETE FROM waits WHERE id = :id;

-- name: read_waits
-- The waits of a run, in the order in which it asked for them.
SELECT runs.id, waits.number, waits.kind, waits.name, waits.match, waits.schema, waits.expires_at, waits.registered_at
FROM waits
CROSS JOIN runs ON runs.number = waits.run
WHERE waits.run = :run
ORDER BY waits.number;

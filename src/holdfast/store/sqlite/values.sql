-- Values and streams: live state of chains.

-- name: set_value
-- Set values; a row of zeros is padding.
INSERT INTO chain_values (namespace_id, chain_id, name, value, set_at)
SELECT column1, column2, column3, column4, column5
FROM (VALUES (?, ?, ?, ?, ?))
WHERE column1 <> 0
ON CONFLICT (namespace_id, chain_id, name) DO UPDATE SET value = excluded.value, set_at = excluded.set_at;

-- name: read_value
-- One value.
SELECT value FROM chain_values WHERE namespace_id = :namespace_id AND chain_id = :chain_id AND name = :name;

-- name: list_values
-- The names of a chain's values after a name.
SELECT name, length(value), set_at
FROM chain_values
WHERE namespace_id = :namespace_id AND chain_id = :chain_id AND name > :after
ORDER BY name LIMIT :limit;

-- name: last_place
-- Where a stream ends.
SELECT coalesce(max(place), 0) FROM stream_items
WHERE namespace_id = :namespace_id AND chain_id = :chain_id AND stream = :stream;

-- name: find_sender
-- The run whose step sends something, and its chain, unless the run was claimed since.
SELECT runs.number, coalesce(starts.chain_id, runs.id)
FROM runs
CROSS JOIN starts ON starts.number = runs.number
WHERE runs.namespace_id = :namespace_id AND runs.id = :id AND runs.epoch <= :epoch;

-- name: last_item
-- The last execution of a step that has sent anything, and the number of its last item.
SELECT epoch, attempt, number FROM stream_items
WHERE run = :run AND stream = :stream AND step = :step
ORDER BY epoch DESC, attempt DESC, number DESC LIMIT 1;

-- name: was_retried
-- Whether a step has sent anything in a run that this one retries. Those are of the same chain; a fork has another
-- chain.
WITH RECURSIVE earlier (run, forked_from) AS (
    SELECT number, forked_from FROM starts WHERE number = :run
    UNION ALL
    SELECT runs.number, starts.forked_from
    FROM earlier
    CROSS JOIN runs ON runs.namespace_id = :namespace_id AND runs.id = earlier.forked_from
    CROSS JOIN starts ON starts.number = runs.number
    WHERE coalesce(starts.chain_id, runs.id) = :chain_id
)
SELECT 1 FROM earlier
CROSS JOIN stream_items ON stream_items.run = earlier.run AND stream_items.stream = :stream AND stream_items.step = :step
LIMIT 1;

-- name: append_items
-- Items at the end of streams; a row of zeros is padding.
INSERT INTO stream_items (namespace_id, chain_id, stream, place, run, step, attempt, epoch, number, at, reset, payload)
SELECT column1, column2, column3, column4, column5, column6, column7, column8, column9, column10, column11, column12
FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?))
WHERE column1 <> 0;

-- name: read_items
-- Items after a place.
SELECT place, payload, step, attempt, at, reset, (
    SELECT coalesce(starts.origin_id, starts.chain_id, runs.id)
    FROM runs
    CROSS JOIN starts ON starts.number = runs.number
    WHERE runs.number = stream_items.run
)
FROM stream_items
WHERE namespace_id = :namespace_id AND chain_id = :chain_id AND stream = :stream AND place > :after
ORDER BY place LIMIT :limit;

-- name: list_streams
-- The streams after a name, and where each ends. It goes from one name to the next by the index, past all items.
WITH RECURSIVE found (stream) AS (
    SELECT min(stream) FROM stream_items
    WHERE namespace_id = :namespace_id AND chain_id = :chain_id AND stream > :after
    UNION ALL
    SELECT (
        SELECT min(stream) FROM stream_items
        WHERE namespace_id = :namespace_id AND chain_id = :chain_id AND stream > found.stream
    )
    FROM found
    WHERE found.stream IS NOT NULL
    LIMIT :limit
)
SELECT found.stream, (
    SELECT max(place) FROM stream_items
    WHERE namespace_id = :namespace_id AND chain_id = :chain_id AND stream = found.stream
)
FROM found
WHERE found.stream IS NOT NULL;

-- Values and streams: live state that belongs to a chain.

-- name: set_value
-- Set a value. Nothing is set if the run was claimed since.
INSERT INTO holdfast.chain_values (namespace_id, chain_id, name, value, set_at)
SELECT :namespace_id, coalesce(starts.chain_id, runs.id), :name, :value,
    coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
FROM holdfast.runs
JOIN holdfast.starts ON starts.number = runs.number
WHERE runs.namespace_id = :namespace_id AND runs.id = :id AND runs.epoch <= :epoch
ON CONFLICT (namespace_id, chain_id, name) DO UPDATE SET value = excluded.value, set_at = excluded.set_at;

-- name: set_values
-- Set the values of turns, one for each run and name. They are written in the order of their keys, so that two commits
-- that set the same ones wait in line.
INSERT INTO holdfast.chain_values (namespace_id, chain_id, name, value, set_at)
SELECT :namespace_id, coalesce(starts.chain_id, runs.id), asked.name, asked.value, asked.at
FROM unnest(:runs::bigint[], :names::text[], :values::bytea[], :ats::bigint[]) AS asked (run, name, value, at)
JOIN holdfast.runs ON runs.number = asked.run
JOIN holdfast.starts ON starts.number = asked.run
ORDER BY coalesce(starts.chain_id, runs.id), asked.name
ON CONFLICT (namespace_id, chain_id, name) DO UPDATE SET value = excluded.value, set_at = excluded.set_at;

-- name: read_value
-- One value.
SELECT chain_values.value
FROM holdfast.last_of_chain(:namespace_id, :id) AS last
JOIN holdfast.chain_values ON chain_values.namespace_id = :namespace_id AND chain_values.chain_id = last.chain_id
    AND chain_values.name = :name;

-- name: list_values
-- A chain's values after a name, ordered by code points whatever the database's collation is.
SELECT chain_values.name, length(chain_values.value), chain_values.set_at
FROM holdfast.last_of_chain(:namespace_id, :id) AS last
JOIN holdfast.chain_values ON chain_values.namespace_id = :namespace_id AND chain_values.chain_id = last.chain_id
WHERE chain_values.name COLLATE "C" > :after::text
ORDER BY chain_values.name COLLATE "C" LIMIT :limit::integer;

-- name: hold_stream
-- Lock a stream's row, so that others who add items wait, and a later statement sees what was added before.
INSERT INTO holdfast.streams (namespace_id, chain_id, stream, last)
SELECT :namespace_id, coalesce(starts.chain_id, runs.id), :stream, 0
FROM holdfast.runs
JOIN holdfast.starts ON starts.number = runs.number
WHERE runs.namespace_id = :namespace_id AND runs.id = :id AND runs.epoch <= :epoch
ON CONFLICT (namespace_id, chain_id, stream) DO UPDATE SET last = streams.last
RETURNING streams.chain_id, streams.last, (
    SELECT runs.number FROM holdfast.runs WHERE runs.namespace_id = :namespace_id AND runs.id = :id
);

-- name: append_items
-- Add those items of a step's execution that come after the last one it has sent. The first item is marked as reset if
-- an earlier execution of the step has sent any, in this run or in one of the chain that this run retries. Nothing is
-- added if a later execution has sent items, or the run was claimed since.
WITH RECURSIVE retried (run, forked_from) AS (
    SELECT starts.number, starts.forked_from FROM holdfast.starts WHERE starts.number = :run::bigint
    UNION ALL
    SELECT found.number, starts.forked_from
    FROM retried
    CROSS JOIN LATERAL (
        SELECT runs.number, runs.id FROM holdfast.runs
        WHERE runs.namespace_id = :namespace_id AND runs.id = retried.forked_from OFFSET 0
    ) AS found
    JOIN holdfast.starts ON starts.number = found.number
    WHERE coalesce(starts.chain_id, found.id) = :chain_id::text
),
earlier AS MATERIALIZED (
    SELECT stream_items.epoch, stream_items.attempt, stream_items.number
    FROM holdfast.stream_items
    WHERE stream_items.run = :run::bigint AND stream_items.stream = :stream::text AND stream_items.step = :step::text
    ORDER BY stream_items.epoch DESC, stream_items.attempt DESC, stream_items.number DESC LIMIT 1
),
asked AS MATERIALIZED (
    SELECT given.payload, given.number, row_number() OVER (ORDER BY given.number) AS place,
        (earlier.epoch, earlier.attempt) < (:epoch::integer, :attempt::integer) AS resets
    FROM (
        SELECT unnested.payload, :number::integer + unnested.place::integer - 1 AS number
        FROM unnest(:payloads::bytea[]) WITH ORDINALITY AS unnested (payload, place)
    ) AS given
    LEFT JOIN earlier ON true
    WHERE (SELECT runs.epoch FROM holdfast.runs WHERE runs.number = :run::bigint) <= :epoch::integer AND (
        earlier.epoch IS NULL
        OR (earlier.epoch, earlier.attempt, earlier.number) < (:epoch::integer, :attempt::integer, given.number)
    )
),
added AS (
    INSERT INTO holdfast.stream_items (namespace_id, chain_id, stream, place, run, at, step, attempt, epoch, number,
        payload, reset)
    SELECT :namespace_id, :chain_id::text, :stream::text, :last::bigint + asked.place, :run::bigint,
        coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint), :step::text,
        :attempt::integer, :epoch::integer, asked.number, asked.payload,
        asked.place = 1 AND coalesce(asked.resets, EXISTS (
            SELECT FROM retried
            JOIN holdfast.stream_items ON stream_items.run = retried.run
                AND stream_items.stream = :stream::text AND stream_items.step = :step::text
        ))
    FROM asked
    RETURNING stream_items.place
)
UPDATE holdfast.streams SET last = streams.last + (SELECT count(*) FROM added)
WHERE streams.namespace_id = :namespace_id AND streams.chain_id = :chain_id::text AND streams.stream = :stream::text;

-- name: append_given
-- Add the items of turns, in order, to any number of streams.
WITH asked AS MATERIALIZED (
    SELECT coalesce(starts.chain_id, runs.id) AS chain_id, given.stream, given.payload, given.at, given.place,
        given.run
    FROM unnest(:runs::bigint[], :streams::text[], :payloads::bytea[], :ats::bigint[]) WITH ORDINALITY
        AS given (run, stream, payload, at, place)
    JOIN holdfast.runs ON runs.number = given.run
    JOIN holdfast.starts ON starts.number = given.run
),
counted AS (
    INSERT INTO holdfast.streams (namespace_id, chain_id, stream, last)
    SELECT :namespace_id, asked.chain_id, asked.stream, count(*)
    FROM asked GROUP BY asked.chain_id, asked.stream ORDER BY asked.chain_id, asked.stream
    ON CONFLICT (namespace_id, chain_id, stream) DO UPDATE SET last = streams.last + excluded.last
    RETURNING streams.chain_id, streams.stream, streams.last
)
INSERT INTO holdfast.stream_items (namespace_id, chain_id, stream, place, run, at, step, attempt, epoch, number, payload,
    reset)
SELECT :namespace_id, asked.chain_id, asked.stream,
    counted.last + 1 - row_number() OVER (PARTITION BY asked.chain_id, asked.stream ORDER BY asked.place DESC),
    asked.run, asked.at, NULL, 0, 0, 0, asked.payload, false
FROM asked
JOIN counted ON counted.chain_id = asked.chain_id AND counted.stream = asked.stream;

-- name: read_items
-- Items after an offset: a bounded walk along the index. As a join, each page would sort all that come after it.
SELECT item.place, item.payload, item.step, item.attempt, item.at, item.reset, (
        SELECT coalesce(starts.origin_id, starts.chain_id, runs.id)
        FROM holdfast.runs
        JOIN holdfast.starts ON starts.number = runs.number
        WHERE runs.number = item.run
    )
FROM holdfast.last_of_chain(:namespace_id, :id) AS last
CROSS JOIN LATERAL (
    SELECT stream_items.place, stream_items.payload, stream_items.step, stream_items.attempt, stream_items.at,
        stream_items.reset, stream_items.run
    FROM holdfast.stream_items
    WHERE stream_items.namespace_id = :namespace_id AND stream_items.chain_id = last.chain_id
        AND stream_items.stream = :stream AND stream_items.place > :after::bigint
    ORDER BY stream_items.place LIMIT :limit::integer
) AS item
ORDER BY item.place;

-- name: list_streams
-- The streams after a name, and where each ends, which their rows say, unlike SQLite's. A stream whose row was only
-- locked has no items.
SELECT streams.stream, streams.last
FROM holdfast.last_of_chain(:namespace_id, :id) AS last
JOIN holdfast.streams ON streams.namespace_id = :namespace_id AND streams.chain_id = last.chain_id
WHERE streams.last > 0 AND streams.stream COLLATE "C" > :after::text
ORDER BY streams.stream COLLATE "C" LIMIT :limit::integer;

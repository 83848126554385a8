-- Messages: what goes into inboxes. A sender only inserts.
-- A message for a run that continues as new meanwhile must reach its successor, and in order. So a sender holds the row of
-- the run that it writes to FOR KEY SHARE, which stalls nobody but the commit that continues that run: that one takes it
-- FOR UPDATE and moves the inbox in a later statement. A sender that comes second sees that its run was continued and
-- looks again. What is sent by statements that can't look again (ends) is moved on by move_strays.
-- In a caller's own transaction nothing is held: it may stay open for long, and would keep others waiting. What was sent to
-- a run that is continued until the caller commits is moved on like that, too, and so that run is not removed before.
-- Whoever reads what came for a successor moves them first: they were there before what was sent to it later.

-- name: hold_chain
-- Until a caller's own transaction ends, no run of this chain is removed while the chain lives on: see hold_chains. Nobody
-- else looks at this. Many chains share a lock: a caller may send to more of them than a server has room for locks. Answers
-- whether the transaction sees nothing younger than itself: see refuse_removed.
SELECT pg_advisory_xact_lock_shared(
        hashtext('holdfast.chains/' || :namespace_id::integer), hashtext(coalesce(starts.chain_id, asked.id)) & 255
    ), current_setting('transaction_isolation') IN ('repeatable read', 'serializable')
FROM (SELECT :id::text AS id) AS asked
LEFT JOIN holdfast.runs ON runs.namespace_id = :namespace_id AND runs.id = asked.id
LEFT JOIN holdfast.starts ON starts.number = runs.number;

-- name: refuse_removed
-- A transaction that sees nothing younger than itself may see a run that is gone. To lock it is a serialization failure then,
-- as to any other write there. Turns never lock this row, and the lock is let go at once: see begin_look.
SELECT starts.number
FROM holdfast.last_of_chain(:namespace_id, :id) AS last
JOIN holdfast.starts ON starts.number = last.number
FOR KEY SHARE OF starts;

-- name: begin_look
-- What is locked from here on is let go by undo_look.
SAVEPOINT look_of_holdfast;

-- name: undo_look
-- Let go of what was locked since.
ROLLBACK TO SAVEPOINT look_of_holdfast;

-- name: end_look
-- As if it had never begun.
RELEASE SAVEPOINT look_of_holdfast;

-- name: send_signal
-- One signal for the newest run of a chain, which is held unless this is a caller's transaction, unless its id was sent
-- before. Answers the run's status, null if it is live; whether it was sent; whether its id is known; and the run.
WITH clock AS MATERIALIZED (
    SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
),
last AS MATERIALIZED (
    SELECT found.number, found.chain_id FROM holdfast.last_of_chain(:namespace_id, :id) AS found
),
held AS MATERIALIZED (
    SELECT runs.number, runs.lane_id, runs.ended_at, runs.status, last.chain_id
    FROM last
    JOIN holdfast.runs ON runs.number = last.number
    WHERE :is_held::boolean
    FOR KEY SHARE OF runs
),
target AS MATERIALIZED (
    SELECT held.number, held.lane_id, held.ended_at, held.status, held.chain_id FROM held
    UNION ALL
    SELECT runs.number, runs.lane_id, runs.ended_at, runs.status, last.chain_id
    FROM last
    JOIN holdfast.runs ON runs.number = last.number
    WHERE NOT :is_held::boolean
),
remembered AS (
    INSERT INTO holdfast.message_ids (namespace_id, scope, id, sent_at)
    SELECT :namespace_id, 'signal/' || target.chain_id, :message_id::text, clock.now
    FROM clock, target
    WHERE target.ended_at IS NULL AND :message_id::text IS NOT NULL
    ON CONFLICT DO NOTHING
    RETURNING message_ids.id
),
sent AS (
    INSERT INTO holdfast.inbox (run, lane_id, kind, name, payload, sent_at, trace)
    SELECT target.number, target.lane_id, 'signal', :name, :payload, clock.now, :trace
    FROM clock, target
    WHERE target.ended_at IS NULL AND (:message_id::text IS NULL OR EXISTS (SELECT 1 FROM remembered))
    RETURNING inbox.id
)
SELECT CASE WHEN target.ended_at IS NOT NULL THEN target.status END, EXISTS (SELECT 1 FROM sent), EXISTS (
    SELECT 1 FROM holdfast.message_ids
    WHERE message_ids.namespace_id = :namespace_id AND message_ids.scope = 'signal/' || target.chain_id
        AND message_ids.id = :message_id::text
), target.number
FROM target;

-- name: send_signals
-- Signals that turns give out, in order, to the newest runs of chains. Answers the places of those whose run was
-- continued, and the run: if that was while this statement waited for it, they are sent again. They are as old as this
-- statement, not as the turn, which may have been long on its way. Each run is looked up for itself, and so in send_cancels:
-- as joins, the chain of each id would be looked for anew with each run.
WITH clock AS MATERIALIZED (
    SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
),
asked AS MATERIALIZED (
    SELECT given.place, given.name, given.payload, given.trace, last.number
    FROM unnest(:places::integer[], :ids::text[], :names::text[], :payloads::bytea[], :traces::text[])
        AS given (place, id, name, payload, trace)
    CROSS JOIN LATERAL holdfast.last_of_chain(:namespace_id, given.id) AS last
),
met AS MATERIALIZED (
    SELECT asked.place, asked.name, asked.payload, asked.trace, target.number, target.lane_id, target.ended_at,
        target.status
    FROM (
        SELECT asked.place, asked.name, asked.payload, asked.trace, asked.number FROM asked ORDER BY asked.number
    ) AS asked
    CROSS JOIN LATERAL (
        SELECT runs.number, runs.lane_id, runs.ended_at, runs.status
        FROM holdfast.runs WHERE runs.number = asked.number OFFSET 0
        FOR KEY SHARE
    ) AS target
),
sent AS (
    INSERT INTO holdfast.inbox (run, lane_id, kind, name, payload, sent_at, trace)
    SELECT met.number, met.lane_id, 'signal', met.name, met.payload, clock.now, met.trace
    FROM clock
    CROSS JOIN met
    WHERE met.ended_at IS NULL
    ORDER BY met.place
)
SELECT met.place, met.number FROM met WHERE met.status = 'continued' ORDER BY met.place;

-- name: count_unread
-- Messages of a run that no turn has taken, by kind and name, but for what is not its body's to read.
SELECT inbox.kind, inbox.name, count(*)
FROM holdfast.runs
JOIN holdfast.inbox ON inbox.run = runs.number
WHERE runs.namespace_id = :namespace_id AND runs.id = :id AND NOT inbox.taken AND inbox.kind NOT IN ('cancel', 'pause')
GROUP BY inbox.kind, inbox.name
ORDER BY min(inbox.id)
LIMIT 100;

-- name: send_cancels
-- Cancels that turns give out, for live children, once in a run's life. Whoever has only joined a run has no say in that.
INSERT INTO holdfast.inbox (run, lane_id, kind, payload, sent_at)
SELECT child.number, child.lane_id, 'cancel', ''::bytea,
    coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
FROM (
    SELECT given.parent, last.number
    FROM unnest(:parents::bigint[], :ids::text[]) AS given (parent, id)
    CROSS JOIN LATERAL holdfast.last_of_chain(:namespace_id, given.id) AS last
    OFFSET 0
) AS asked
CROSS JOIN LATERAL (
    SELECT runs.number, runs.lane_id
    FROM holdfast.runs
    WHERE runs.number = asked.number AND runs.ended_at IS NULL AND (
        SELECT starts.parent_id FROM holdfast.starts WHERE starts.number = asked.number
    ) = (
        SELECT parent.id FROM holdfast.runs AS parent WHERE parent.number = asked.parent
    )
    OFFSET 0
) AS child
ON CONFLICT DO NOTHING;

-- name: send_hook
-- A payload for a hook whose row was just deleted, by a later statement: its run may have been continued until then.
-- Should the run have ended, move_strays sees to it. In a caller's own transaction the row is still
-- there, and what became of the hook is told by its mark.
WITH used AS (
    INSERT INTO holdfast.used_hooks (namespace_id, token, run, became)
    SELECT :namespace_id, :token::text, :run::bigint, 'used' WHERE :is_taken::boolean
    ON CONFLICT (namespace_id, token) DO UPDATE SET run = excluded.run, became = excluded.became
),
remembered AS (
    INSERT INTO holdfast.message_ids (namespace_id, scope, id, sent_at)
    SELECT :namespace_id, 'hook/' || :token::text, :message_id::text, :now WHERE :message_id::text IS NOT NULL
    ON CONFLICT DO NOTHING
)
INSERT INTO holdfast.inbox (run, lane_id, kind, name, payload, sent_at, wait, trace)
SELECT runs.number, runs.lane_id, 'hook', :name, :payload, :now, :wait, :trace
FROM holdfast.runs
WHERE runs.number = :run;

-- name: send_pauses
-- A pause or its end, for the runs among these that somebody holds. The last word counts.
WITH earlier AS (
    DELETE FROM holdfast.inbox WHERE inbox.run = ANY (:runs::bigint[]) AND inbox.kind = 'pause'
)
INSERT INTO holdfast.inbox (run, lane_id, kind, payload, sent_at)
SELECT runs.number, runs.lane_id, 'pause', :payload, :now
FROM holdfast.runs
WHERE runs.number = ANY (:runs::bigint[]) AND runs.owner IS NOT NULL;

-- name: move_unread
-- What runs had not read when they failed or were cancelled is read by those that retry them, which are due by themselves.
-- Of one that was retried before, the newest run of the chain has it.
UPDATE holdfast.inbox
SET run = moved.run, lane_id = moved.lane_id, fresh = false
FROM unnest(:ids::text[], :chain_ids::text[], :runs::bigint[], :lanes::integer[]) AS moved (id, chain_id, run, lane_id)
CROSS JOIN LATERAL (
    SELECT runs.number FROM holdfast.runs
    WHERE runs.namespace_id = :namespace_id AND runs.id = moved.id AND runs.ended_at IS NOT NULL
    UNION
    SELECT last.number
    FROM (
        SELECT newer.number FROM holdfast.starts AS newer
        WHERE newer.chain_id = moved.chain_id AND newer.number + 0 < moved.run AND EXISTS (
            SELECT 1 FROM holdfast.runs AS one
            WHERE one.number = newer.number AND one.namespace_id = :namespace_id OFFSET 0
        )
        ORDER BY newer.number + 0 DESC LIMIT 1
    ) AS last
    WHERE EXISTS (
        SELECT 1 FROM holdfast.runs AS one WHERE one.number = last.number AND one.ended_at IS NOT NULL OFFSET 0
    )
) AS ended
WHERE inbox.run = ended.number AND NOT inbox.taken AND inbox.kind IN ('signal', 'event', 'hook');

-- name: move_messages
-- What a continued run had not read goes to its successor, and wakes it. Of waits, it knows hooks by their numbers. Ends of
-- children that it did not ask for are not for it; they go, and so does what was for the run's owner alone.
WITH spent AS (
    DELETE FROM holdfast.inbox
    WHERE inbox.run = ANY (:runs::bigint[]) AND (inbox.taken OR inbox.kind NOT IN ('signal', 'event', 'hook', 'cancel'))
)
UPDATE holdfast.inbox
SET run = successor.number, lane_id = successor.lane_id, fresh = true,
    wait = CASE WHEN inbox.kind = 'hook' THEN inbox.wait END
FROM unnest(:runs::bigint[], :successors::bigint[]) AS moved (run, successor)
JOIN holdfast.runs AS successor ON successor.number = moved.successor
WHERE inbox.run = moved.run AND NOT inbox.taken AND inbox.kind IN ('signal', 'event', 'hook', 'cancel');

-- name: move_strays
-- Messages that arrived for a run after its end: the commit that ended it could not see them, nor they that commit. They
-- go to the newest run of the chain if that run is live. If it is not, they stay, without waking anybody, with a run that
-- can be retried, and are dropped otherwise. Ends of children are always dropped, and so is what arrived for a run that
-- was deleted before the sender committed. A cancel is dropped where the newest run has one. What is moved keeps its id,
-- and so its order. `IS NOT FALSE` keeps the index of the fresh, of which there may be many, out of these plans.
WITH strays AS MATERIALIZED (
    SELECT sent.id, runs.status IN ('failed', 'cancelled') AND sent.kind IN ('signal', 'event', 'hook') AND NOT EXISTS (
            SELECT 1
            FROM holdfast.last_of_chain(:namespace_id, runs.id) AS last
            JOIN holdfast.runs AS live ON live.number = last.number
            WHERE live.ended_at IS NULL
        ) AS is_kept
    FROM holdfast.lanes
    CROSS JOIN LATERAL (
        SELECT inbox.id, inbox.run, inbox.kind FROM holdfast.inbox
        WHERE inbox.lane_id = lanes.id AND inbox.fresh AND inbox.sent_at >= :floor::bigint OFFSET 0
    ) AS sent
    LEFT JOIN holdfast.runs ON runs.number = sent.run
    WHERE lanes.namespace_id = :namespace_id AND (runs.number IS NULL OR runs.ended_at IS NOT NULL)
),
kept AS (
    UPDATE holdfast.inbox SET fresh = false
    WHERE inbox.id = ANY (ARRAY(SELECT found.id FROM strays AS found WHERE found.is_kept)) AND inbox.fresh IS NOT FALSE
),
removed AS (
    DELETE FROM holdfast.inbox
    WHERE inbox.id = ANY (ARRAY(SELECT found.id FROM strays AS found WHERE found.is_kept IS NOT TRUE))
        AND inbox.fresh IS NOT FALSE
    RETURNING inbox.id, inbox.run, inbox.kind, inbox.name, inbox.payload, inbox.sent_at, inbox.wait, inbox.trace
)
INSERT INTO holdfast.inbox (id, run, lane_id, kind, name, payload, sent_at, wait, trace)
OVERRIDING SYSTEM VALUE
SELECT removed.id, live.number, live.lane_id, removed.kind, removed.name, removed.payload, removed.sent_at,
    CASE WHEN removed.kind = 'hook' THEN removed.wait END, removed.trace
FROM removed
JOIN holdfast.runs AS ended ON ended.number = removed.run
CROSS JOIN LATERAL holdfast.last_of_chain(:namespace_id, ended.id) AS last
JOIN holdfast.runs AS live ON live.number = last.number
WHERE live.ended_at IS NULL AND removed.kind IN ('signal', 'event', 'hook', 'cancel')
ON CONFLICT DO NOTHING
RETURNING inbox.run;

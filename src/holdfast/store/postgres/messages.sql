-- Messages: what is put into inboxes. A sender only inserts.
-- A message to a run that continues as new at the same time must reach its successor, and in order. So a sender holds
-- the row of the run that it writes to FOR KEY SHARE. This holds up nobody but the commit that continues that run,
-- which takes the row FOR UPDATE and moves the inbox by a later statement. A sender that comes second sees that its run
-- was continued, and looks again. Messages of statements that can't look again (ends) are moved on by move_strays. A
-- caller's own transaction holds no run: it may stay open for long, and others would have to wait. If a run continues
-- before the caller commits, move_strays moves on what the caller has sent to it; until then the run is not removed.
-- Whoever reads the inbox of a successor first calls move_strays, since strays were sent before what the successor was
-- sent itself.

-- name: hold_chain
-- Until a caller's own transaction ends, keep the runs of this chain from being removed while the chain lives on: see
-- hold_chains, which alone looks at this lock. Many chains share one lock, since a caller may send to more chains than
-- the server has room for locks. Answers whether the transaction sees nothing younger than itself: see refuse_removed.
SELECT pg_advisory_xact_lock_shared(
        hashtext('holdfast.chains/' || :namespace_id::integer), hashtext(coalesce(starts.chain_id, asked.id)) & 255
    ), current_setting('transaction_isolation') IN ('repeatable read', 'serializable')
FROM (SELECT :id::text AS id) AS asked
LEFT JOIN holdfast.runs ON runs.namespace_id = :namespace_id AND runs.id = asked.id
LEFT JOIN holdfast.starts ON starts.number = runs.number;

-- name: refuse_removed
-- Lock a row of the run that is sent to. A transaction that sees nothing younger than itself may still see a run that
-- was removed: then this is a serialization failure, as any other write to the row would be. Turns never lock this row,
-- and the lock is released at once: see begin_look.
SELECT starts.number
FROM holdfast.last_of_chain(:namespace_id, :id) AS last
JOIN holdfast.starts ON starts.number = last.number
FOR KEY SHARE OF starts;

-- name: begin_look
-- Locks that are taken from here on are released by undo_look.
SAVEPOINT look_of_holdfast;

-- name: undo_look
-- Release the locks that were taken since.
ROLLBACK TO SAVEPOINT look_of_holdfast;

-- name: end_look
-- Forget the savepoint.
RELEASE SAVEPOINT look_of_holdfast;

-- name: send_signal
-- Send one signal to the newest run of a chain, unless its message id was sent before. Outside a caller's transaction
-- the run is held. Answers the run's status (null if it is live), whether the signal was sent, whether its message id
-- is known, and the run's number.
WITH clock AS MATERIALIZED (
    SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
),
last AS MATERIALIZED (
    SELECT found.number, found.chain_id FROM holdfast.last_of_chain(:namespace_id, :id) AS found
),
held AS MATERIALIZED (
    SELECT runs.number, runs.lane_id, runs.priority, runs.ended_at, runs.status, last.chain_id
    FROM last
    JOIN holdfast.runs ON runs.number = last.number
    WHERE :is_held::boolean
    FOR KEY SHARE OF runs
),
target AS MATERIALIZED (
    SELECT held.number, held.lane_id, held.priority, held.ended_at, held.status, held.chain_id FROM held
    UNION ALL
    SELECT runs.number, runs.lane_id, runs.priority, runs.ended_at, runs.status, last.chain_id
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
    INSERT INTO holdfast.inbox (run, lane_id, priority, kind, name, payload, sent_at, trace)
    SELECT target.number, target.lane_id, target.priority, 'signal', :name, :payload, clock.now, :trace
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
-- Send the signals of turns, in order, to the newest runs of chains. Answers the places of signals whose run had
-- continued, and the run's number: if it continued while this statement waited for it, they are sent again. Signals get
-- the time of this statement, not of the turn, which may have been long on its way. Each run is looked up by itself, as
-- in send_cancels: as a join, the chain of each id would be looked for anew with each run.
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
    SELECT asked.place, asked.name, asked.payload, asked.trace, target.number, target.lane_id, target.priority,
        target.ended_at, target.status
    FROM (
        SELECT asked.place, asked.name, asked.payload, asked.trace, asked.number FROM asked ORDER BY asked.number
    ) AS asked
    CROSS JOIN LATERAL (
        SELECT runs.number, runs.lane_id, runs.priority, runs.ended_at, runs.status
        FROM holdfast.runs WHERE runs.number = asked.number OFFSET 0
        FOR KEY SHARE
    ) AS target
),
sent AS (
    INSERT INTO holdfast.inbox (run, lane_id, priority, kind, name, payload, sent_at, trace)
    SELECT met.number, met.lane_id, met.priority, 'signal', met.name, met.payload, clock.now, met.trace
    FROM clock
    CROSS JOIN met
    WHERE met.ended_at IS NULL
    ORDER BY met.place
)
SELECT met.place, met.number FROM met WHERE met.status = 'continued' ORDER BY met.place;

-- name: count_unread
-- How many messages to a run no turn has taken, by kind and name, without those that are not for its body to read.
SELECT inbox.kind, inbox.name, count(*)
FROM holdfast.runs
JOIN holdfast.inbox ON inbox.run = runs.number
WHERE runs.namespace_id = :namespace_id AND runs.id = :id AND NOT inbox.taken AND inbox.kind NOT IN ('cancel', 'pause')
GROUP BY inbox.kind, inbox.name
ORDER BY min(inbox.id)
LIMIT 100;

-- name: send_cancels
-- Ask live children of turns' runs to end, each once in its life. Only the parent may ask (see tell_ends): a run that
-- has joined another may not.
INSERT INTO holdfast.inbox (run, lane_id, priority, kind, payload, sent_at)
SELECT child.number, child.lane_id, child.priority, 'cancel', ''::bytea,
    coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
FROM (
    SELECT given.parent, last.number
    FROM unnest(:parents::bigint[], :ids::text[]) AS given (parent, id)
    CROSS JOIN LATERAL holdfast.last_of_chain(:namespace_id, given.id) AS last
    OFFSET 0
) AS asked
CROSS JOIN LATERAL (
    SELECT runs.number, runs.lane_id, runs.priority
    FROM holdfast.runs
    WHERE runs.number = asked.number AND runs.ended_at IS NULL AND (
        SELECT starts.parent_id FROM holdfast.starts WHERE starts.number = asked.number
    ) = (
        SELECT parent.id FROM holdfast.runs AS parent WHERE parent.number = asked.parent
    ) AND asked.parent < coalesce((
        SELECT (
            SELECT first.number FROM holdfast.runs AS first
            WHERE first.namespace_id = :namespace_id AND first.id = starts.chain_id OFFSET 0
        )
        FROM holdfast.starts WHERE starts.number = asked.number
    ), asked.number)
    OFFSET 0
) AS child
ON CONFLICT DO NOTHING;

-- name: send_hook
-- Send the payload for a hook whose row was deleted by an earlier statement, which may have waited for its run to
-- continue. If the run has ended, move_strays takes care of the message. In a caller's own transaction the hook's row
-- is still there, and only its mark says that it was used.
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
INSERT INTO holdfast.inbox (run, lane_id, priority, kind, name, payload, sent_at, wait, trace)
SELECT runs.number, runs.lane_id, runs.priority, 'hook', :name, :payload, :now, :wait, :trace
FROM holdfast.runs
WHERE runs.number = :run;

-- name: send_pauses
-- Tell the owners of those runs that somebody holds of a pause, or of its end, in place of earlier such messages.
WITH earlier AS (
    DELETE FROM holdfast.inbox WHERE inbox.run = ANY (:runs::bigint[]) AND inbox.kind = 'pause'
)
INSERT INTO holdfast.inbox (run, lane_id, priority, kind, payload, sent_at)
SELECT runs.number, runs.lane_id, runs.priority, 'pause', :payload, :now
FROM holdfast.runs
WHERE runs.number = ANY (:runs::bigint[]) AND runs.owner IS NOT NULL;

-- name: move_unread
-- Messages that runs had not read when they failed or were cancelled go to the runs that retry them. They need not wake
-- those, which are due by themselves. If a run was retried before, the newest run of the chain has the messages.
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
-- Messages that a continued run has not read go to its successor and wake it. The number of a wait is kept for hooks
-- only: the successor registers other waits anew. Ends of children, which the successor has not asked for, are dropped,
-- and so are messages that were meant for the run's owner.
WITH spent AS (
    DELETE FROM holdfast.inbox
    WHERE inbox.run = ANY (:runs::bigint[]) AND (inbox.taken OR inbox.kind NOT IN ('signal', 'event', 'hook', 'cancel'))
)
UPDATE holdfast.inbox
SET run = successor.number, lane_id = successor.lane_id, priority = successor.priority, fresh = true,
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
        WHERE inbox.lane_id = lanes.id AND inbox.priority = ANY ('{9,8,7,6,5,4,3,2,1,0}') AND inbox.fresh
            AND inbox.sent_at >= :floor::bigint
        OFFSET 0
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
INSERT INTO holdfast.inbox (id, run, lane_id, priority, kind, name, payload, sent_at, wait, trace)
OVERRIDING SYSTEM VALUE
SELECT removed.id, live.number, live.lane_id, live.priority, removed.kind, removed.name, removed.payload, removed.sent_at,
    CASE WHEN removed.kind = 'hook' THEN removed.wait END, removed.trace
FROM removed
JOIN holdfast.runs AS ended ON ended.number = removed.run
CROSS JOIN LATERAL holdfast.last_of_chain(:namespace_id, ended.id) AS last
JOIN holdfast.runs AS live ON live.number = last.number
WHERE live.ended_at IS NULL AND removed.kind IN ('signal', 'event', 'hook', 'cancel')
ON CONFLICT DO NOTHING
RETURNING inbox.run;

-- Messages: inboxes, the chains that they belong to, and the ids by which a message is delivered once.

-- name: find_chains
-- The chains of runs, and the newest run of each chain, which is the live one if any is. For a live run, that run
-- itself: if a run was retried twice, two runs of a chain may be live. A chain and its id outlive the chain's first
-- run.
WITH found (id, chain_id, live) AS (
    SELECT asked.value, coalesce(starts.chain_id, asked.value), CASE WHEN runs.ended_at IS NULL THEN runs.number END
    FROM json_each(:ids) AS asked
    LEFT JOIN runs ON runs.namespace_id = :namespace_id AND runs.id = asked.value
    LEFT JOIN starts ON starts.number = runs.number
)
SELECT found.id, found.chain_id, runs.number, runs.id, runs.ended_at IS NULL
FROM found
CROSS JOIN runs ON runs.number = coalesce(found.live, (
    SELECT newer.number
    FROM starts AS newer
    CROSS JOIN runs AS one ON one.number = newer.number
    WHERE newer.chain_id = found.chain_id AND one.namespace_id = :namespace_id
    ORDER BY newer.number DESC LIMIT 1
), (
    SELECT first.number FROM runs AS first
    WHERE first.namespace_id = :namespace_id AND first.id = found.chain_id
));

-- name: find_chain_start
-- When the chain of a new run began.
SELECT coalesce(starts.chain_started_at, runs.created_at)
FROM runs
CROSS JOIN starts ON starts.number = runs.number
WHERE runs.number = :run;

-- name: chains_of
-- The chains of runs by their numbers.
SELECT runs.number, coalesce(starts.chain_id, runs.id)
FROM json_each(:runs) AS asked
CROSS JOIN runs ON runs.number = asked.value
CROSS JOIN starts ON starts.number = runs.number;

-- name: send_signal
-- Send signals, and all other kinds of messages except cancels, to live runs; a row of zeros is padding.
INSERT INTO inbox (run, lane_id, priority, kind, name, payload, sent_at, wait, trace)
SELECT runs.number, runs.lane_id, runs.priority, column2, column3, column4, column5, column6, column7
FROM (VALUES (?, ?, ?, ?, ?, ?, ?))
CROSS JOIN runs ON runs.number = column1
WHERE runs.ended_at IS NULL;

-- name: count_unread
-- How many messages to a run no turn has taken, by kind and name, without those that are not for its body to read.
SELECT inbox.kind, inbox.name, count(*)
FROM runs
CROSS JOIN inbox ON inbox.run = runs.number
WHERE runs.namespace_id = :namespace_id AND runs.id = :id AND inbox.taken = 0 AND inbox.kind NOT IN ('cancel', 'pause')
GROUP BY inbox.kind, inbox.name
ORDER BY min(inbox.id)
LIMIT 100;

-- name: send_cancels
-- Ask live children to end, each once in its life. Only the parent may ask (see find_told): a run that has joined
-- another may not.
INSERT OR IGNORE INTO inbox (run, lane_id, priority, kind, payload, sent_at)
SELECT runs.number, runs.lane_id, runs.priority, 'cancel', :payload, :now
FROM json_each(:asked) AS asked
CROSS JOIN runs ON runs.number = json_extract(asked.value, '$[0]')
CROSS JOIN starts ON starts.number = runs.number
CROSS JOIN runs AS parent ON parent.number = json_extract(asked.value, '$[1]')
WHERE runs.ended_at IS NULL AND starts.parent_id = parent.id AND parent.number < coalesce((
    SELECT first.number FROM runs AS first
    WHERE first.namespace_id = runs.namespace_id AND first.id = starts.chain_id
), runs.number);

-- name: find_message_id
-- Whether a message was delivered before.
SELECT 1 FROM message_ids WHERE namespace_id = :namespace_id AND scope = :scope AND id = :id;

-- name: insert_message_id
-- Remember that a message was delivered.
INSERT INTO message_ids (namespace_id, scope, id, sent_at) VALUES (:namespace_id, :scope, :id, :now);

-- name: move_unread
-- Messages that a run had not read when it failed or was cancelled go to the run that retries it. They need not wake
-- it, for it is due by itself. If the run was retried before, the newest run of the chain has the messages.
UPDATE inbox SET run = :run, lane_id = :lane_id
WHERE taken = 0 AND kind IN ('signal', 'event', 'hook') AND run IN (
    SELECT ended.number FROM runs AS ended
    WHERE ended.ended_at IS NOT NULL AND ended.number IN (
        (SELECT first.number FROM runs AS first WHERE first.namespace_id = :namespace_id AND first.id = :id),
        (
            SELECT newer.number
            FROM starts AS newer
            CROSS JOIN runs AS one ON one.number = newer.number
            WHERE newer.chain_id = :chain_id AND newer.number < :run AND one.namespace_id = :namespace_id
            ORDER BY newer.number DESC LIMIT 1
        )
    )
);

-- name: move_messages
-- Messages that a run has not read go to its successor. The number of a wait is kept for hooks only: others are
-- registered by the successor anew.
UPDATE inbox
SET run = :successor, lane_id = :lane_id, priority = (SELECT runs.priority FROM runs WHERE runs.number = :successor),
    fresh = 1, wait = CASE WHEN kind = 'hook' THEN wait END
WHERE run = :run AND taken = 0 AND kind IN ('signal', 'event', 'hook', 'cancel');

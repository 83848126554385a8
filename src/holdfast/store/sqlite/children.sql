-- Children: whom an end concerns, and how a run continues as new.

-- name: find_ties
-- Whether the ends of these runs concern anybody. Most concern nobody, and then no other question is asked.
SELECT
    max(EXISTS (SELECT 1 FROM inbox WHERE inbox.run = runs.number)),
    max(EXISTS (SELECT 1 FROM waits WHERE waits.run = runs.number)),
    max(starts.parent_key IS NOT NULL OR EXISTS (SELECT 1 FROM followers WHERE followers.run = runs.number)),
    max(EXISTS (SELECT 1 FROM starts AS child WHERE child.parent_id = runs.id)),
    max(EXISTS (SELECT 1 FROM followers WHERE followers.follower = runs.number)),
    max(EXISTS (
        SELECT 1 FROM runs AS next WHERE next.namespace_id = runs.namespace_id AND next.after_run_id = runs.id
    ))
FROM json_each(:runs) AS asked
CROSS JOIN runs ON runs.number = asked.value
CROSS JOIN starts ON starts.number = runs.number;

-- name: find_told
-- Who is told of these ends: the run that asked for a child, and those that joined it. A run that continued as new has
-- not ended for them. A run that has got its number after the child did not ask for it: it has the id of a run that was
-- deleted. A later run of the child's chain goes by the number of the first.
SELECT parent.number, starts.parent_key, ended.id, ended.status, ended.output, ended.error
FROM json_each(:runs) AS asked
CROSS JOIN runs AS ended ON ended.number = asked.value
CROSS JOIN starts ON starts.number = ended.number
CROSS JOIN runs AS parent ON parent.namespace_id = ended.namespace_id AND parent.id = starts.parent_id
WHERE ended.status <> 'continued' AND starts.parent_key IS NOT NULL AND parent.ended_at IS NULL
    AND parent.number < coalesce((
        SELECT first.number FROM runs AS first
        WHERE first.namespace_id = ended.namespace_id AND first.id = starts.chain_id
    ), ended.number)
UNION ALL
SELECT followers.follower, followers.parent_key, ended.id, ended.status, ended.output, ended.error
FROM json_each(:runs) AS asked
CROSS JOIN runs AS ended ON ended.number = asked.value
CROSS JOIN followers ON followers.run = ended.number
WHERE ended.status <> 'continued';

-- name: read_ends
-- How runs have ended, for runs that join them afterwards.
SELECT runs.number, runs.id, runs.status, runs.output, runs.error
FROM json_each(:runs) AS asked
CROSS JOIN runs ON runs.number = asked.value;

-- name: cancel_children
-- Ask the live children of these runs to end, if they are to end with their parent: see find_told.
INSERT OR IGNORE INTO inbox (run, lane_id, priority, kind, payload, sent_at)
SELECT runs.number, runs.lane_id, runs.priority, 'cancel',
    CAST('its parent ' || asked.value || ' has ended' AS BLOB), :now
FROM json_each(:ids) AS asked
CROSS JOIN runs AS parent ON parent.namespace_id = :namespace_id AND parent.id = asked.value
CROSS JOIN starts ON starts.parent_id = asked.value
CROSS JOIN runs ON runs.number = starts.number
WHERE runs.namespace_id = :namespace_id AND runs.ended_at IS NULL AND starts.on_parent_end = 'cancel'
    AND parent.number < coalesce((
        SELECT first.number FROM runs AS first
        WHERE first.namespace_id = :namespace_id AND first.id = starts.chain_id
    ), runs.number);

-- name: insert_followers
-- Runs that joined others; a row of zeros is padding.
INSERT OR IGNORE INTO followers (run, follower, parent_key)
SELECT column1, column2, column3
FROM (VALUES (?, ?, ?))
WHERE column1 <> 0;

-- name: find_followed
-- All runs that the askers joined instead of beginning children of their own, with the keys by which they know them. To
-- look for some of them by key would walk all of them for each key.
SELECT followers.follower, followers.parent_key, followers.run
FROM json_each(:askers) AS asked
CROSS JOIN followers ON followers.follower = asked.value;

-- name: drop_followers
-- Forget who followed these ended runs, and whom these runs followed.
DELETE FROM followers
WHERE run IN (SELECT value FROM json_each(:runs)) OR follower IN (SELECT value FROM json_each(:runs));

-- name: move_followers
-- The followers of a run follow its successor.
UPDATE followers SET run = :successor WHERE run = :run;

-- name: move_waiting
-- Runs that wait for a run to end wait for its successor.
UPDATE runs SET after_run_id = :successor_id
WHERE namespace_id = :namespace_id AND after_run_id = :id AND started_at IS NULL AND ended_at IS NULL;

-- name: find_inherited
-- What a successor inherits from its run.
SELECT starts.key, coalesce(starts.chain_id, runs.id), starts.parent_id, starts.parent_key, starts.on_parent_end,
    starts.trace, starts.retention, starts.has_own_retention, lanes.workflow, runs.paused, (
        SELECT keys.run FROM keys
        WHERE keys.namespace_id = runs.namespace_id AND keys.workflow = lanes.workflow AND keys.key = starts.key
    )
FROM runs
CROSS JOIN lanes ON lanes.id = runs.lane_id
CROSS JOIN starts ON starts.number = runs.number
WHERE runs.number = :run;

-- name: name_successor
-- Note a run's successor.
UPDATE runs SET successor_id = :successor_id WHERE number = :run;

-- name: inherit_pause
-- Pause a successor whose run is paused.
UPDATE runs SET paused = 1 WHERE number = :run;

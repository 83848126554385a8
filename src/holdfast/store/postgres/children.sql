-- Children, followers and successors: who is told of an end, and which run goes on after another.

-- name: join_runs
-- Have askers join the runs that hold the ids or keys of the children that they asked for: they follow such a run, or
-- are told at once if it has ended. An asker's own child tells it anyway. If a run ends, or continues as new, while
-- this is committed, it sees no follower, and this does not see its end: tell_missed finds such pairs. A run that
-- continued as another workflow still holds its key. The joined runs can't be removed until this is committed, and
-- whoever removes them tells their followers. Answers the askers that found a run; the runs of the others have just
-- been removed. A child is older than an asker that has only the id of its parent, which was deleted: see tell_ends.
WITH asked AS MATERIALIZED (
    SELECT given.asker, given.parent_key, given.at, coalesce(
            (SELECT last.number FROM holdfast.last_of_chain(:namespace_id, given.id) AS last),
            (
                SELECT last.number
                FROM holdfast.keys
                JOIN holdfast.runs AS holder ON holder.number = keys.run
                CROSS JOIN LATERAL holdfast.last_of_chain(:namespace_id, holder.id) AS last
                WHERE keys.namespace_id = :namespace_id AND keys.workflow = given.workflow AND keys.key = given.key
            )
        ) AS number
    FROM unnest(:askers::bigint[], :parent_keys::text[], :ids::text[], :workflows::text[], :keys::text[], :ats::bigint[])
        AS given (asker, parent_key, id, workflow, key, at)
),
met AS MATERIALIZED (
    SELECT asked.asker, asked.parent_key, asked.at, joined.number, joined.id, joined.ended_at, joined.status,
        joined.output, joined.error, asker.lane_id, asker.priority,
        starts.parent_id IS NOT DISTINCT FROM asker.id AND starts.parent_key = asked.parent_key
            AND asker.number < coalesce((
                SELECT first.number FROM holdfast.runs AS first
                WHERE first.namespace_id = :namespace_id AND first.id = starts.chain_id OFFSET 0
            ), joined.number) AS is_child,
        asker.ended_at IS NULL AS is_heard
    FROM asked
    JOIN holdfast.runs AS joined ON joined.number = asked.number
    JOIN holdfast.starts ON starts.number = joined.number
    JOIN holdfast.runs AS asker ON asker.number = asked.asker
    FOR KEY SHARE OF starts
),
following AS (
    INSERT INTO holdfast.followers (run, follower, parent_key)
    SELECT met.number, met.asker, met.parent_key
    FROM met
    WHERE met.is_heard AND met.ended_at IS NULL AND NOT met.is_child
    ON CONFLICT DO NOTHING
),
told AS (
    INSERT INTO holdfast.inbox (run, lane_id, priority, kind, name, payload, sent_at)
    SELECT met.asker, met.lane_id, met.priority, 'child', met.parent_key,
        holdfast.child_end(met.id, met.status, met.output, met.error), met.at
    FROM met
    WHERE met.is_heard AND met.ended_at IS NOT NULL
)
SELECT met.asker, met.parent_key FROM met;

-- name: find_followed
-- The live runs that askers joined instead of beginning children of their own: the asker, the key by which it knows such a
-- child, and the run. A joined run may be the asker's own child, begun by an earlier try, which only the child's own row
-- tells; a follower's row counts before that. Whatever an asker has joined or begun is walked once, and those asked for are
-- a set to look into. Unlike SQLite's, it leaves out what was not asked for, and children that were begun after all.
WITH asked AS MATERIALIZED (
    SELECT given.asker, given.parent_key
    FROM unnest(:askers::bigint[], :parent_keys::text[], :ids::text[]) AS given (asker, parent_key, id)
    WHERE NOT EXISTS (
        SELECT 1 FROM holdfast.runs WHERE runs.namespace_id = :namespace_id AND runs.id = given.id OFFSET 0
    )
),
askers AS MATERIALIZED (
    SELECT DISTINCT asked.asker FROM asked
),
met AS (
    SELECT askers.asker, joined.parent_key, joined.run, false AS is_own
    FROM askers
    CROSS JOIN LATERAL (
        SELECT followers.parent_key, followers.run
        FROM holdfast.followers WHERE followers.follower = askers.asker OFFSET 0
    ) AS joined
    UNION ALL
    SELECT askers.asker, born.parent_key, born.number, true
    FROM askers
    JOIN holdfast.runs AS asker ON asker.number = askers.asker
    CROSS JOIN LATERAL (
        SELECT starts.parent_key, starts.number
        FROM holdfast.starts
        WHERE starts.parent_id = asker.id AND asker.number < coalesce((
            SELECT first.number FROM holdfast.runs AS first
            WHERE first.namespace_id = :namespace_id AND first.id = starts.chain_id OFFSET 0
        ), starts.number)
        OFFSET 0
    ) AS born
)
SELECT DISTINCT ON (met.asker, met.parent_key) met.asker, met.parent_key, live.id
FROM met
CROSS JOIN LATERAL (
    SELECT runs.id FROM holdfast.runs
    WHERE runs.number = met.run AND runs.ended_at IS NULL AND runs.namespace_id = :namespace_id OFFSET 0
) AS live
WHERE ((met.asker, met.parent_key) IN (SELECT asked.asker, asked.parent_key FROM asked)) IS TRUE
ORDER BY met.asker, met.parent_key, met.is_own;

-- name: await_ends
-- Wait for commits that are just ending runs which these follow: after this, tell_missed sees the ends. It is a
-- transaction of its own and holds no other lock, so it can be part of no deadlock.
SELECT runs.number
FROM holdfast.followers
JOIN holdfast.runs ON runs.number = followers.run
WHERE followers.follower = ANY (:followers::bigint[])
FOR SHARE OF runs;

-- name: find_missed
-- Followers of runs that have ended or continued, which nobody has told them. Only some followers are looked at, from a
-- place on, so that the cost of a look does not grow with their number. The last one looked at is answered, too, if
-- there may be more after it.
SELECT walked.run, walked.follower, walked.is_missed, walked.place = :limit::integer
FROM (
    SELECT next.run, next.follower, row_number() OVER (ORDER BY next.run, next.follower) AS place, EXISTS (
            SELECT 1 FROM holdfast.runs
            WHERE runs.number = next.run AND runs.ended_at IS NOT NULL AND runs.namespace_id = :namespace_id OFFSET 0
        ) AS is_missed
    FROM (
        SELECT followers.run, followers.follower FROM holdfast.followers
        WHERE (followers.run, followers.follower) > (:after_run::bigint, :after_follower::bigint)
        ORDER BY followers.run, followers.follower LIMIT :limit::integer
    ) AS next
) AS walked
WHERE walked.is_missed OR walked.place = :limit::integer;

-- name: find_followers
-- The followers of these ended runs, and of earlier ended runs in chains of which one of these is the newest.
SELECT DISTINCT followers.follower
FROM (
    SELECT asked.run FROM unnest(:runs::bigint[]) AS asked (run)
    UNION
    SELECT earlier.number
    FROM unnest(:chains::text[]) AS asked (chain_id)
    CROSS JOIN LATERAL holdfast.last_of_chain(:namespace_id, asked.chain_id) AS last
    CROSS JOIN LATERAL (
        SELECT runs.number FROM holdfast.runs WHERE runs.namespace_id = :namespace_id AND runs.id = asked.chain_id
        UNION ALL
        SELECT starts.number FROM holdfast.starts WHERE starts.chain_id = asked.chain_id
    ) AS earlier
    WHERE last.number = ANY (:runs::bigint[])
) AS followed
JOIN holdfast.followers ON followers.run = followed.run
WHERE EXISTS (
    SELECT 1 FROM holdfast.runs
    WHERE runs.number = followed.run AND runs.ended_at IS NOT NULL AND runs.namespace_id = :namespace_id OFFSET 0
);

-- name: tell_missed
-- Tell followers whose run ended before or while they joined: neither commit could see the other. The delete decides
-- who tells them. If the run continued as new, they follow the newest run of its chain from now on, unless a later try
-- of theirs does so already. If no later run of the chain is left, the end of the continued run is what they are told.
WITH ended AS MATERIALIZED (
    SELECT runs.number, CASE WHEN runs.status = 'continued' THEN last.number ELSE runs.number END AS last
    FROM holdfast.runs
    CROSS JOIN LATERAL holdfast.last_of_chain(runs.namespace_id, runs.id) AS last
    WHERE runs.ended_at IS NOT NULL AND runs.number = ANY (ARRAY(
        SELECT followers.run FROM holdfast.followers WHERE followers.follower = ANY (:followers::bigint[])
    ))
),
gone AS (
    DELETE FROM holdfast.followers
    USING ended
    WHERE followers.follower = ANY (:followers::bigint[]) AND followers.run = ended.number
    RETURNING followers.run, followers.follower, followers.parent_key, ended.last
),
going_on AS (
    INSERT INTO holdfast.followers (run, follower, parent_key)
    SELECT gone.last, gone.follower, gone.parent_key FROM gone WHERE gone.last <> gone.run
    ON CONFLICT DO NOTHING
)
INSERT INTO holdfast.inbox (run, lane_id, priority, kind, name, payload, sent_at)
SELECT hearers.number, hearers.lane_id, hearers.priority, 'child', gone.parent_key,
    holdfast.child_end(last.id, last.status, last.output, last.error), last.ended_at
FROM gone
JOIN holdfast.runs AS last ON last.number = gone.last
CROSS JOIN LATERAL (
    SELECT runs.number, runs.lane_id, runs.priority, runs.ended_at
    FROM holdfast.runs WHERE runs.number = gone.follower OFFSET 0
) AS hearers
WHERE gone.last = gone.run AND hearers.ended_at IS NULL
RETURNING inbox.run;

-- name: tell_ends
-- What follows from ending a run from outside, in the transaction that ended it: the same as in change_runs. A run is
-- the parent of those that name its id and have got their numbers after it. Older ones are children of a run that had
-- the id before and was deleted. A later run of a child's chain goes by the number of the first.
WITH finished AS MATERIALIZED (
    SELECT runs.number, runs.namespace_id, runs.id, runs.ended_at, runs.status, runs.output, runs.error
    FROM holdfast.runs WHERE runs.number = ANY (:runs::bigint[]) AND runs.ended_at IS NOT NULL
),
closed AS (
    DELETE FROM holdfast.waits WHERE waits.run = ANY (ARRAY(SELECT finished.number FROM finished))
    RETURNING waits.run, waits.namespace_id, waits.token
),
hung_up AS (
    INSERT INTO holdfast.used_hooks (namespace_id, token, run, became)
    SELECT closed.namespace_id, closed.token, closed.run, 'ended' FROM closed WHERE closed.token IS NOT NULL
    ON CONFLICT (namespace_id, token) DO UPDATE SET run = excluded.run, became = excluded.became
),
left_by AS (
    DELETE FROM holdfast.followers WHERE followers.run = ANY (ARRAY(SELECT finished.number FROM finished))
    RETURNING followers.run, followers.follower, followers.parent_key
),
unfollowed AS (
    DELETE FROM holdfast.followers
    WHERE followers.follower = ANY (ARRAY(SELECT finished.number FROM finished))
        AND followers.run <> ALL (:runs::bigint[])
),
kin AS MATERIALIZED (
    SELECT finished.number, finished.namespace_id, starts.parent_id, starts.parent_key, starts.first
    FROM finished
    CROSS JOIN LATERAL (
        SELECT starts.parent_id, starts.parent_key, coalesce((
                SELECT first.number FROM holdfast.runs AS first
                WHERE first.namespace_id = finished.namespace_id AND first.id = starts.chain_id OFFSET 0
            ), finished.number) AS first
        FROM holdfast.starts WHERE starts.number = finished.number OFFSET 0
    ) AS starts
    WHERE starts.parent_key IS NOT NULL
),
told AS (
    INSERT INTO holdfast.inbox (run, lane_id, priority, kind, name, payload, sent_at)
    SELECT parents.number, parents.lane_id, parents.priority, 'child', hearers.parent_key,
        holdfast.child_end(finished.id, finished.status, finished.output, finished.error), finished.ended_at
    FROM (
        SELECT kin.number AS run, parent.number, kin.parent_key
        FROM kin
        JOIN holdfast.runs AS parent ON parent.namespace_id = kin.namespace_id AND parent.id = kin.parent_id
            AND parent.number < kin.first
        UNION ALL
        SELECT left_by.run, left_by.follower, left_by.parent_key FROM left_by
    ) AS hearers
    JOIN finished ON finished.number = hearers.run
    JOIN holdfast.runs AS parents ON parents.number = hearers.number
    WHERE parents.ended_at IS NULL
)
INSERT INTO holdfast.inbox (run, lane_id, priority, kind, payload, sent_at)
SELECT children.number, children.lane_id, children.priority, 'cancel',
    convert_to('its parent ' || finished.id || ' has ended', 'UTF8'), finished.ended_at
FROM finished
CROSS JOIN LATERAL (
    SELECT starts.number FROM holdfast.starts
    WHERE starts.parent_id = finished.id AND starts.on_parent_end = 'cancel' AND finished.number < coalesce((
        SELECT first.number FROM holdfast.runs AS first
        WHERE first.namespace_id = finished.namespace_id AND first.id = starts.chain_id OFFSET 0
    ), starts.number)
    OFFSET 0
) AS born
CROSS JOIN LATERAL (
    SELECT runs.number, runs.lane_id, runs.priority, runs.namespace_id, runs.ended_at
    FROM holdfast.runs WHERE runs.number = born.number OFFSET 0
) AS children
WHERE children.namespace_id = finished.namespace_id AND children.ended_at IS NULL
ON CONFLICT DO NOTHING;

-- name: cancel_orphans
-- Ask children to end that were begun by the very turn that ended their parent: that statement could not see them.
INSERT INTO holdfast.inbox (run, lane_id, priority, kind, payload, sent_at)
SELECT children.number, children.lane_id, children.priority, 'cancel',
    convert_to('its parent ' || parents.id || ' has ended', 'UTF8'), parents.ended_at
FROM holdfast.runs AS children
JOIN holdfast.starts ON starts.number = children.number
CROSS JOIN LATERAL (
    SELECT runs.id, runs.ended_at
    FROM holdfast.runs WHERE runs.namespace_id = :namespace_id AND runs.id = starts.parent_id OFFSET 0
) AS parents
WHERE children.namespace_id = :namespace_id AND children.id = ANY (:ids::text[]) AND children.ended_at IS NULL
    AND starts.on_parent_end = 'cancel' AND parents.ended_at IS NOT NULL
ON CONFLICT DO NOTHING;

-- name: lock_continued
-- Lock those of some runs, which are about to continue as new, that nobody else has locked. A sender holds the run that
-- it writes to FOR KEY SHARE. If it comes first, the turn that continues the run comes again after it, and a later
-- statement moves what was sent. A sender that comes second waits for this commit and looks again.
SELECT runs.number FROM holdfast.runs WHERE runs.number = ANY (:runs::bigint[])
ORDER BY runs.number FOR UPDATE SKIP LOCKED;

-- name: continue_runs
-- Create the successors of runs that have just ended as continued. They take over everything but the inbox: chain, key,
-- parent, pause, open hooks, followers, and the runs that wait for the end. They get their first journal rows, if any.
-- The numbers of hooks go on along a chain, so that no two are alike. Answers numbers, old and new.
WITH clock AS MATERIALIZED (
    SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
),
asked AS MATERIALIZED (
    SELECT nextval('holdfast.runs_number_seq') AS number, clock.now, given.run, given.id,
        given.lane_id, given.priority, given.next_seq, given.input, given.seed, given.tags,
        CASE WHEN starts.has_own_retention THEN starts.retention ELSE given.retention END AS retention,
        starts.has_own_retention, given.forked_from, given.origin_id, old.id AS old_id, old.paused, starts.parent_id,
        starts.parent_key, starts.on_parent_end, starts.trace, coalesce(given.key, starts.key) AS key,
        coalesce(starts.chain_id, old.id) AS chain_id,
        coalesce(starts.chain_started_at, old.created_at) AS chain_started_at,
        coalesce(given.given_due_at, clock.now + given.delay) AS due_at,
        coalesce(given.given_deadline_at, clock.now + given.deadline) AS deadline_at
    FROM clock
    CROSS JOIN unnest(:runs::bigint[], :ids::text[], :lanes::integer[], :priorities::smallint[], :delays::bigint[],
            :due_ats::bigint[], :deadlines::bigint[], :deadline_ats::bigint[], :next_seqs::integer[],
            :inputs::bytea[], :seeds::bytea[], :keys::text[], :tags::text[], :retentions::bigint[],
            :forked_froms::text[], :origin_ids::text[])
        AS given (run, id, lane_id, priority, delay, given_due_at, deadline, given_deadline_at, next_seq, input, seed,
            key, tags, retention, forked_from, origin_id)
    JOIN holdfast.runs AS old ON old.number = given.run
    JOIN holdfast.starts ON starts.number = given.run
),
started AS (
    INSERT INTO holdfast.runs (number, namespace_id, id, lane_id, status, priority, due_at, next_seq, created_at,
        deadline_at, paused)
    SELECT asked.number, :namespace_id, asked.id, asked.lane_id, 'pending', asked.priority,
        least(asked.due_at, asked.deadline_at), asked.next_seq, asked.now, asked.deadline_at, asked.paused
    FROM asked
),
begun AS (
    INSERT INTO holdfast.starts (number, due_at, input, seed, key, tags, retention, chain_id, chain_started_at,
        parent_id, parent_key, on_parent_end, forked_from, trace, has_own_retention, origin_id)
    SELECT asked.number, asked.due_at, asked.input, asked.seed, asked.key, asked.tags, asked.retention, asked.chain_id,
        asked.chain_started_at, asked.parent_id, asked.parent_key, asked.on_parent_end, asked.forked_from,
        asked.trace, asked.has_own_retention, asked.origin_id
    FROM asked
),
written AS (
    INSERT INTO holdfast.journal (run, seq, epoch, at, data)
    SELECT asked.number, first.seq, 0, asked.now, first.data
    FROM unnest(:journal_ids::text[], :journal_seqs::integer[], :journal_datas::bytea[]) AS first (id, seq, data)
    JOIN asked ON asked.id = first.id
),
linked AS (
    UPDATE holdfast.runs SET successor_id = asked.id FROM asked WHERE runs.number = asked.run
),
moved_keys AS (
    UPDATE holdfast.keys SET run = asked.number
    FROM asked
    JOIN holdfast.lanes ON lanes.id = asked.lane_id
    WHERE keys.namespace_id = :namespace_id AND keys.workflow = lanes.workflow AND keys.key = asked.key
        AND keys.run = asked.run AND keys.key = ANY (ARRAY(SELECT asked.key FROM asked))
),
moved_hooks AS (
    UPDATE holdfast.waits SET run = asked.number FROM asked
    WHERE waits.run = asked.run AND waits.run = ANY (:runs::bigint[]) AND waits.kind = 'hook'
),
followed AS (
    UPDATE holdfast.followers SET run = asked.number FROM asked WHERE followers.run = asked.run
),
waiting AS (
    UPDATE holdfast.runs SET after_run_id = asked.id
    FROM asked
    WHERE runs.namespace_id = :namespace_id AND runs.after_run_id = asked.old_id AND runs.started_at IS NULL
        AND runs.ended_at IS NULL
)
SELECT asked.run, asked.number FROM asked;

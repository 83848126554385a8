-- Turns: the hot path. One insert for all journal rows of a commit, and little else.

-- name: commit_turns
-- Many journal rows, all or none; a row of zeros is padding. For a run that was deleted, or a place before a
-- checkpoint, the epoch is null, which refuses all rows, as a row at a taken place does.
INSERT INTO journal (run, seq, epoch, at, data)
SELECT column1, column2,
    (SELECT CASE WHEN runs.cut_seq > column2 THEN NULL ELSE column3 END FROM runs WHERE runs.number = column1),
    column4, column5
FROM (VALUES (?, ?, ?, ?, ?))
WHERE column1 <> 0;

-- name: find_turn
-- The epoch of the row at this seq; null if the place is free, no row if the run does not exist. For a row that was
-- removed by a checkpoint, the checkpoint's epoch is the answer: if that is the turn's own, so was the row's, for the
-- rows of an epoch follow one another.
SELECT coalesce(journal.epoch, CASE WHEN runs.cut_seq > :seq THEN runs.cut_epoch END)
FROM runs
LEFT JOIN journal ON journal.run = runs.number AND journal.seq = :seq
WHERE runs.number = :run;

-- name: find_numbers
-- The numbers of runs by their ids, and when they were created.
SELECT runs.id, runs.number, runs.created_at
FROM json_each(:ids) AS asked
CROSS JOIN runs ON runs.namespace_id = :namespace_id AND runs.id = asked.value;

-- name: change_runs
-- What accepted turns and guarded row-only writes change in their runs; a row of zeros is padding, and an empty text means
-- NULL. A run that becomes pending again was never begun.
-- A run whose worker was reaped stays due: its turn was accepted because nobody has taken the run over yet, and
-- somebody must.
WITH bound (run, status, due_at, ended_at, released, next_seq, crashes, blocked, output, error, longest) AS (
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
),
change (run, status, due_at, ended_at, released, next_seq, crashes, blocked, output, error, longest) AS (
    SELECT run, status, nullif(due_at, ''), nullif(ended_at, ''), released, nullif(next_seq, ''), crashes,
        nullif(blocked, ''), nullif(output, ''), nullif(error, ''), nullif(longest, '')
    FROM bound
)
UPDATE runs
SET status = change.status, ended_at = change.ended_at,
    started_at = CASE WHEN change.status <> 'pending' THEN runs.started_at END,
    expires_at = CASE WHEN change.ended_at IS NOT NULL THEN
        change.ended_at + (
            SELECT min(coalesce(starts.retention, change.longest), coalesce(change.longest, starts.retention))
            FROM starts WHERE starts.number = change.run
        )
    END,
    due_at = CASE WHEN change.released OR runs.owner IS NOT NULL THEN change.due_at ELSE runs.due_at END,
    owner = CASE WHEN change.released THEN NULL ELSE runs.owner END,
    next_seq = CASE WHEN change.released THEN change.next_seq ELSE runs.next_seq END,
    crashes = change.crashes, blocked = change.blocked, output = change.output, error = change.error
FROM change
WHERE runs.number = change.run AND runs.ended_at IS NULL;

-- name: write_rows
-- Those writes, by position, whose runs still have the owner and epoch that the write expects, with the runs' numbers.
SELECT '[' || group_concat(json_array(asked.key, runs.number)) || ']'
FROM json_each(:writes) AS asked
CROSS JOIN runs ON runs.namespace_id = :namespace_id AND runs.id = json_extract(asked.value, '$[0]')
WHERE runs.owner = json_extract(asked.value, '$[1]') AND runs.epoch = json_extract(asked.value, '$[2]')
    AND runs.ended_at IS NULL;

-- name: drop_messages
-- Remove messages that accepted turns have taken in. A cancel is kept, so that no second one can come.
DELETE FROM inbox WHERE kind <> 'cancel' AND id IN (SELECT value FROM json_each(:ids));

-- name: take_cancels
-- Mark cancels that accepted turns have taken in.
UPDATE inbox SET taken = 1, fresh = 0
WHERE kind = 'cancel' AND id IN (SELECT value FROM json_each(:ids));

-- name: truncate_journal
-- Remove what came before a checkpoint.
DELETE FROM journal WHERE run = :run AND seq < :seq;

-- name: cut_journal
-- Note where the journal begins now.
UPDATE runs SET cut_seq = :seq, cut_epoch = :epoch WHERE number = :run;

-- Transactional steps: what is said on the connection that they get, beside the user's own statements and the turn's.

-- name: mark_transaction
-- What holds until this transaction ends, and no longer: its mark tells whether it is still the one that was begun.
-- The setting's name is not in the schema, so it must not look as if it were: see statements.py. Answers whether it sees
-- nothing that is committed from now on, as the database's owner may have set, and whether nothing can be written by it.
SELECT current_setting('transaction_isolation') IN ('repeatable read', 'serializable'),
    current_setting('transaction_read_only')::boolean,
    set_config('holdfast_loan.mark', :mark, true), set_config('lock_timeout', :lock_timeout, true),
    set_config('idle_in_transaction_session_timeout', :idle_timeout, true);

-- name: find_mark
-- Whether this is still that transaction. Its turn is durable when its commit is answered, whatever others have set.
SELECT current_setting('holdfast_loan.mark', true), set_config('synchronous_commit', 'on', true);

-- name: settle_constraints
-- What the user's tables leave to the commit is checked before the result is taken in, while the step can still fail.
SET CONSTRAINTS ALL IMMEDIATE;

-- name: sees_run
-- Whether this transaction sees a claim of the run, the turn before a place in its journal, and messages that were sent to
-- it. A claim that a server has lost, and somebody else has made again, is another one: see give_back_lost.
SELECT EXISTS (
        SELECT 1 FROM holdfast.runs
        WHERE runs.namespace_id = :namespace_id AND runs.id = :id AND runs.epoch >= :epoch::integer
            AND (runs.owner <> ALL (:workers::text[])) IS NOT TRUE
            AND (
                :seq::integer = 0 OR EXISTS (
                    SELECT 1 FROM holdfast.journal WHERE journal.run = runs.number AND journal.seq = :seq::integer - 1
                )
            )
    ) AND NOT EXISTS (
        SELECT 1 FROM unnest(:taken::bigint[]) AS taken (id)
        WHERE NOT EXISTS (SELECT 1 FROM holdfast.inbox WHERE inbox.id = taken.id)
    );

-- name: find_place_taken
-- Whose row is at a place in a run's journal, as in find_turns.
SELECT coalesce(journal.epoch, CASE WHEN runs.cut_seq > :seq::integer THEN runs.cut_epoch END)
FROM holdfast.runs
LEFT JOIN holdfast.journal ON journal.run = runs.number AND journal.seq = :seq::integer
WHERE runs.namespace_id = :namespace_id AND runs.id = :id;

-- Transactional steps: what is executed on their connections beside the user's own statements and the turn.

-- name: mark_transaction
-- Settings that hold until this transaction ends. The mark tells whether it is still the one that was begun. Its
-- setting is called holdfast_loan, for `holdfast.` would be taken for the schema: see statements.py. Answers whether
-- the transaction sees nothing that is committed from now on, which the database's owner may have set, and whether it
-- is read-only.
SELECT current_setting('transaction_isolation') IN ('repeatable read', 'serializable'),
    current_setting('transaction_read_only')::boolean,
    set_config('holdfast_loan.mark', :mark, true), set_config('lock_timeout', :lock_timeout, true),
    set_config('idle_in_transaction_session_timeout', :idle_timeout, true);

-- name: find_mark
-- The mark of this transaction. Also makes sure that its turn is durable when its commit is answered, whatever was set.
SELECT current_setting('holdfast_loan.mark', true), set_config('synchronous_commit', 'on', true);

-- name: settle_constraints
-- Check the deferred constraints of the user's tables before the result is taken in, while the step can still fail.
SET CONSTRAINTS ALL IMMEDIATE;

-- name: sees_run
-- Whether this transaction sees the claim of a run, the turn before a place in its journal, and some messages to it. If
-- a server has lost the claim, and another worker has claimed the run since, that is another claim: see give_back_lost.
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
-- The epoch of the row at a place in a run's journal, as in find_turns.
SELECT coalesce(journal.epoch, CASE WHEN runs.cut_seq > :seq::integer THEN runs.cut_epoch END)
FROM holdfast.runs
LEFT JOIN holdfast.journal ON journal.run = runs.number AND journal.seq = :seq::integer
WHERE runs.namespace_id = :namespace_id AND runs.id = :id;

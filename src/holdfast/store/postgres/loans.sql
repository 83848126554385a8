-- Transactional steps: what is said on the connection that they get, beside the user's own statements and the turn's.

-- name: mark_transaction
-- What holds until this transaction ends, and no longer: its mark tells whether it is still the one that was begun.
-- The setting's name is not in the schema, so it must not look as if it were: see statements.py.
SELECT set_config('holdfast_loan.mark', :mark, true), set_config('lock_timeout', :lock_timeout, true),
    set_config('idle_in_transaction_session_timeout', :idle_timeout, true);

-- name: find_mark
-- Whether this is still that transaction.
SELECT current_setting('holdfast_loan.mark', true);

-- name: settle_constraints
-- What the user's tables leave to the commit is checked before the result is taken in, while the step can still fail.
SET CONSTRAINTS ALL IMMEDIATE;

-- name: find_place_taken
-- Whose row is at a place in a run's journal, as in find_turns.
SELECT coalesce(journal.epoch, CASE WHEN runs.cut_seq > :seq::integer THEN runs.cut_epoch END)
FROM holdfast.runs
LEFT JOIN holdfast.journal ON journal.run = runs.number AND journal.seq = :seq::integer
WHERE runs.namespace_id = :namespace_id AND runs.id = :id;

-- The state of the schema itself: which migrations were applied, and the namespaces.

-- name: create_schema
-- The schema that everything lives in.
CREATE SCHEMA IF NOT EXISTS holdfast;

-- name: create_migrations
-- The one table that exists before the first migration.
CREATE TABLE IF NOT EXISTS holdfast.migrations (number integer PRIMARY KEY, applied_at bigint NOT NULL);

-- name: has_migrations
-- Whether the database has ever been migrated. Not by to_regclass: if another process migrates meanwhile, that goes on
-- saying no within this transaction, since it caches what does not exist.
SELECT EXISTS (
    SELECT 1
    FROM pg_catalog.pg_class
    JOIN pg_catalog.pg_namespace ON pg_namespace.oid = pg_class.relnamespace
    WHERE pg_namespace.nspname = :schema::text AND pg_class.relname = 'migrations'
);

-- name: last_migration
-- The newest migration applied.
SELECT coalesce(max(number), 0) FROM holdfast.migrations;

-- name: insert_migration
-- Remember that a migration was applied.
INSERT INTO holdfast.migrations (number, applied_at)
VALUES (:number, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);

-- name: lock_migrations
-- Let one process at a time migrate, until its transaction ends. The lock's number is a hash of the schema's name.
SELECT pg_advisory_xact_lock(hashtextextended(:name, 0));

-- name: insert_namespace
-- Make a namespace known.
INSERT INTO holdfast.namespaces (name) VALUES (:name) ON CONFLICT DO NOTHING;

-- name: find_namespace
-- A namespace's number.
SELECT id FROM holdfast.namespaces WHERE name = :name;

-- name: find_place
-- Which database this is, told by the time of its first migration, and a namespace's number in it.
SELECT migrations.applied_at, (SELECT namespaces.id FROM holdfast.namespaces WHERE namespaces.name = :name)
FROM holdfast.migrations
WHERE migrations.number = 1;

-- name: read_clock
-- The database's time.
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- name: notify
-- Tell other processes that something happened, and how old it may be. Never in a transaction on the hot path.
SELECT pg_notify(
    :channel, :sender || ' ' || least(:since::bigint, (extract(epoch FROM now()) * 1000000)::bigint)::text
);

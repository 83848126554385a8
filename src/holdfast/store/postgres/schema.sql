-- The schema's own state: which migrations were applied, and the namespaces.

-- name: create_schema
-- The schema that everything lives in.
CREATE SCHEMA IF NOT EXISTS holdfast;

-- name: create_migrations
-- The one table that is there before the first migration.
CREATE TABLE IF NOT EXISTS holdfast.migrations (number integer PRIMARY KEY, applied_at bigint NOT NULL);

-- name: has_migrations
-- Whether the database has ever been migrated. A query, where to_regclass would do: within one transaction that goes on
-- saying no after another process has migrated meanwhile, since what is not there is cached.
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
-- One process at a time, until its transaction ends. The number is the schema's name, hashed.
SELECT pg_advisory_xact_lock(hashtextextended(:name, 0));

-- name: insert_namespace
-- Make a namespace known.
INSERT INTO holdfast.namespaces (name) VALUES (:name) ON CONFLICT DO NOTHING;

-- name: find_namespace
-- A namespace's number.
SELECT id FROM holdfast.namespaces WHERE name = :name;

-- name: find_place
-- Which database this is, by the time of its first migration, and a namespace's number in it.
SELECT migrations.applied_at, (SELECT namespaces.id FROM holdfast.namespaces WHERE namespaces.name = :name)
FROM holdfast.migrations
WHERE migrations.number = 1;

-- name: read_clock
-- The database's time.
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- name: notify
-- Tell other processes that something happened, and how old it may be; never in a transaction that matters.
SELECT pg_notify(
    :channel, :sender || ' ' || least(:since::bigint, (extract(epoch FROM now()) * 1000000)::bigint)::text
);

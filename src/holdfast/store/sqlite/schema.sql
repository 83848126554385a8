-- The state of the schema itself: which migrations were applied, and the namespaces.

-- name: create_migrations
-- The one table that exists before the first migration.
CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL);

-- name: has_migrations
-- Whether the database has ever been migrated.
SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'migrations';

-- name: last_migration
-- The newest migration applied.
SELECT coalesce(max(number), 0) FROM migrations;

-- name: insert_migration
-- Remember that a migration was applied.
INSERT INTO migrations (number, applied_at) VALUES (:number, :now);

-- name: insert_namespace
-- Make a namespace known.
INSERT OR IGNORE INTO namespaces (name) VALUES (:name);

-- name: find_namespace
-- A namespace's number.
SELECT id FROM namespaces WHERE name = :name;

-- name: list_files
-- Which files a connection has open.
PRAGMA database_list;

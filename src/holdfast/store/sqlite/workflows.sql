-- Workflows: what has been registered or started.

-- name: newest_version
-- Versions that workers have registered, of one workflow or of all.
SELECT workflow, version, first_at
FROM registered
WHERE namespace_id = :namespace_id AND (:workflow IS NULL OR workflow = :workflow);

-- name: list_workflows
-- Lanes of this namespace with their runs counted by status. Counts walk an index; this is not for hot paths.
SELECT lanes.workflow, lanes.version, runs.status, count(runs.number)
FROM lanes
LEFT JOIN runs ON runs.lane_id = lanes.id
WHERE lanes.namespace_id = :namespace_id
GROUP BY lanes.id, runs.status;

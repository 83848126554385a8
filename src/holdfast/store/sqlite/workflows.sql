-- Workflows that were registered or started.

-- name: list_versions
-- Versions of one workflow or of all that workers have registered, and the queues on which live workers serve them. The
-- lanes of the workers are opened once, for no version is ever forgotten.
WITH served (workflow, version, queues) AS MATERIALIZED (
    SELECT json_extract(lane.value, '$[0]'), json_extract(lane.value, '$[1]'),
        json_group_array(DISTINCT json_extract(lane.value, '$[2]'))
    FROM workers
    CROSS JOIN json_each(workers.lanes) AS lane
    WHERE workers.namespace_id = :namespace_id AND workers.lease_until >= :now
        AND (:workflow IS NULL OR json_extract(lane.value, '$[0]') = :workflow)
    GROUP BY json_extract(lane.value, '$[0]'), json_extract(lane.value, '$[1]')
)
SELECT registered.workflow, registered.version, registered.first_at, registered.declared, coalesce(served.queues, '[]')
FROM registered
LEFT JOIN served ON served.workflow = registered.workflow AND served.version = registered.version
WHERE registered.namespace_id = :namespace_id AND (:workflow IS NULL OR registered.workflow = :workflow);

-- name: list_workflows
-- The lanes of this namespace, with their runs counted by status. It walks a whole index: not for hot paths.
SELECT lanes.workflow, lanes.version, runs.status, count(runs.number)
FROM lanes
JOIN runs ON runs.lane_id = lanes.id
WHERE lanes.namespace_id = :namespace_id
GROUP BY lanes.id, runs.status;

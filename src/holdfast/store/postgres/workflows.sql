-- Workflows that were registered or started.

-- name: list_versions
-- Versions of one workflow or of all that workers have registered, and the queues on which live workers serve them. The
-- lanes of the workers are opened once, for no version is ever forgotten.
WITH served AS MATERIALIZED (
    SELECT lane.value ->> 0 AS workflow, lane.value ->> 1 AS version, array_agg(DISTINCT lane.value ->> 2) AS queues
    FROM holdfast.workers
    CROSS JOIN json_array_elements(workers.lanes::json) AS lane (value)
    WHERE workers.namespace_id = :namespace_id
        AND workers.lease_until >= coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
        AND (:workflow::text IS NULL OR lane.value ->> 0 = :workflow::text)
    GROUP BY lane.value ->> 0, lane.value ->> 1
)
SELECT registered.workflow, registered.version, registered.first_at, registered.declared, served.queues
FROM holdfast.registered
LEFT JOIN served ON served.workflow = registered.workflow AND served.version = registered.version
WHERE registered.namespace_id = :namespace_id
    AND (:workflow::text IS NULL OR registered.workflow = :workflow::text);

-- name: list_workflows
-- The lanes of this namespace, with their runs counted by status. It walks a whole index: not for hot paths.
SELECT lanes.workflow, lanes.version, runs.status, count(runs.number)
FROM holdfast.lanes
JOIN holdfast.runs ON runs.lane_id = lanes.id
WHERE lanes.namespace_id = :namespace_id
GROUP BY lanes.id, runs.status;

"""What there is beside runs: workflows with their counts, workers, and the health of this server."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter
from starlette.responses import Response

from holdfast.errors import StoreAway

from .problems import Refused, declared
from .service import ServiceDep
from .shapes import Health, LaneShown, WorkerList, WorkerShown, WorkflowList, WorkflowShown

fleet = APIRouter(tags=["fleet"])
health = APIRouter(tags=["health"])
_TEXT = "text/plain; version=0.0.4; charset=utf-8"


@fleet.get("/v1/workflows", responses=declared(), summary="List workflows")
async def list_workflows(service: ServiceDep) -> WorkflowList:
    """Every workflow that was ever registered or started, with its runs counted by status."""
    found = await service.client.workflows()
    shown = [
        WorkflowShown(name=one.name, versions=list(one.versions), counts={**one.counts})  # type: ignore[dict-item]
        for one in found
    ]
    return WorkflowList(workflows=shown)


@fleet.get("/v1/workers", responses=declared(), summary="List workers")
async def list_workers(service: ServiceDep) -> WorkerList:
    """Every live worker, and what it serves."""
    return WorkerList(
        workers=[
            WorkerShown(
                id=one.id,
                host=one.host,
                pid=one.pid,
                started_at=one.started_at,
                renewed_at=one.renewed_at,
                lease_until=one.lease_until,
                lanes=[LaneShown(workflow=lane.workflow, version=lane.version, queue=lane.queue) for lane in one.lanes],
            )
            for one in await service.client.workers()
        ]
    )


@health.get("/healthz", summary="Is this server alive?")
async def healthz() -> Health:
    """200 whenever this server answers. It asks nobody else, and needs no key."""
    return Health()


@health.get("/readyz", responses={503: declared()[503]}, summary="Can this server reach its database?")
async def readyz(service: ServiceDep) -> Health:
    """200 if the database answers, else 503. Needs no key."""
    reason = await service.readiness.reason()
    if reason is not None:
        raise StoreAway(reason)
    return Health()


@health.get(
    "/metrics",
    status_code=200,
    response_class=Response,
    responses={
        **declared(404),
        200: {"description": "Prometheus's text format", "content": {"text/plain": {"schema": {"type": "string"}}}},
    },
    summary="Metrics for Prometheus",
)
async def metrics(service: ServiceDep) -> Response:
    """What this process has counted, if it was given a source of metrics."""
    if service.metrics is None:
        raise Refused(
            HTTPStatus.NOT_FOUND,
            "no-metrics",
            "this server has no metrics; `holdfast serve` and `holdfast dev` have them where holdfast[metrics] is "
            "installed, and api() where its client has a Prometheus or metrics= is given",
        )
    found = service.metrics()
    text, kind = found if isinstance(found, tuple) else (found, _TEXT)
    return Response(text, headers={"content-type": kind})

"""The audit log: every change is told, with who asked for it and what came of it."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from holdfast import AsyncClient
from holdfast.web import AuditRecord, api, new_key
from tests.web.stage import bearer, reached, served

OPERATE, OPERATE_KEY = new_key("operator", "operate")


async def test_the_audit_log_has_the_caller_deed_run_and_outcome_of_every_change(database_url):
    told: list[AuditRecord] = []
    async with served(database_url, keys=[OPERATE_KEY], audit=told.append) as made:
        headers = {**bearer(OPERATE), "x-request-id": "r-1"}
        body = {"input": ["4711-secret"], "id": "a/b"}
        await made.call("POST", "/v1/workflows/checkout/runs", body, headers=headers)
        await made.call("POST", "/v1/runs/a%2Fb/signals/s", "secret", headers=headers)
        await made.call("DELETE", "/v1/runs/a%2Fb", headers=headers)
        await made.call("POST", "/v1/hooks/secret-token", headers=headers)
        await made.call("POST", "/v1/events/e")
        await made.call("GET", "/v1/runs", headers=headers)
        await made.call("PUT", "/v1/runs/a%2Fb", headers=headers)
        await made.call("POST", "/v1/nowhere", headers=headers)
        await made.call("POST", "/v1/runs/a%2Fb/signals/s", content=b"secret", headers=headers)
    assert [(one.who, one.what, one.run_id, one.name, one.outcome, one.status) for one in told] == [
        ("operator", "start_run", "a/b", None, "done", 201),
        ("operator", "send_signal", "a/b", "s", told[1].outcome, told[1].status),
        ("operator", "delete_run", "a/b", None, "refused", 403),
        ("operator", "resume_hook", None, None, "refused", 404),
        ("nobody", "publish_event", None, "e", "refused", 401),
        ("operator", "PUT", None, None, "refused", 405),
        ("operator", "POST", None, None, "refused", 404),
        ("operator", "send_signal", "a/b", "s", "refused", 415),
    ]
    assert told[0].request_id == "r-1"
    assert (told[0].workflow, told[0].address) == ("checkout", "127.0.0.1")
    assert "secret" not in repr(told)


async def test_a_change_is_in_the_audit_log_before_it_is_answered(database_url):
    order: list[str] = []
    async with served(database_url, audit=lambda record: order.append(record.what)) as made:

        async def send(message: Any) -> None:
            order.append(message["type"])

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        scope = {"type": "http", "method": "POST", "path": "/v1/events/e", "headers": [], "query_string": b""}
        await made.app({**scope, "client": ("127.0.0.1", 1)}, receive, send)
    assert order == ["publish_event", "http.response.start", "http.response.body"]


async def test_an_audit_log_that_breaks_is_reported_and_the_answer_stays_true(database_url, caplog):
    def broken(record: AuditRecord) -> None:
        raise OSError("the disk is full")

    with caplog.at_level(logging.ERROR, "holdfast.web"):
        async with served(database_url, audit=broken) as made:
            assert (await made.call("POST", "/v1/events/e")).status_code == 202
    assert "the disk is full" in caplog.text


async def test_a_change_that_raises_is_logged_as_failed(database_url):
    told: list[AuditRecord] = []
    async with AsyncClient(database_url) as client:
        app = api(client, audit=told.append)
        app.state.holdfast = None
        async with reached(app) as http:
            with pytest.raises(AttributeError):
                await http.post("/v1/events/e")
    assert [(one.what, one.outcome, one.status) for one in told] == [("publish_event", "failed", 500)]


async def test_a_request_broken_off_by_the_end_of_the_server_is_logged_as_failed(database_url):
    """What it asked for may have happened, though nobody was answered."""
    told: list[AuditRecord] = []
    async with served(database_url, audit=told.append) as made:
        is_begun = asyncio.Event()

        async def receive() -> Any:
            is_begun.set()
            return await asyncio.Event().wait()

        async def send(message: Any) -> None:
            raise AssertionError(message)

        scope = {"type": "http", "method": "POST", "path": "/v1/events/e", "headers": [], "query_string": b""}
        request = asyncio.create_task(made.app({**scope, "client": ("127.0.0.1", 1)}, receive, send))
        await is_begun.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
    assert [(one.what, one.outcome, one.status) for one in told] == [("publish_event", "failed", 500)]


async def test_the_audit_log_is_a_logger_unless_another_place_is_given(database_url, caplog):
    with caplog.at_level(logging.INFO, "holdfast.audit"):
        async with served(database_url) as made:
            await made.call("POST", "/v1/events/paid", {"secret": 1}, headers={"x-request-id": "r-2"})
    [record] = [one for one in caplog.records if one.name == "holdfast.audit"]
    assert record.audit["what"] == "publish_event"  # type: ignore[attr-defined]
    assert "publish_event name='paid' by local from 127.0.0.1: done (202) [r-2]" in record.getMessage()
    assert "secret" not in record.getMessage()

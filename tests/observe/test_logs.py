"""Log records say which run, step and trace they belong to, and bodies are silent while they replay."""

from __future__ import annotations

import io
import json
import logging
import logging.handlers
import os
import queue
from collections.abc import Iterator
from typing import Any

import pytest

import holdfast
from holdfast import step, workflow
from holdfast.observe import JsonFormatter, LogContext
from holdfast.testing import Environment
from tests.observe.watchers import Traces
from tests.worker.stage import stage

PATIENCE = "60s"
plain = logging.getLogger("tests.observe.shop")


@step
async def on_the_loop() -> None:
    plain.info("on the loop")


@step
def in_a_thread() -> None:
    plain.info("in a thread", extra={"boxes": 2})


@workflow(name="shop", version="3")
async def shop() -> None:
    plain.info("begun")
    await on_the_loop()
    in_a_thread()
    await holdfast.wait_for_signal("go")
    holdfast.logger.info("over")


class Lines:
    """What a handler with the filter and the formatter has written."""

    def __init__(self) -> None:
        self._written = io.StringIO()
        self.handler = logging.StreamHandler(self._written)
        self.handler.addFilter(LogContext())
        self.handler.setFormatter(JsonFormatter())

    def all(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._written.getvalue().splitlines()]

    def one(self, message: str) -> dict[str, Any]:
        [found] = [line for line in self.all() if line["message"] == message]
        return found


@pytest.fixture
def lines() -> Iterator[Lines]:
    made = Lines()
    loggers = (plain, logging.getLogger("holdfast.run"))
    before = [(logger, logger.level) for logger in loggers]
    for logger in loggers:
        logger.addHandler(made.handler)
        logger.setLevel(logging.INFO)
    yield made
    for logger, level in before:
        logger.removeHandler(made.handler)
        logger.setLevel(level)


async def finished(url: str, **options: Any) -> str:
    """Have the workflow wait in one worker and end in another, so that its body is rebuilt."""
    async with stage(url, shop, **options) as on:
        run = await on.client.start(shop)
        await on.until_waiting(run)
    async with stage(url, shop, **options) as on:
        await on.client.signal(run.id, "go")
        await (await on.client.get_run(run.id)).result(timeout=PATIENCE)
    return run.id


async def test_any_logger_s_records_carry_the_run_and_the_step(database_url, lines):
    run_id = await finished(database_url)
    body, loop, thread = lines.one("begun"), lines.one("on the loop"), lines.one("in a thread")
    for line in (body, loop, thread):
        assert (line["run_id"], line["workflow"], line["workflow_version"]) == (run_id, "shop", "3")
    assert "step" not in body
    assert (loop["step"], loop["attempt"]) == ("on_the_loop", 1)
    assert (thread["step"], thread["boxes"]) == ("in_a_thread", 2)


async def test_a_body_is_silent_while_it_replays(database_url, lines):
    await finished(database_url)
    assert [line["message"] for line in lines.all()] == ["begun", "on the loop", "in a thread", "over"]


async def test_records_carry_the_trace_where_there_is_one(database_url, lines):
    traces = Traces()
    await finished(database_url, observers=[traces.observer()])
    whole = traces.one("workflow.run")
    inner = traces.one("workflow.step", step__name="in_a_thread")
    assert {line["trace_id"] for line in lines.all()} == {f"{whole.context.trace_id:032x}"}
    assert lines.one("begun")["span_id"] == f"{whole.context.span_id:016x}"
    assert lines.one("in a thread")["span_id"] == f"{inner.context.span_id:016x}"


async def test_a_record_inside_a_span_of_one_s_own_carries_that(database_url, lines):
    traces = Traces()

    @step
    async def tracing() -> str:
        with traces.tracer.start_as_current_span("mine") as span:
            plain.info("inside")
            return f"{span.get_span_context().span_id:016x}"

    @workflow
    async def body() -> str:
        return await tracing()

    async with stage(database_url, body, observers=[traces.observer()]) as on:
        span_id = await (await on.client.start(body)).result(timeout=PATIENCE)
    assert lines.one("inside")["span_id"] == span_id


def test_a_record_outside_any_run_has_the_fields_too_and_they_are_empty():
    record = logging.makeLogRecord({"msg": "hello"})
    assert LogContext().filter(record) is True
    assert (record.run_id, record.step, record.trace_id) == (None, None, None)
    assert "run_id" not in json.loads(JsonFormatter().format(record))


def test_a_record_with_an_exception_is_one_line():
    record = logging.makeLogRecord({"msg": "%s boxes", "args": (2,), "levelname": "ERROR", "name": "shop"})
    try:
        raise LookupError("nothing\nthere")
    except LookupError as error:
        record.exc_info = (type(error), error, error.__traceback__)
    line = JsonFormatter().format(record)
    assert "\n" not in line
    found = json.loads(line)
    assert (found["message"], found["level"], found["logger"]) == ("2 boxes", "ERROR", "shop")
    assert "LookupError: nothing" in found["exception"]


@pytest.mark.parametrize(
    ("extra", "shown"),
    [
        ({("a", 1): 2}, {'["a",1]': 2}),
        (float("nan"), None),
        (os.fsdecode(b"caf\xe9"), "caf\\udce9"),
        ({"ann", "bob"}, ["ann", "bob"]),
    ],
    ids=["a key that is no text", "no number", "half a character", "a set"],
)
def test_whatever_a_record_holds_is_one_line_of_json_in_utf_8(extra, shown):
    record = logging.makeLogRecord({"msg": "hello", "given": extra})
    line = JsonFormatter().format(record).encode()
    assert json.loads(line, parse_constant=pytest.fail)["given"] == shown


async def test_the_run_s_logger_needs_no_filter(database_url, caplog):
    @workflow(name="told")
    async def body() -> None:
        holdfast.logger.info("here")

    traces = Traces()
    with caplog.at_level(logging.INFO, "holdfast.run"):
        async with stage(database_url, body, observers=[traces.observer()]) as on:
            run = await on.client.start(body)
            await run.result(timeout=PATIENCE)
    [record] = [record for record in caplog.records if record.name == "holdfast.run"]
    assert (record.run_id, record.workflow, record.step) == (run.id, "told", None)
    assert record.trace_id == f"{traces.one('workflow.run').context.trace_id:032x}"


def test_what_a_record_says_of_itself_outside_a_run_stays(lines):
    plain.info("packing", extra={"step": "box", "attempt": 2})
    told = lines.one("packing")
    assert (told["step"], told["attempt"], "run_id" in told) == ("box", 2, False)


async def test_a_record_that_another_thread_writes_still_says_where_it_comes_from(database_url, lines):
    waiting: queue.Queue[Any] = queue.Queue()
    handing_on = logging.handlers.QueueHandler(waiting)
    handing_on.addFilter(LogContext())
    plain.removeHandler(lines.handler)
    plain.addHandler(handing_on)
    writing = logging.handlers.QueueListener(waiting, lines.handler)
    writing.start()
    try:
        async with stage(database_url, shop) as made:
            run = await made.client.start("shop")
            await made.until_waiting(run)
    finally:
        plain.removeHandler(handing_on)
        writing.stop()
    assert [(one["run_id"], one["step"]) for one in lines.all() if "step" in one] == [
        (run.id, "on_the_loop"),
        (run.id, "in_a_thread"),
    ]


async def test_a_child_of_the_runs_logger_is_silent_while_a_body_replays(caplog: pytest.LogCaptureFixture) -> None:
    log = holdfast.logger.getChild("billing").getChild("cards")

    @workflow
    async def speaking() -> None:
        log.info("said once")
        await on_the_loop()
        await on_the_loop()

    async with Environment([speaking]) as env:
        with caplog.at_level(logging.INFO):
            await (await env.client.start(speaking)).result()
    assert [record.workflow for record in caplog.records if record.msg == "said once"] == ["speaking"]

"""Stored exceptions of runs and steps, for those who ask for a result or read a journal."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.codec import Codec, message_of
from holdfast.errors import NotDecodable, StepFailed
from holdfast.model import RunRecord


def error_of(codec: Codec, stored: bytes | None, *, home: str | None = None) -> BaseException | None:
    """The exception that was stored, or a StepFailed that tells of it if its class can't be found here."""
    if not stored:
        return None
    try:
        return codec.decode_exception(stored, home=home)
    except NotDecodable:
        # A client need not have loaded the worker's modules: what was recorded about the error is enough to tell it.
        return codec.tell_exception(stored)


def with_report(record: RunRecord, codec: Codec) -> RunRecord:
    """The record with what blocks the run in plain words: if the codec encrypts, they are stored sealed."""
    return record if record.blocked is None else replace(record, blocked=codec.opened_text(record.blocked))


def described(error: BaseException | None, *, whole: bool = False) -> str:
    """An exception in one line, or with all that its message says."""
    if error is None:
        return "no error was recorded"
    text = message_of(error).strip()
    text = text if whole else text.partition("\n")[0]
    name = error.type.rpartition(".")[2] if isinstance(error, StepFailed) and error.type else type(error).__name__
    return f"{name}: {text}" if text else name

"""Retry policies that must type-check."""

from datetime import timedelta
from typing import assert_type

from holdfast.model import Retry

assert_type(Retry(), Retry)
assert_type(Retry().attempts, int | None)
Retry(attempts=None, initial="1s", max=timedelta(minutes=1), within=90.5, kind="linear")
Retry(on=(ConnectionError, TimeoutError), unless=(PermissionError,))
Retry(on=[ConnectionError, TimeoutError], unless=[PermissionError])

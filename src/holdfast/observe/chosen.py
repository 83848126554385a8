"""The observers that the settings ask for, where none were given."""

from __future__ import annotations

from holdfast.settings import Settings

from .observers import Observer
from .prometheus import Prometheus
from .tracing import Tracing


def observers_of(settings: Settings, *, is_worker: bool) -> list[Observer]:
    """The observers for the settings `metrics` and `tracing`.

    Only workers serve a metrics port, so a client's numbers need `observers=`.
    """
    found: list[Observer] = []
    if settings.metrics is not None and is_worker:
        host, port = settings.metrics
        found.append(Prometheus.shared(host=host, port=port))
    if settings.tracing:
        found.append(Tracing())
    return found

"""Clients: how applications start, watch and manage runs.

    Client ──▶ portal ──▶ AsyncClient ──▶ store
                             ├─ starts, retries    what a start writes, decided before anything is written
                             ├─ runs, listings     handles
                             ├─ watch              all waits of a client, answered by one query to the store
                             ├─ explain, journals  what happened, for readers
                             └─ archives           runs as lines of JSON, out and in

Only this room and the worker's know a store, and they don't know each other.
"""

from .archives import Imported, read_archive
from .archiving import Pruned
from .blocking import Client
from .clients import AsyncClient
from .explain import Explanation, Reason
from .handles import Run, Runs
from .journals import Journal, JournalEntry
from .listings import AsyncRuns
from .runs import AsyncRun, Cancellation
from .streams import StreamInfo, StreamItem, ValueInfo
from .twins import describe
from .unfinished import OpenStep, OpenWait

__all__ = [
    "AsyncClient",
    "AsyncRun",
    "AsyncRuns",
    "Cancellation",
    "Client",
    "Explanation",
    "Imported",
    "Journal",
    "JournalEntry",
    "OpenStep",
    "OpenWait",
    "Pruned",
    "Reason",
    "Run",
    "Runs",
    "StreamInfo",
    "StreamItem",
    "ValueInfo",
    "read_archive",
]

describe(Client, AsyncClient)
describe(Run, AsyncRun)

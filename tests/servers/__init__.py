"""Real servers for tests and benchmarks: a Postgres, and a PgBouncer before it.

Nothing here is skipped in silence. A server that can't be had is a `ServerMissing` that says what to install.
"""

from .account import ServerMissing
from .pgbouncer import PgBouncer
from .postgres import Databases, GivenPostgres, Installation, Postgres, execute, fetch, installations, provide

__all__ = [
    "Databases",
    "GivenPostgres",
    "Installation",
    "PgBouncer",
    "Postgres",
    "ServerMissing",
    "execute",
    "fetch",
    "installations",
    "provide",
]

"""`python -m tests.servers` gets what the package registry can't give: PgBouncer. `make test` runs it once."""

import sys

from . import ServerMissing, installations
from .pgbouncer import fetch

if __name__ == "__main__":
    for postgres in installations():
        print(f"Postgres {postgres.version}: {postgres.bin}")
    try:
        print(f"PgBouncer: {fetch()}")
    except ServerMissing as missing:
        sys.exit(str(missing))

"""A table of the user's in the store's own SQLite file, a transactional step that writes to it, and a look into it."""

from __future__ import annotations

import sqlite3

from holdfast import step
from tests.worker.stage import QUICK


@step(transaction=True, retry=QUICK)
def book(db: sqlite3.Connection, order: str) -> int:
    db.execute("INSERT INTO bookings (id) VALUES (?)", (order,))
    return int(db.execute("SELECT count(*) FROM bookings").fetchone()[0])


def booked(url: str) -> list[str]:
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    try:
        return [row[0] for row in connection.execute("SELECT id FROM bookings ORDER BY id")]
    finally:
        connection.close()


def is_locked(url: str) -> bool:
    """Whether somebody has the write lock."""
    connection = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=0, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
        return False
    except sqlite3.OperationalError:
        return True
    finally:
        connection.close()

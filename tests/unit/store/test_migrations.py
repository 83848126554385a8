"""Migrations: numbered, whole, and printable."""

import asyncio
import sqlite3

import pytest

from holdfast.errors import StoreTooNew
from holdfast.store import migration_sql, open_store
from holdfast.store.sqlite.migrations import migrations, split_statements


def tables(connection):
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name")
    return [(name, " ".join(sql.split())) for name, sql in rows]


def test_numbers_have_no_gaps():
    assert [number for number, _ in migrations()] == list(range(1, len(migrations()) + 1))


def test_a_script_is_split_into_its_statements():
    script = "-- a; comment;\nCREATE TABLE a (b TEXT DEFAULT ';');\n\nCREATE TRIGGER t AFTER INSERT ON a BEGIN\n"
    script += "    DELETE FROM a;\nEND;\nSELECT 1;\n"
    found = split_statements(script)
    assert [statement.split()[0] for statement in found[1:]] == ["CREATE", "SELECT"]
    assert len(found) == 3


def test_the_printed_migrations_are_those_that_are_applied(tmp_path):
    printed = sqlite3.connect(":memory:")
    printed.executescript(migration_sql("sqlite:///any.db"))

    async def opened():
        store = open_store(f"sqlite:///{tmp_path}/holdfast.db")
        await store.open()
        await store.close()

    asyncio.run(opened())
    applied = sqlite3.connect(tmp_path / "holdfast.db")
    assert tables(printed) == tables(applied)
    numbers = "SELECT number FROM migrations"
    assert printed.execute(numbers).fetchall() == applied.execute(numbers).fetchall()
    printed.close()
    applied.close()


def test_the_migrations_printed_for_an_existing_schema_are_those_it_lacks(monkeypatch):
    later = [*migrations(), (len(migrations()) + 1, "CREATE TABLE later (number INTEGER);")]
    connection = sqlite3.connect(":memory:")
    connection.executescript(migration_sql("sqlite:///any.db"))
    monkeypatch.setattr("holdfast.store.sqlite.migrations.migrations", lambda: later)
    connection.executescript(migration_sql("sqlite:///any.db", after=len(later) - 1))
    assert [name for name, _ in tables(connection)].count("later") == 1
    assert connection.execute("SELECT max(number) FROM migrations").fetchone() == (len(later),)
    connection.close()


def test_a_comment_is_printed_for_an_up_to_date_schema():
    assert migration_sql("sqlite:///any.db", after=len(migrations())).startswith("-- nothing is to be done")


@pytest.mark.parametrize("url", ["sqlite:///any.db", "postgresql://nowhere/x"])
def test_nothing_is_printed_for_a_schema_that_this_version_does_not_know(url):
    for number in (len(migrations()) + 50, 9999):
        with pytest.raises(StoreTooNew, match=f"number {number}.*correct the number, or upgrade"):
            migration_sql(url, after=number)

"""Numbered schemas, whatever the dialect: the migrations of a package, and which numbers this version works with.

A schema newer than this version's is left as it is, and used: migrations only add what old workers can do without, so
that those go on while a newer version is rolled out. A migration that old workers could not live with has a number in
the next thousand.
"""

from __future__ import annotations

from importlib import resources

from holdfast.errors import StoreTooNew

BREAKING = 1000
NOTHING_LACKING = "-- nothing is to be done: the database has this version's schema\n"


def migrations_of(package: str) -> list[tuple[int, str]]:
    """Every migration of a dialect's package with its number, in order."""
    folder = resources.files(package) / "migrations"
    found = [
        (int(file.name[:4]), file.read_text(encoding="utf-8")) for file in folder.iterdir() if file.name[:4].isdigit()
    ]
    return sorted(found)


def refuse_newer(applied: int, newest: int, shown: str) -> None:
    """Refuse a schema that this version can't work with. `shown` is the database's address, fit for messages."""
    if applied // BREAKING > newest // BREAKING:
        raise StoreTooNew(
            f"{shown}: its schema is number {applied}, and this Holdfast knows up to {newest}; upgrade Holdfast"
        )


def lacking_of(known: list[tuple[int, str]], applied: int) -> list[tuple[int, str]]:
    """The migrations of a dialect that a schema with this number lacks. Raises StoreTooNew for any newer number, even
    one that a store would accept: this number was written by hand, and may be mistyped."""
    newest = known[-1][0]
    if applied > newest:
        told = f"the database: its schema is number {applied}, and this Holdfast knows up to {newest}"
        raise StoreTooNew(f"{told}; correct the number, or upgrade Holdfast")
    return [one for one in known if one[0] > applied]

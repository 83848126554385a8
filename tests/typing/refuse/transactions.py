"""Transactional steps called as they are not meant to be."""

from __future__ import annotations

import sqlite3

from holdfast import step, workflow


@step(transaction=True)
def book(db: sqlite3.Connection, order: str) -> int:
    return 1


@step(transaction=True)
async def reserve(db: sqlite3.Connection, order: str) -> bytes:
    return b""


@step(transaction=True)  # refused: incompatible type
def nothing() -> None: ...


@workflow
async def order(db: sqlite3.Connection, name: str) -> None:
    book(db, name)  # refused: Too many arguments
    book(5)  # refused: incompatible type "int"; expected "str"
    book.start(db)  # refused: incompatible type "Connection"; expected "str"
    text: str = book(name)  # refused: Incompatible types in assignment
    number: int = await reserve(name)  # refused: Incompatible types in assignment
    await reserve(db, name)  # refused: Too many arguments

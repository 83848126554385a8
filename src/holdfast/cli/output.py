"""How answers are printed: tables and lines for people, JSON for programs. Only data goes to stdout."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO, TypeVar

import typer
from rich import progress
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from holdfast.codec import plain
from holdfast.errors import HoldfastError

from .terminals import printable, printable_lines

_WIDE = 100_000
_GAP = 2
_SHORT = 10
"""Characters, of a status or a date: columns no wider than this are not folded."""
_LEAST = 8
"""Characters that each folded column keeps at least."""
T = TypeVar("T")


def print_json(value: object) -> None:
    """Print a value as indented JSON."""
    sys.stdout.write(_json(value, indent=2) + "\n")


def print_json_line(value: object) -> None:
    """Print a value as one line of JSON and flush it, for programs that follow."""
    sys.stdout.write(json_line(value) + "\n")
    sys.stdout.flush()


def json_line(value: object) -> str:
    """Any value as one line of JSON."""
    return _json(value)


def print_answer(text: str, told: object, *, as_json: bool) -> None:
    """The whole answer of a command: `text` for people, `told` as JSON for programs."""
    if as_json:
        print_json(told)
    else:
        print_line(text)


def print_line(text: str = "") -> None:
    """Print text, without anything that would move a terminal's cursor."""
    sys.stdout.write(printable_lines(text) + "\n")
    # Programs read from a pipe that a worker is ready.
    sys.stdout.flush()


def print_note(text: str) -> None:
    """Print a line that is no data to stderr."""
    sys.stderr.write(printable(text) + "\n")


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]], *, spare: Sequence[str] = ()) -> None:
    """Print a table. Into a pipe, no cell is shortened and no column left out."""
    # Cells hold text of users, which is no markup.
    console = Console(markup=False, highlight=False, emoji=False)
    if console.is_terminal:
        console.print(table_of(headings, rows, width=console.width, spare=spare))
        return
    console.width = _WIDE
    with console.capture() as captured:
        console.print(table_of(headings, rows, width=_WIDE))
    # Rich pads the last column to its longest cell, which would fill a file with blanks.
    print_line("\n".join(line.rstrip() for line in captured.get().splitlines()))


def table_of(
    headings: Sequence[str], rows: Iterable[Sequence[object]], *, width: int, spare: Sequence[str] = ()
) -> Table:
    """A table for a console of that width.

    In a narrow one a time is its date, or today's hour, and the columns in `spare` are left out, in that order.
    """
    values = [list(row) for row in rows]
    cells = [[_cell(cell) for cell in row] for row in values]
    widths = _widths(headings, cells)
    if _total(widths) > width:
        cells = [[_short(cell) for cell in row] for row in values]
        widths = _widths(headings, cells)
    chosen = list(range(len(headings)))
    for heading in spare:
        if _total([widths[number] for number in chosen]) > width:
            chosen.remove(headings.index(heading))
    # An id is there to be copied, and a broken status or time is hard to read. So these columns are not folded if the
    # others have enough room.
    whole = {number for number in chosen if headings[number] == "ID" or widths[number] <= _SHORT}
    room = width - _total([widths[number] if number in whole else 0 for number in chosen])
    if room < _LEAST * (len(chosen) - len(whole)):
        whole.clear()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number in chosen:
        table.add_column(headings[number], overflow="fold", no_wrap=number in whole)
    for row in cells:
        table.add_row(*(row[number] for number in chosen))
    return table


def _widths(headings: Sequence[str], cells: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(cell_len, column)) for column in zip(headings, *cells, strict=True)]


def _total(widths: Sequence[int]) -> int:
    """The width of a table with these columns, gaps included."""
    return sum(widths) + _GAP * (len(widths) - 1)


def moment(at: datetime | None) -> str:
    """A time to the second, as text."""
    return "" if at is None else at.strftime("%Y-%m-%d %H:%M:%S")


def with_progress(items: Sequence[T], what: str) -> Iterator[T]:
    """The items, with a progress bar on stderr if that is a terminal."""
    console = Console(stderr=True)
    return iter(progress.track(items, what, console=console, transient=True, disable=not console.is_terminal))


def lines_of(file: Path, what: str) -> Iterator[str]:
    """The lines of a file, with a progress bar on stderr if that is a terminal."""
    console = Console(stderr=True)
    is_hidden = not console.is_terminal
    with (
        reading(file),
        progress.open(
            file, "r", encoding="utf-8", description=what, console=console, transient=True, disable=is_hidden
        ) as lines,
    ):
        yield from lines


@contextlib.contextmanager
def reading(file: Path | str) -> Iterator[None]:
    """Within this block, failing to read the file is reported with its name and what to do."""
    try:
        yield
    except FileNotFoundError:
        raise HoldfastError(f"there is no file {file}; name one that `export` or `prune --archive` wrote") from None
    except IsADirectoryError:
        raise HoldfastError(f"{file} is a folder; name a file in it") from None
    except OSError as error:
        raise HoldfastError(f"{file} can't be read: {reason_of(error)}; mend that, or name another file") from error
    except UnicodeDecodeError as error:
        what = "name one that `export` or `prune --archive` wrote"
        raise HoldfastError(f"{file} is not text in UTF-8 (byte {error.start}); {what}") from error


def check_readable(file: Path) -> None:
    """Report a file that can't be read, as `reading` does. It is not opened: a pipe can be opened once only."""
    with reading(file):
        file.stat()
        if file.is_dir():
            raise IsADirectoryError
        if not os.access(file, os.R_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


@contextlib.contextmanager
def writing(file: Path | None) -> Iterator[None]:
    """Within this block, failing to write the file is reported with its name and what to do. None: no file."""
    try:
        yield
    except OSError as error:
        if file is None:
            raise
        if file.is_dir():
            told = f"{file} is a folder; name a file in it"
        elif isinstance(error, FileExistsError):
            told = f"{file} is there already, and is not overwritten; name another file"
        elif not file.parent.is_dir():
            told = f"{file} can't be written: there is no folder {file.parent}; make it, or name another file"
        else:
            told = f"{file} can't be written: {reason_of(error)}; mend that, or name another file"
        raise HoldfastError(told) from error


def reason_of(error: OSError) -> str:
    """The system's message, without its number."""
    return str(error) if error.strerror is None else error.strerror[:1].lower() + error.strerror[1:]


def stdin_for(option: str) -> TextIO:
    """Standard input. Refused if the shell has closed it: Python sets sys.stdin to None then."""
    if sys.stdin is None:
        raise typer.BadParameter(
            "stdin is closed; pipe into it, or write what is meant in place of -", param_hint=option
        )
    return sys.stdin


def in_utf8(stream: TextIO) -> TextIO:
    """The stream in UTF-8, in which runs are exported whatever the terminal's encoding is."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(encoding="utf-8")
    return stream


def loading() -> contextlib.AbstractContextManager[object]:
    """Within this block the user's modules are loaded. What they print is no data of the command."""
    return contextlib.redirect_stdout(sys.stderr)


@contextlib.contextmanager
def spinner(what: str) -> Iterator[None]:
    """Show on stderr that something is under way, if that is a terminal."""
    console = Console(stderr=True)
    with console.status(what) if console.is_terminal else contextlib.nullcontext():
        yield


def confirm(question: str, is_confirmed: bool) -> None:
    """Ask before something is done to many runs. A no ends the command."""
    if is_confirmed:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise typer.BadParameter(f"{question} Nobody is there to answer: say --yes", param_hint="--yes")
    try:
        typer.confirm(question, abort=True, err=True)
    except typer.Abort as aborted:
        # Typer aborts for a no and for Ctrl-C. The latter ends a command as it does everywhere else.
        if isinstance(aborted.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise


def _json(value: object, indent: int | None = None) -> str:
    # Where the encoding lacks a character, Python's own escape for it would not be JSON.
    is_whole = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    return json.dumps(plain(value), ensure_ascii=not is_whole, indent=indent)


def _cell(value: object) -> str:
    if isinstance(value, datetime):
        return moment(value)
    return "" if value is None else printable(str(value))


def _short(value: object) -> str:
    if isinstance(value, datetime):
        return value.strftime("%H:%M:%S" if value.date() == datetime.now(UTC).date() else "%Y-%m-%d")
    return _cell(value)

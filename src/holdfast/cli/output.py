"""How answers are printed: tables and lines for people, JSON for programs. Data goes to stdout, everything else not."""

from __future__ import annotations

import contextlib
import io
import json
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
"""Characters, of a status or a date: columns no wider than that are not folded."""
_LEAST = 8
"""What each column that is folded has to keep."""
T = TypeVar("T")


def print_json(value: object) -> None:
    """One JSON text."""
    sys.stdout.write(_json(value, indent=2) + "\n")


def print_json_line(value: object) -> None:
    """One JSON text on one line, at once: for whoever follows."""
    sys.stdout.write(json_line(value) + "\n")
    sys.stdout.flush()


def json_line(value: object) -> str:
    """Any value as one line of JSON."""
    return _json(value)


def print_answer(text: str, told: object, *, as_json: bool) -> None:
    """The whole answer of a command: a line for people, or what it told for programs."""
    if as_json:
        print_json(told)
    else:
        print_line(text)


def print_line(text: str = "") -> None:
    """A line as it is, without anything that would move a terminal's cursor."""
    sys.stdout.write(printable_lines(text) + "\n")
    # Whoever waits for a worker to be ready reads this from a pipe.
    sys.stdout.flush()


def print_note(text: str) -> None:
    """A line that is no data, to stderr."""
    sys.stderr.write(printable(text) + "\n")


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]], *, spare: Sequence[str] = ()) -> None:
    """A table; to a pipe no cell is ever shortened, and no column left out."""
    # Cells hold what users wrote, which must not be taken for markup.
    console = Console(markup=False, highlight=False, emoji=False)
    if console.is_terminal:
        console.print(table_of(headings, rows, width=console.width, spare=spare))
        return
    console.width = _WIDE
    with console.capture() as captured:
        console.print(table_of(headings, rows, width=_WIDE))
    # The last column is padded, too, by as much as its longest cell: in a file these are pages of nothing.
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
    # An id is there to be copied, and a broken status or time is hard to read: they are left whole, and the rest is
    # folded, where the rest has room for that.
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
    """The width of a table whose columns have these, with the gaps between them."""
    return sum(widths) + _GAP * (len(widths) - 1)


def moment(at: datetime | None) -> str:
    """A time to the second."""
    return "" if at is None else at.strftime("%Y-%m-%d %H:%M:%S")


def tracked(items: Sequence[T], what: str) -> Iterator[T]:
    """The items, with a bar on stderr while they are gone through, if somebody looks."""
    console = Console(stderr=True)
    return iter(progress.track(items, what, console=console, transient=True, disable=not console.is_terminal))


def lines_of(file: Path, what: str) -> Iterator[str]:
    """The lines of a file, with a bar on stderr while they are gone through, if somebody looks."""
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
    """Inside, a file that can't be read is told by its name, with what to do."""
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


@contextlib.contextmanager
def writing(file: Path | None) -> Iterator[None]:
    """Inside, a file that can't be written is told by its name, with what to do. None: there is none to write."""
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
    """What the system says, without its number."""
    return str(error) if error.strerror is None else error.strerror[:1].lower() + error.strerror[1:]


def in_utf8(stream: TextIO) -> TextIO:
    """The stream in the encoding that runs are exported in, whatever else is printed in."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(encoding="utf-8")
    return stream


@contextlib.contextmanager
def working(what: str) -> Iterator[None]:
    """A sign on stderr that something is under way, if somebody looks."""
    console = Console(stderr=True)
    with console.status(what) if console.is_terminal else contextlib.nullcontext():
        yield


def agreed(question: str, is_agreed: bool) -> None:
    """Ask before something is done to many; ends the command if the answer is no."""
    if is_agreed:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise typer.BadParameter(f"{question} Nobody is there to answer: say --yes", param_hint="--yes")
    try:
        typer.confirm(question, abort=True, err=True)
    except typer.Abort as aborted:
        # A no, and a Ctrl-C: that one ends a command as it does everywhere else.
        if isinstance(aborted.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise


def _json(value: object, indent: int | None = None) -> str:
    # An encoding that lacks a letter would write an escape of its own, which is no JSON.
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

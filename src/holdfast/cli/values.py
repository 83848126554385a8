"""values, streams: the values that a run has set, and the streams that it sends."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from holdfast.client import Run, StreamItem
from holdfast.codec import Shown
from holdfast.errors import HoldfastError
from holdfast.model import counted

from .options import Json, Place, RunId
from .output import print_json, print_json_line, print_line, print_table

_MISSING: Any = object()


def values(
    run_id: RunId,
    name: Annotated[
        str | None, typer.Argument(help="Print only this value.", metavar="NAME", show_default=False)
    ] = None,
    *,
    place: Place,
    as_json: Json = False,
) -> None:
    """List the values that a run has set, or print one of them as JSON."""
    with place.client() as client:
        run = client.get_run(run_id)
        if name is not None:
            found = run.value(name, default=_MISSING, type=Shown)
            if found is _MISSING:
                known = ", ".join(one.name for one in run.values(limit=20)) or "none"
                raise HoldfastError(f"run {run_id} has set no value {name!r}; there are: {known}")
            print_json(found)
            return
        listed = run.values()
    if as_json:
        print_json([{"name": one.name, "size": one.size, "set_at": one.set_at} for one in listed])
    elif listed:
        print_table(["NAME", "BYTES", "SET"], [[one.name, one.size, one.set_at] for one in listed])
    else:
        print_line("no values")


def streams(
    run_id: RunId,
    name: Annotated[
        str | None, typer.Argument(help="Print the items of this stream.", metavar="NAME", show_default=False)
    ] = None,
    *,
    after: Annotated[int, typer.Option("--after", help="Only items after this offset.", min=0)] = 0,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on printing until the run ends.")] = False,
    place: Place,
    as_json: Json = False,
) -> None:
    """List the streams of a run, or print the items of one: each value as JSON, or with --json all about each item."""
    if name is None and (after or follow):
        raise typer.BadParameter("name the stream: there may be several", param_hint="NAME")
    with place.client() as client:
        run = client.get_run(run_id)
        if name is not None:
            _print_items(run, name, after, follow, as_json)
            return
        listed = run.streams()
    if as_json:
        print_json([{"name": one.name, "last": one.last} for one in listed])
    elif listed:
        print_table(["NAME", "HOLDS"], [[one.name, counted(one.last, "item")] for one in listed])
    else:
        print_line("no streams")


def _print_items(run: Run[Any], name: str, after: int, follow: bool, as_json: bool) -> None:
    last = None if follow else next((one.last for one in run.streams() if one.name == name), 0)
    if last is not None and last <= after:
        return
    for item in run.stream(name, after=after, type=Shown):
        print_json_line(_as_json(item) if as_json else item.value)
        if last is not None and item.offset >= last:
            return


def _as_json(item: StreamItem[Any]) -> dict[str, Any]:
    return {name: getattr(item, name) for name in ("offset", "value", "step", "attempt", "at", "reset", "origin_id")}

"""signal, publish, hook: what the outside sends to runs."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import Json, MessageId, Payload, Place, RunId, json_given
from .output import print_json, print_line


def signal(
    run_id: RunId,
    name: Annotated[str, typer.Argument(help="The signal's name.")],
    *,
    payload: Payload = None,
    message_id: MessageId = None,
    place: Place,
    as_json: Json = False,
) -> None:
    """Send a signal to a run."""
    value = json_given(payload, "--payload")
    with place.client() as client:
        client.signal(run_id, name, value, message_id=message_id)
    if as_json:
        print_json({"id": run_id, "signal": name, "sent": True})
    else:
        print_line(f"sent {name} to run {run_id}")


def publish(
    event: Annotated[str, typer.Argument(help="The event's name.")],
    *,
    payload: Payload = None,
    message_id: MessageId = None,
    place: Place,
    as_json: Json = False,
) -> None:
    """Publish an event to all runs that wait for it, and to workflows that begin with it."""
    value = json_given(payload, "--payload")
    with place.client() as client:
        client.publish(event, value, message_id=message_id)
    if as_json:
        print_json({"event": event, "published": True})
    else:
        print_line(f"published {event}")


def hook(
    token: Annotated[str, typer.Argument(help="The token that the run gave out; '-' reads it from stdin.")],
    *,
    payload: Payload = None,
    message_id: MessageId = None,
    place: Place,
    as_json: Json = False,
) -> None:
    """Resume the run that waits for a hook. A token works once."""
    if token == "-" and payload == "-":
        raise typer.BadParameter("only one of token and payload can be read from stdin", param_hint="--payload")
    if token == "-":
        # Other processes of this machine can read a command line, and a token is a key.
        token = typer.get_text_stream("stdin").readline().strip()
    value = json_given(payload, "--payload")
    with place.client() as client:
        client.resume_hook(token, value, message_id=message_id)
    if as_json:
        print_json({"resumed": True})
    else:
        print_line("resumed")

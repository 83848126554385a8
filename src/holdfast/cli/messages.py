"""signal, publish, hook: commands that send something to runs."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import Json, Message, Place, RunId, wrong_usage
from .output import print_answer, stdin_for


def signal(
    run_id: RunId,
    name: Annotated[str, typer.Argument(help="The signal's name.", metavar="NAME")],
    *,
    message: Message,
    place: Place,
    as_json: Json = False,
) -> None:
    """Send a signal to a run."""
    value = message.value()
    with place.client() as client, wrong_usage():
        client.signal(run_id, name, value, message_id=message.message_id)
    print_answer(f"sent {name} to run {run_id}", {"id": run_id, "signal": name, "sent": True}, as_json=as_json)


def publish(
    event: Annotated[str, typer.Argument(help="The event's name.", metavar="EVENT")],
    *,
    message: Message,
    place: Place,
    as_json: Json = False,
) -> None:
    """Publish an event to all runs that wait for it, and to workflows that begin with it."""
    value = message.value()
    with place.client() as client, wrong_usage():
        client.publish(event, value, message_id=message.message_id)
    print_answer(f"published {event}", {"event": event, "published": True}, as_json=as_json)


def hook(
    token: Annotated[
        str, typer.Argument(help="The token that the run gave out; '-' reads it from stdin.", metavar="TOKEN")
    ],
    *,
    message: Message,
    place: Place,
    as_json: Json = False,
) -> None:
    """Resume the run that waits for a hook. A token works once."""
    if token == "-" and message.payload == "-":
        raise typer.BadParameter(
            "only one of token and payload can be read from stdin; write the other one", param_hint="--payload"
        )
    if token == "-":
        # A token is a key, and other processes of this machine can read a command line.
        stdin_for("TOKEN")
        token = typer.get_text_stream("stdin").readline().strip()
    value = message.value()
    with place.client() as client, wrong_usage():
        client.resume_hook(token, value, message_id=message.message_id)
    print_answer("resumed", {"resumed": True}, as_json=as_json)

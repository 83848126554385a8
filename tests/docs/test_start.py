"""The first page does what it says: files are made, commands are run, in one shell, and print what the page shows.

Only `pip install` is not run: what it names is compared with what the package offers. And `sleep` does not sleep: it
waits until the command before it has printed what the page says and a run waits for its time, so that no machine is too
slow for the page.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, blocks_of, commands_of

START = DOCS / "start.md"

# Background commands get a process group each, as in a terminal, so that %1 is a job that can be killed.
_SHELL = r"""
set -m
say() { printf '\n=== %s\n' "$1"; }
sleep() { until_printed; python -c "$UNTIL_WAITING"; }
until_printed() {
    for turn in {1..5600}; do
        [ "$(sed -n "/^=== $step\$/,\$p" "$OUT" | grep -cv -e '^===' -e '^$')" -ge "$lines" ] && return
        command sleep 0.05
    done
}
"""


_UNTIL_WAITING = """
import time
from holdfast import Client, RunFilter
with Client() as client:
    while not list(client.runs(RunFilter(status="waiting"))):
        time.sleep(0.02)
"""


def played(page: Path, folder: Path) -> list[tuple[str, list[str], list[str]]]:
    """Each command of a page, the lines that it should print and those that it printed."""
    script, told = [_SHELL], []
    for block in blocks_of(page):
        if block.title is not None:
            script.append(f"cat > {block.title} <<'END_OF_FILE'\n{block.text}END_OF_FILE")
        if block.language != "console":
            continue
        for command, lines in commands_of(block):
            if command.startswith("pip install"):
                continue
            step = len(told)
            told.append((command, lines))
            script += [f"step={step} lines={len(lines)}", f"say {step}", command]
            if command.endswith("&"):
                script.append("until_printed")
    out = folder / "printed"
    with out.open("wb") as stream:
        ran = subprocess.run(
            ["bash", "-c", "\n".join([*script, "say end", "wait"])],
            cwd=folder,
            env={
                **{name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")},
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "PYTHONPATH": str(ROOT / "src"),
                "OUT": str(out),
                "UNTIL_WAITING": _UNTIL_WAITING,
            },
            stdout=stream,
            stderr=subprocess.PIPE,
            check=False,
            timeout=280,
        )
    parts = re.split(r"^=== (\w+)$", out.read_text("utf-8"), flags=re.MULTILINE)
    printed = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert "end" in printed, ran.stderr.decode()
    return [
        (command, lines, [line for line in printed[str(step)].splitlines() if line])
        for step, (command, lines) in enumerate(told)
    ]


def agree(said: str, printed: str) -> bool:
    """Three dots stand for anything."""
    return re.fullmatch(".*".join(re.escape(part) for part in said.split("...")), printed) is not None


def missing(said: list[str], printed: list[str]) -> list[str]:
    """Lines that a page shows and a command did not print, in that order."""
    left = iter(printed)
    return [line for line in said if not any(agree(line, other) for other in left)]


@pytest.fixture(scope="module")
def session(tmp_path_factory) -> list[tuple[str, list[str], list[str]]]:
    return played(START, tmp_path_factory.mktemp("start"))


def test_every_command_prints_what_the_page_shows(session):
    assert [(command, lost, printed) for command, said, printed in session if (lost := missing(said, printed))] == []


def test_the_card_is_charged_once_although_the_script_was_killed(session):
    script = [line for command, _, printed in session if "python shop.py" in command for line in printed]
    assert script.count("charging 1200 cents to 4242") == 1


def test_packages_that_the_page_installs_exist():
    commands = [
        command for block in blocks_of(START) if block.language == "console" for command, _ in commands_of(block)
    ]
    [installed] = [command for command in commands if command.startswith("pip install")]
    name, extras = re.fullmatch(r"pip install '(\w+)\[([\w,]+)\]'", installed).groups()
    assert set(extras.split(",")) <= set(importlib.metadata.metadata(name).get_all("Provides-Extra"))


def test_a_line_that_a_command_does_not_print_is_found():
    assert missing(["one", "... 3", "two"], ["one", "number 3", "too"]) == ["two"]

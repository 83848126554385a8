"""What was found, and the comments that allow it: `# holdfast: allow[code]`, on the same line."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

CODES = {
    "clock": "reads a clock; holdfast.now() is the same on every replay",
    "random": "draws at random; holdfast.rng() and holdfast.uuid4() are the same on every replay",
    "sleep": "blocks the worker; holdfast.sleep() is durable",
    "io": "reads or writes files or the terminal; move it into a step",
    "network": "talks to a network or a database; move it into a step",
    "process": "starts or ends processes; move it into a step",
    "thread": "uses threads, in which steps are plain calls; move it into a step, a `def` step has a thread of its own",
    "environment": "depends on the machine that it runs on; pass it in as an argument, or read it in a step",
    "unordered": "iterates in an order that is another one in another process; use sorted(...)",
    "identity": "differs between processes; use a value of your own, as hashlib makes one",
    "asyncio": "needs a real event loop; move it into a step",
    "await": "is never awaited; write `await` before it",
    "client": "is a client call; use the durable function, or do it in a step",
    "resource": "is a resource, which only steps may use; move it into a step",
    "global": "changes state outside the run, which no replay restores; keep it in local names",
    "allow": "is no comment that allows anything; write # holdfast: allow[code]",
    "syntax": "can't be parsed",
}
"""Every code and its meaning."""

_COMMENT = re.compile(r"#\s*holdfast:\s*(?P<what>.*)")
_ALLOW = re.compile(r"allow\[(?P<codes>[^\]]*)\]")


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One hazard: where it is, and what to do about it."""

    path: str
    line: int
    column: int
    code: str
    message: str
    end_line: int = 0

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.code} {self.message}"


class Allowances:
    """The allowing comments of one file."""

    def __init__(self, path: str, text: str) -> None:
        self._lines: dict[int, frozenset[str]] = {}
        self.wrong: list[Finding] = []
        for line, column, comment in _comments(text):
            if (found := _COMMENT.search(comment)) is None:
                continue
            allowed = _ALLOW.match(found["what"])
            codes = frozenset(code.strip() for code in allowed["codes"].split(",")) if allowed else frozenset()
            unknown = sorted(codes - CODES.keys())
            if not codes or unknown:
                told = f"{', '.join(unknown)}: no such code" if unknown else f"{comment!r} allows nothing"
                known = ", ".join(code for code in CODES if code not in ("allow", "syntax"))
                message = f"{told}; write # holdfast: allow[code] with one of {known}"
                self.wrong.append(Finding(path, line, column + 1, "allow", message, line))
            self._lines[line] = codes

    def without(self, findings: Iterable[Finding]) -> list[Finding]:
        """The findings that no comment on one of their lines allows."""
        return [one for one in findings if not any(one.code in codes for codes in self._on(one))]

    def _on(self, finding: Finding) -> Iterator[frozenset[str]]:
        for line in range(finding.line, max(finding.line, finding.end_line) + 1):
            if line in self._lines:
                yield self._lines[line]


def _comments(text: str) -> Iterator[tuple[int, int, str]]:
    # By tokens: text inside a string is no comment.
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.start[1], token.string

"""When the product is broken on purpose, some seed has to notice and to name the broken law."""

from __future__ import annotations

import pytest

from holdfast.testing.simulation import run_seed


def assert_noticed(*laws: str, within: int = 400, first: int = 0) -> None:
    """One of these seeds breaks one of these laws; whatever else the breakage breaks may be told by others.

    `first` is near one that does: a test that looks at hundreds of worlds before it finds what it looks for is slow.
    """
    told: dict[str, list[int]] = {}
    for seed in (*range(first, first + within), *range(min(first, within))):
        report = run_seed(seed)
        if report.law in laws:
            assert f"--seed {seed} " in str(report)
            assert report.tail
            return
        if report.law is not None:
            told.setdefault(report.law, []).append(seed)
    pytest.fail(f"no seed from {first} on breaks {' or '.join(laws)}; broken were {told}")

"""Ids: unique in the world, and in order of creation when sorted as text."""

from __future__ import annotations

import secrets
import time


def new_id() -> str:
    """A UUID of version 7 as text: milliseconds first, the rest random."""
    value = (time.time_ns() // 1_000_000 & (1 << 48) - 1) << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

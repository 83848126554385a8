"""Types that are written as one string: times, numbers, ids, paths, bytes.

Each has a writer, a reader and a tag, which marks the string where no annotation gives its type. A reader raises one of
UNREADABLE for text that it can't read.
"""

from __future__ import annotations

import binascii
import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec

from holdfast.codec.shapes import Unstorable, type_name


@dataclass(frozen=True, slots=True)
class Text:
    type: type
    tag: str
    write: Callable[[Any], str]
    read: Callable[[str], Any]


_FOLD = "[fold=1]"


def _write_moment(moment: datetime | time) -> str:
    text, zone = moment.isoformat(), moment.tzinfo
    # With the offset alone the zone would be lost, and arithmetic across a clock change would differ on replay.
    if type(zone) is ZoneInfo and zone.key:
        text += f"[{zone.key}]"
    elif zone is not None and type(zone) is not timezone and not _is_fixed(zone, moment):
        raise Unstorable(f"{_zone_name(zone)} would come back as a fixed offset: {_ZONES}, or moment.astimezone(UTC)")
    # In the hour that clocks repeat, `fold` says which of the two is meant, unless the text has an offset.
    return text + _FOLD if moment.fold and (zone is None or type(moment) is time) else text


_ZONES = "use a zone that has a key, such as ZoneInfo('Europe/Berlin')"


def _is_fixed(zone: tzinfo, moment: datetime | time) -> bool:
    """Whether the zone of another library has one offset for all times, so that nothing is lost with the zone itself.

    Such a zone needs no moment to tell its offset, and any other can't without one.
    """
    try:
        offset = zone.utcoffset(None)
    except Exception:  # not made to be asked so
        return False
    return offset is not None and offset == moment.utcoffset()


def _zone_name(zone: tzinfo) -> str:
    return "a ZoneInfo without a key" if type(zone) is ZoneInfo else f"a zone of the type {type_name(type(zone))}"


def _write_zone(zone: ZoneInfo) -> str:
    if not zone.key:
        raise Unstorable(f"{_zone_name(zone)} can't be found again: {_ZONES}")
    return zone.key


def _parts(text: str) -> tuple[str, str, int]:
    """The ISO text, the zone's key (or "") and the fold."""
    stamp, _, key = text.removesuffix(_FOLD).partition("[")
    return stamp, key.removesuffix("]"), 1 if text.endswith(_FOLD) else 0


def _read_datetime(text: str) -> datetime:
    if not text.endswith("]"):
        return datetime.fromisoformat(text)
    stamp, key, fold = _parts(text)
    written = datetime.fromisoformat(stamp)
    if not key:
        return written.replace(fold=fold)
    zone = ZoneInfo(key)
    for fold in (0, 1):
        moment = written.replace(tzinfo=zone, fold=fold)
        if moment.utcoffset() == written.utcoffset():
            return moment
    # The zone's rules have changed since this was written: keep the instant, not the local time.
    return written.astimezone(zone)


def _read_time(text: str) -> time:
    if not text.endswith("]"):
        return time.fromisoformat(text)
    stamp, key, fold = _parts(text)
    moment = time.fromisoformat(stamp).replace(fold=fold)
    return moment.replace(tzinfo=ZoneInfo(key)) if key else moment


def _write_timedelta(span: timedelta) -> str:
    return str(msgspec.to_builtins(span))


def _read_timedelta(text: str) -> timedelta:
    return msgspec.convert(text, timedelta)


def _write_bytes(data: bytes | bytearray) -> str:
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def _read_bytes(text: str) -> bytes:
    return binascii.a2b_base64(text, strict_mode=True) if text else b""


def _write_fraction(value: Fraction) -> str:
    try:
        return str(value)
    except ValueError:
        raise Unstorable("Fraction of too many digits: store it as bytes") from None


def _plain(cls: type, tag: str) -> Text:
    return Text(cls, tag, str, cls)


TEXTS: dict[type, Text] = {
    text.type: text
    for text in (
        Text(datetime, "datetime", _write_moment, _read_datetime),
        Text(date, "date", date.isoformat, date.fromisoformat),
        Text(time, "time", _write_moment, _read_time),
        Text(timedelta, "timedelta", _write_timedelta, _read_timedelta),
        Text(bytes, "bytes", _write_bytes, _read_bytes),
        Text(bytearray, "bytearray", _write_bytes, lambda text: bytearray(_read_bytes(text))),
        Text(type(Path()), "path", str, Path),
        _plain(Decimal, "decimal"),
        _plain(UUID, "uuid"),
        Text(Fraction, "fraction", _write_fraction, Fraction),
        _plain(PurePosixPath, "posixpath"),
        _plain(PureWindowsPath, "windowspath"),
        _plain(ipaddress.IPv4Address, "ipv4address"),
        _plain(ipaddress.IPv6Address, "ipv6address"),
        _plain(ipaddress.IPv4Network, "ipv4network"),
        _plain(ipaddress.IPv6Network, "ipv6network"),
        _plain(ipaddress.IPv4Interface, "ipv4interface"),
        _plain(ipaddress.IPv6Interface, "ipv6interface"),
        Text(ZoneInfo, "zoneinfo", _write_zone, ZoneInfo),
    )
}


def is_drivers_uuid(cls: type) -> bool:
    """Whether it is the class that asyncpg has for the UUIDs of a database.

    It differs from UUID in its speed only, and callers know it as UUID. So it comes back as UUID, which no other
    subclass does.
    """
    return cls.__module__ == "asyncpg.pgproto.pgproto" and issubclass(cls, UUID)


TEXTS_BY_TAG: dict[str, Text] = {text.tag: text for text in TEXTS.values()}

# An annotation and the concrete class of its values on this platform.
CONCRETE: dict[object, type] = {Path: type(Path()), PurePath: type(PurePath())}

UNREADABLE = (ValueError, ArithmeticError, KeyError, TypeError, msgspec.ValidationError, OSError)

"""The zones of datetimes and times: each comes back as it was or as an offset that says the same, or is refused."""

import re
import zoneinfo
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from importlib import resources
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pydantic
import pytest

from holdfast.codec import Codec
from holdfast.errors import NotEncodable

codec = Codec()
SUMMER = datetime(2024, 7, 1, 12)


class Changing(tzinfo):
    """Has clocks that change, and no key, as the zones of dateutil and pytz."""

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        return None if moment is None else timedelta(hours=2 if 4 <= moment.month <= 9 else 1)

    def dst(self, moment: datetime | None) -> timedelta | None:
        return None

    def tzname(self, moment: datetime | None) -> str:
        return "changing"


class Careless(Changing):
    """Can't be asked without a moment."""

    def utcoffset(self, moment: Any) -> timedelta:
        return timedelta(hours=moment.month)


class Misleading(Changing):
    """Tells an offset without a moment, and another with one."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        return timedelta(hours=1 if moment is None else 2)


class Fixed(Changing):
    """Has one offset for all times, as the zones that pydantic reads."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        return timedelta(hours=3)


def keyless() -> ZoneInfo:
    for root in zoneinfo.TZPATH:
        path = Path(root) / "Europe/Berlin"
        if path.exists():
            with path.open("rb") as file:
                return ZoneInfo.from_file(file)
    with resources.files("tzdata.zoneinfo.Europe").joinpath("Berlin").open("rb") as file:
        return ZoneInfo.from_file(file)


@pytest.mark.parametrize("annotation", [datetime, Any])
@pytest.mark.parametrize(
    ("zone", "told"),
    [
        (keyless(), "a ZoneInfo without a key"),
        (Changing(), "a zone of the type tests.unit.codec.test_zones.Changing"),
        (Careless(), "a zone of the type tests.unit.codec.test_zones.Careless"),
        (Misleading(), "a zone of the type tests.unit.codec.test_zones.Misleading"),
    ],
)
def test_a_zone_that_would_be_lost_is_refused_with_what_to_use(annotation: Any, zone: tzinfo, told: str):
    advice = "would come back as a fixed offset: use a zone that has a key, such as ZoneInfo('Europe/Berlin')"
    for value in (SUMMER.replace(tzinfo=zone), [SUMMER.replace(tzinfo=zone)]):
        made = codec.value(annotation if isinstance(value, datetime) else list[annotation])
        with pytest.raises(NotEncodable, match=re.escape(f"{told} {advice}")):
            made.encode(value)


@pytest.mark.parametrize("zone", [keyless(), Changing()])
def test_a_zone_of_a_time_that_would_be_lost_is_refused(zone: tzinfo):
    value = SUMMER.replace(tzinfo=zone).timetz()
    with pytest.raises(NotEncodable, match="would come back as a fixed offset"):
        codec.value(type(value)).encode(value)


def test_a_zone_without_a_key_is_refused_by_itself_too():
    with pytest.raises(NotEncodable, match=r"a ZoneInfo without a key can't be found again: use a zone that has a key"):
        codec.value(ZoneInfo).encode(keyless())


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=3)), Fixed()])
def test_an_offset_that_is_the_same_at_all_times_comes_back_as_that_offset(zone: tzinfo):
    made = codec.value(datetime)
    moment = SUMMER.replace(tzinfo=zone)
    back = made.decode(made.encode(moment))
    assert back == moment
    assert type(back.tzinfo) is timezone
    assert back + timedelta(days=180) == moment + timedelta(days=180)


def test_a_moment_that_pydantic_has_read_comes_back():
    moment = pydantic.TypeAdapter(datetime).validate_python("2024-01-01T12:00:00+05:30")
    made = codec.value(datetime)
    assert made.decode(made.encode(moment)) == moment

"""Types that describe themselves to pydantic and to nobody else."""

from datetime import UTC, date, datetime, timedelta
from ipaddress import IPv4Address
from zoneinfo import ZoneInfo

import pydantic
import pytest

from holdfast.codec import Codec
from holdfast.errors import NotDecodable, NotEncodable

codec = Codec()
BERLIN = ZoneInfo("Europe/Berlin")


class Visit(pydantic.BaseModel):
    at: pydantic.AwareDatetime


def there_and_back(annotation, value):
    made = codec.value(annotation)
    return made.decode(made.encode(value))


def test_a_moment_keeps_its_zone():
    """An offset alone gives the same instant, but another one a day later if the clocks change."""
    moment = datetime(2024, 3, 30, 12, tzinfo=BERLIN)
    for back in (
        there_and_back(pydantic.AwareDatetime, moment),
        there_and_back(pydantic.AwareDatetime | str | None, moment),
        there_and_back(Visit, Visit(at=moment)).at,
    ):
        assert back == moment
        assert back.tzinfo is BERLIN
        assert back + timedelta(days=1) == moment + timedelta(days=1)


def test_the_second_of_two_hours_that_the_clocks_show_alike_stays_the_second():
    assert there_and_back(pydantic.NaiveDatetime, datetime(2024, 10, 27, 2, 30, fold=1)).fold == 1


def test_a_moment_with_an_offset_is_written_as_pydantic_writes_it():
    made = codec.value(pydantic.AwareDatetime)
    assert made.encode(datetime(2024, 3, 30, 12, tzinfo=UTC)) == b'"2024-03-30T12:00:00Z"'


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (pydantic.AwareDatetime, datetime(2024, 3, 30, 12, tzinfo=BERLIN)),
        (pydantic.NaiveDatetime, datetime(2024, 3, 30, 12)),
        (pydantic.PastDate, date(2024, 3, 30)),
        (pydantic.IPvAnyAddress, IPv4Address("10.0.0.1")),
    ],
    ids=str,
)
def test_a_value_sent_without_an_annotation_is_read_by_the_annotation_of_its_receiver(annotation, value):
    """As with a signal: its sender does not know the annotation of the wait."""
    sent = codec.value(object).encode(value)
    assert codec.value(annotation).decode(sent) == value


def test_a_value_sent_without_an_annotation_that_does_not_fit_its_receiver_is_refused():
    with pytest.raises(NotDecodable, match=r"(?s)AwareDatetime.*timezone"):
        codec.value(pydantic.AwareDatetime).decode(codec.value(object).encode(datetime(2024, 3, 30)))


def test_a_moment_without_a_zone_is_refused_where_one_is_needed():
    with pytest.raises(NotEncodable, match=r"(?s)AwareDatetime.*timezone"):
        codec.value(pydantic.AwareDatetime).encode(datetime(2024, 3, 30))

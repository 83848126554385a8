"""pydantic's ValidationError comes back as one, with its errors."""

from __future__ import annotations

from datetime import date
from typing import Any

import pydantic
import pytest

from tests.unit.codec.raised import codec, round_trip


class Answer(pydantic.BaseModel):
    number: int
    days: list[date] = []
    text: str = pydantic.Field(default="", max_length=2)

    @pydantic.field_validator("text")
    @classmethod
    def checked(cls, text: str) -> str:
        if text == "no":
            raise ValueError("not {this} one")
        return text


class Discreet(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(hide_input_in_errors=True)
    pin: int


def error_of(model: type[pydantic.BaseModel], given: Any) -> pydantic.ValidationError:
    with pytest.raises(pydantic.ValidationError) as found:
        model.model_validate(given)
    return found.value


def lines_of(error: pydantic.ValidationError) -> list[Any]:
    return [(one["type"], one["loc"], one["msg"], one["input"]) for one in error.errors()]


@pytest.mark.parametrize(
    "given",
    [
        {"number": "x", "days": ["z", "2030-01-01"], "text": "abc"},
        {"number": 1, "text": "no"},
        {},
        None,
        {"number": 1j},
    ],
    ids=["several", "of a validator", "missing", "nothing", "an input that can't be kept"],
)
def test_a_validation_error_comes_back_as_its_own_class_with_every_line(given):
    error = error_of(Answer, given)
    back = round_trip(error)
    assert type(back) is pydantic.ValidationError
    assert back.title == "Answer"
    assert [line[:3] for line in lines_of(back)] == [line[:3] for line in lines_of(error)]
    assert str(back).splitlines()[0] == str(error).splitlines()[0]
    if given != {"number": 1j}:
        assert lines_of(back) == lines_of(error)


def test_a_validation_error_comes_back_with_its_notes_and_the_place_where_it_was_raised():
    error = error_of(Answer, {})
    error.add_note("of the bank")
    assert any("of the bank" in note for note in round_trip(error).__notes__)
    assert any("model_validate" in note for note in round_trip(error).__notes__)


def test_an_input_that_its_model_hides_is_not_stored():
    error = error_of(Discreet, {"pin": "the secret pin"})
    assert b"the secret pin" not in codec.encode_exception(error)
    back = round_trip(error)
    assert type(back) is pydantic.ValidationError
    assert "secret" not in str(back)


def test_a_validation_error_with_many_large_inputs_is_stored_abbreviated():
    error = error_of(pydantic.RootModel[list[int]], ["x" * 10_000] * 500)
    assert len(codec.encode_exception(error)) < 100_000
    back = round_trip(error)
    assert type(back) is pydantic.ValidationError
    assert back.error_count() == 100
    assert "could not be kept: all but the first 100 of 500 lines" in back.__notes__

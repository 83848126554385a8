"""Exceptions that are odd, large or unfriendly can be stored like any other."""

import pytest

from holdfast import errors
from holdfast.codec import Codec
from tests.unit.codec import samples
from tests.unit.codec.raised import caught_from, codec, fail, round_trip
from tests.unit.codec.samples import PaymentFailed, Unprintable


class Nasty(Exception):
    @property
    def __dict__(self):
        raise RuntimeError("no attributes")


class Note:
    def __repr__(self):
        raise RuntimeError("no words")


NASTY = [
    Unprintable("x"),
    ValueError("\ud800"),
    ValueError(10**5000),
    ValueError(float("nan")),
    Nasty("x"),
    ValueError({"a": {1, object()}}),
    ValueError("x" * 5_000_000),
    ExceptionGroup("g" * 100, [ValueError("x" * 100_000) for _ in range(200)]),
    BaseExceptionGroup("g", [KeyboardInterrupt()]),
]


@pytest.mark.parametrize("error", NASTY, ids=range(len(NASTY)))
def test_any_exception_can_be_stored(error):
    stored = codec.encode_exception(error)
    assert len(stored) <= 4 * 1024 * 1024
    assert isinstance(codec.decode_exception(stored), Exception)


def test_an_exception_that_can_t_be_inspected_says_what_it_was():
    back = round_trip(Nasty("x"), notes=["step charge"])
    assert type(back) is errors.StepFailed
    assert back.type == f"{__name__}.Nasty"
    assert back.__notes__ == ["step charge", "reading it raised RuntimeError", f"it was raised as {__name__}.Nasty"]


def test_an_exception_whose_class_is_a_property_that_raises_says_what_it_was():
    class Masked(Exception):
        @property
        def __class__(self):
            raise RuntimeError("nobody's class")

    back = round_trip(Masked("x"))
    assert type(back) is errors.StepFailed
    assert back.type.endswith(".Masked")


class Panic(BaseException):
    """As extension modules raise it, that are written in Rust."""


def test_an_exception_whose_str_raises_a_base_exception_keeps_its_class():
    class Panicking(Exception):
        def __str__(self):
            raise Panic

    assert str(round_trip(Panicking())) == f"<{Panicking.__qualname__} without a printable message>"


def test_an_exception_whose_attributes_raise_a_base_exception_says_what_it_was():
    class Panicking(Exception):
        @property
        def __dict__(self):
            raise Panic

    assert round_trip(Panicking()).type.endswith(".Panicking")


def test_an_exception_loses_only_a_note_that_can_t_be_printed():
    error = ValueError("x")
    error.__notes__ = [Note(), "why"]
    back = round_trip(error)
    assert type(back) is ValueError
    assert back.__notes__ == ["<Note>", "why"]


def nested(depth):
    found = []
    for _ in range(depth):
        found = [found]
    return found


@pytest.mark.parametrize(
    ("name", "value"),
    [(3, 1), ("\ud800", 1), ("__notes__", 3), ("deep", nested(100_000))],
    ids=["no text", "half a character", "notes that are none", "too deep"],
)
def test_an_exception_loses_only_an_attribute_that_can_t_be_stored(name, value):
    error = ValueError("x")
    vars(error)[name] = value
    error.code = 51
    back = round_trip(error)
    assert type(back) is ValueError
    assert back.code == 51


def test_a_lone_surrogate_in_a_note_of_the_caller_is_written_as_its_escape():
    assert round_trip(ValueError("x"), notes=["step \ud800"]).__notes__ == [r"step \ud800"]


def test_a_long_message_is_cut():
    class Local(Exception):
        pass

    assert str(round_trip(Local("x" * 100_000))) == "x" * 16 * 1024


def test_an_exception_that_refers_to_itself_can_be_stored():
    error = ValueError("x")
    error.args = (error,)
    error.me = [error]
    error.__context__ = ValueError("y")
    assert type(round_trip(error)) is ValueError


def test_a_large_exception_fits_a_small_limit():
    small = Codec(max_payload=2000)
    error = caught_from(fail(PaymentFailed("x" * 10_000, code=1)))
    stored = small.encode_exception(error, notes=["step charge"])
    assert len(stored) <= 2000
    back = small.decode_exception(stored)
    assert type(back) is errors.StepFailed
    assert back.__notes__ == ["the exception was too large to be kept whole", "step charge", back.traceback]


LARGE = ValueError("x" * 10_000)


@pytest.mark.parametrize("place", ["cause", "context", "attribute", "member"])
def test_the_part_that_makes_an_exception_too_large_is_left_out(place):
    small = Codec(max_payload=2000)
    error = ExceptionGroup("many", [LARGE]) if place == "member" else PaymentFailed("visa", code=1)
    if place == "attribute":
        error.code = "x" * 10_000
    elif place != "member":
        setattr(error, f"__{place}__", LARGE)
    stored = small.encode_exception(error)
    assert len(stored) <= 2000
    assert type(small.decode_exception(stored)) is errors.StepFailed


def test_no_limit_is_too_small_for_an_exception():
    tiny = Codec(max_payload=1)
    assert type(tiny.decode_exception(tiny.encode_exception(ValueError("x")))) is errors.StepFailed


def test_an_exception_without_a_printable_message_keeps_its_class():
    assert type(round_trip(Unprintable("x"))) is Unprintable


def test_a_class_that_can_t_be_printed_once_rebuilt_comes_back_as_step_failed():
    back = round_trip(samples.Needy("x"))
    assert type(back) is errors.StepFailed
    assert str(back) == "needs x"

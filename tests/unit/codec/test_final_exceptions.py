"""An exception after which nothing is tried again is stored with a mark, whatever becomes of its class."""

import json

import pytest

from holdfast import errors
from holdfast.codec import Codec
from holdfast.model import as_final, is_final
from tests.unit.codec.raised import codec, round_trip
from tests.unit.codec.samples import PaymentFailed


def local():
    class Local(errors.FatalError):
        pass

    return Local("x")


class Nasty(errors.FatalError):
    @property
    def __dict__(self):
        raise RuntimeError("no attributes")


class NastyAndPassing(Exception):
    @property
    def __dict__(self):
        raise RuntimeError("no attributes")


FINAL = {
    "marked": as_final(ValueError("x")),
    "fatal": errors.FatalError("x"),
    "fatal, of a class that can't be found": local(),
    "fatal, that can't be looked at": Nasty("x"),
    "beyond Exception": as_final(SystemExit(2)),
    "in a group": ExceptionGroup("g", [ValueError("x"), as_final(ValueError("y"))]),
    "in a group, among those cut off": ExceptionGroup("g", [*[ValueError("x")] * 200, as_final(ValueError("y"))]),
}


@pytest.mark.parametrize("error", FINAL.values(), ids=FINAL)
def test_a_final_exception_stays_final_however_often_it_is_stored(error):
    for _ in range(3):
        error = round_trip(error)
        assert is_final(error)


@pytest.mark.parametrize("error", FINAL.values(), ids=FINAL)
def test_a_final_exception_too_large_to_be_kept_whole_stays_final(error):
    tiny = Codec(max_payload=1)
    assert is_final(tiny.decode_exception(tiny.encode_exception(error)))


def test_a_final_exception_that_is_passed_on_stays_final():
    relayed = codec.relayed(codec.encode_exception(as_final(PaymentFailed("visa", code=51))))
    assert is_final(codec.decode_exception(codec.encode_exception(relayed)))


@pytest.mark.parametrize("error", [ValueError("x"), NastyAndPassing("x"), ExceptionGroup("g", [ValueError("x")])])
def test_any_other_exception_is_not_final(error):
    assert not is_final(error)
    assert not is_final(round_trip(error))


def test_a_final_cause_stays_final_and_does_not_make_the_exception_final():
    error = ValueError("x")
    error.__cause__ = as_final(ValueError("y"))
    back = round_trip(error)
    assert (is_final(back), is_final(back.__cause__)) == (False, True)


def test_the_final_mark_is_neither_in_the_arguments_nor_in_the_attributes():
    plain = json.loads(codec.encode_exception(as_final(ValueError("x", 1))))
    assert (plain["args"], plain["state"], plain["notes"]) == (["x", 1], {}, [])


def test_an_exception_stored_without_the_mark_is_not_final():
    plain = json.loads(codec.encode_exception(as_final(errors.NotEncodable("x"))))
    del plain["final"]
    assert not is_final(codec.decode_exception(json.dumps(plain).encode()))

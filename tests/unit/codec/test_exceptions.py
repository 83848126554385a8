"""Exceptions come back as what they were."""

import json
import socket
import sqlite3
import subprocess
import urllib.error
from contextlib import closing
from dataclasses import dataclass

import hypothesis.strategies as st
import pytest
from hypothesis import given

from holdfast import errors
from tests.unit.codec import samples
from tests.unit.codec.raised import caught_from, codec, fail, round_trip
from tests.unit.codec.samples import Batch, Cat, PaymentFailed, Slotted, Strict


def ask_sqlite(question):
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(question)


BUILT_IN = {
    "value": fail(ValueError("x", 1, (2,))),
    "key": lambda: {}["k"],
    "index": lambda: [][1],
    "missing file": lambda: open("/does/not/exist"),  # noqa: SIM115
    "os error": fail(OSError("just text")),
    "os error with two files": fail(OSError(18, "cross", "/a", None, "/b")),
    "reset": fail(ConnectionResetError(104, "reset")),
    "timeout": fail(TimeoutError("late")),
    "decode": lambda: b"\xff".decode(),
    "encode": lambda: "\xff".encode("ascii"),
    "import": lambda: __import__("does_not_exist"),
    "syntax": lambda: compile("1 +", "file.py", "exec"),
    "stop": fail(StopIteration(5)),
    "attribute": lambda: (1).nothing,
    "name": lambda: nothing,  # noqa: F821
    "division": lambda: 1 / 0,
    "assertion": fail(AssertionError()),
    "recursion": fail(RecursionError("deep")),
    "group": fail(ExceptionGroup("many", [ValueError(1), ExceptionGroup("more", [KeyError("k")])])),
    "own group": fail(Batch("many", [ValueError(1)])),
    "own": fail(PaymentFailed("visa", code=51)),
    "own with __new__": fail(Strict(1, 2)),
    "slots": fail(Slotted(7)),
    "ours": fail(errors.RetryAfter("3s")),
    "ours with fields": fail(errors.KeyTaken("taken", run_id="r1")),
    "step failed": fail(errors.StepFailed("m", type="t", traceback="tb")),
    "process": fail(subprocess.CalledProcessError(3, ["ls", "-l"], b"out", "err")),
    "json": lambda: json.loads("{"),
    "http": fail(urllib.error.HTTPError("http://x", 404, "gone", {}, None)),
    "socket": fail(socket.gaierror(-2, "unknown name")),
    "sqlite": lambda: ask_sqlite("nonsense"),
    "two bases": fail(errors.BadDuration("bad")),
}


@pytest.mark.parametrize("act", BUILT_IN.values(), ids=BUILT_IN)
def test_an_exception_comes_back_as_its_own_class(act):
    error = caught_from(act)
    back = round_trip(error)
    assert type(back) is type(error)
    assert repr(back) == repr(error)
    assert str(back) == str(error)


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("missing file", ("errno", "strerror", "filename", "filename2", "args")),
        ("os error with two files", ("errno", "filename", "filename2")),
        ("decode", ("encoding", "object", "start", "end", "reason")),
        ("import", ("msg", "name", "path")),
        ("syntax", ("msg", "filename", "lineno", "offset", "text")),
        ("stop", ("value",)),
        ("attribute", ("name",)),
        ("own", ("code",)),
        ("own with __new__", ("sum",)),
        ("slots", ("extra",)),
        ("ours", ("delay",)),
        ("ours with fields", ("run_id",)),
    ],
)
def test_an_exception_keeps_its_attributes(name, attributes):
    error = caught_from(BUILT_IN[name])
    back = round_trip(error)
    for attribute in attributes:
        assert getattr(back, attribute) == getattr(error, attribute)


def test_an_attribute_that_can_t_be_stored_becomes_a_note():
    error = ValueError("x", Cat("Tom"))
    error.lock = object()
    error.deep = {"a": [1, object()]}
    error.code = 3
    back = round_trip(error)
    assert back.code == 3
    assert back.args == ("x", repr(Cat("Tom")))
    notes = "\n".join(back.__notes__)
    assert "could not be kept: args[1]: tests.unit.codec.samples.Cat has no annotation" in notes
    assert "could not be kept: lock: object" in notes
    assert "could not be kept: deep['a'][1]: object" in notes


def refused():
    try:
        raise ConnectionRefusedError(111, "refused")
    except OSError as error:
        raise urllib.error.URLError(error)  # noqa: B904  # as urllib does it


def test_an_exception_that_holds_the_one_it_was_raised_for_comes_back_with_it():
    back = round_trip(caught_from(refused))
    assert type(back) is urllib.error.URLError
    assert type(back.reason) is ConnectionRefusedError
    assert str(back) == "<urlopen error [Errno 111] refused>"
    assert back.args == (back.reason,)
    assert back.__context__ is back.reason


def test_an_exception_keeps_one_that_it_holds_and_was_not_raised_for():
    error = ValueError("x", KeyError("y"))
    error.orig = error.args[1]
    error.cause = KeyError("z")
    error.itself = error
    back = round_trip(error)
    assert (type(back.orig), back.orig.args, back.cause.args) == (KeyError, ("y",), ("z",))
    assert back.args == ("x", back.orig)
    assert back.__cause__ is None
    assert not hasattr(back, "itself")


def test_exceptions_that_hold_one_another_again_and_again_are_stored_once():
    def wrapped(depth):
        error = ValueError(depth)
        try:
            if depth:
                wrapped(depth - 1)
        except ValueError as inner:
            error.one = error.other = inner
            raise error  # noqa: B904  # its context is what it holds
        raise error

    assert len(codec.encode_exception(caught_from(lambda: wrapped(9)))) < 50_000


def test_an_argument_that_can_t_be_kept_is_described_briefly():
    (described,) = round_trip(ValueError(Cat("x" * 1000))).args
    assert described == repr(Cat("x" * 1000))[:200]


def test_a_lone_surrogate_in_an_argument_is_written_as_its_escape():
    assert round_trip(ValueError("a\ud800")).args == (r"a\ud800",)


def test_a_lone_surrogate_in_an_attribute_is_written_as_its_escape():
    """As in the name of a file that is no UTF-8, and in what could not be encoded: without it there is no message."""
    gone = round_trip(FileNotFoundError(2, "No such file", "caf\udce9.txt"))
    assert gone.filename == r"caf\udce9.txt"
    assert "caf" in str(gone)
    assert "surrogates not allowed" in str(round_trip(caught_from("caf\udce9".encode)))
    error = ValueError("x")
    error.path = "caf\udce9"
    assert round_trip(error).path == r"caf\udce9"


def test_an_attribute_that_is_none_is_kept():
    error = ValueError("x")
    error.code = None
    assert round_trip(error).code is None


def test_an_attribute_error_does_not_keep_the_object_that_lacked_the_attribute():
    back = round_trip(caught_from(lambda: Cat("Tom").nothing))
    assert back.obj is None
    assert "could not be kept" not in "\n".join(back.__notes__)


class Holding(Exception):
    """An exception with a slot named as that of AttributeError."""

    __slots__ = ("obj",)


def test_a_slot_named_obj_of_a_user_s_exception_is_kept():
    error = Holding("x")
    error.obj = 7
    assert round_trip(error).obj == 7


@dataclass(frozen=True)
class Frozen(Exception):
    code: int


def test_an_exception_whose_attributes_can_t_be_set_comes_back_with_them():
    back = round_trip(Frozen(51), notes=["step charge"])
    assert type(back) is Frozen
    assert back.code == 51
    assert back.args == Frozen(51).args
    assert back.__notes__ == ["step charge"]


@pytest.mark.parametrize("link", ["__cause__", "__context__"])
def test_an_exception_whose_attributes_can_t_be_set_comes_back_with_its_cause(link):
    error = Frozen(51)
    object.__setattr__(error, link, ValueError("x"))
    assert type(getattr(round_trip(error), link)) is ValueError


def test_notes_traceback_and_what_the_caller_adds_are_kept_in_order():
    error = caught_from(BUILT_IN["division"])
    error.add_note("mine")
    back = round_trip(error, notes=["step charge, attempt 2"])
    assert back.__notes__[:2] == ["mine", "step charge, attempt 2"]
    assert back.__notes__[2].startswith("Traceback (most recent call last):")
    assert back.__notes__[2].endswith("ZeroDivisionError: division by zero")


def test_a_note_is_written_once():
    error = ValueError("x")
    error.add_note("mine")
    assert codec.encode_exception(error).count(b"mine") == 1


def test_an_exception_that_was_never_raised_has_no_traceback():
    assert getattr(round_trip(ValueError("x")), "__notes__", []) == []


def test_a_long_traceback_keeps_its_innermost_part():
    def dive(depth):
        if depth == 0:
            raise ValueError("bottom")
        dive(depth - 1)

    error = caught_from(lambda: dive(500))
    (text,) = round_trip(error).__notes__
    assert len(text) < 9000
    assert 'raise ValueError("bottom")' in text
    assert text.endswith("ValueError: bottom")


def test_a_traceback_with_a_long_message_keeps_the_end_of_the_message():
    (text,) = round_trip(caught_from(fail(ValueError("x" * 10_000 + "end")))).__notes__
    assert len(text) < 9000
    assert text.endswith("end")


def test_the_cause_is_kept():
    def act():
        try:
            _ = 1 / 0
        except ZeroDivisionError as error:
            raise PaymentFailed("visa", code=1) from error

    back = round_trip(caught_from(act))
    assert isinstance(back.__cause__, ZeroDivisionError)


def test_the_context_is_kept_unless_it_is_suppressed():
    def act(suppress):
        try:
            _ = 1 / 0
        except ZeroDivisionError:
            if suppress:
                raise KeyError("k") from None
            raise KeyError("k")  # noqa: B904

    assert isinstance(round_trip(caught_from(lambda: act(False))).__context__, ZeroDivisionError)
    assert round_trip(caught_from(lambda: act(True))).__context__ is None


def test_causes_that_go_round_in_a_circle_end():
    one, two = ValueError(1), ValueError(2)
    one.__cause__, two.__cause__ = two, one
    back = round_trip(one)
    assert back.__cause__.args == (2,)
    assert back.__cause__.__cause__ is None


def test_a_long_chain_of_causes_is_cut():
    error = ValueError(0)
    for number in range(1, 100):
        above = ValueError(number)
        above.__cause__ = error
        error = above
    back, depth = round_trip(error), 0
    while back is not None:
        back, depth = back.__cause__, depth + 1
    assert depth == 10


def test_groups_in_groups_are_cut():
    error = ValueError("bottom")
    for number in range(20):
        error = ExceptionGroup(str(number), [error])
    back, names = round_trip(error), []
    while isinstance(back, ExceptionGroup):
        names.append(back.message)
        (back,) = back.exceptions
    assert names == [str(number) for number in range(19, 10, -1)]
    assert type(back) is errors.StepFailed
    assert back.type == "builtins.ExceptionGroup"


def test_a_member_that_was_raised_from_its_own_group_ends():
    member = ValueError("member")
    member.__cause__ = ExceptionGroup("many", [member, KeyError("k")])
    back = round_trip(member)
    assert [type(one) for one in back.__cause__.exceptions] == [KeyError]


@pytest.mark.parametrize(("count", "notes"), [(100, 0), (101, 1)])
def test_a_large_group_keeps_its_first_hundred_members_and_says_how_many_are_missing(count, notes):
    back = round_trip(ExceptionGroup("many", [ValueError(number) for number in range(count)]))
    assert [one.args for one in back.exceptions] == [(number,) for number in range(100)]
    told = [f"could not be kept: all but the first 100 of {count} exceptions"] * notes
    assert getattr(back, "__notes__", []) == told


@given(st.lists(st.none() | st.integers() | st.text() | st.tuples(st.integers()) | st.binary()))
def test_any_plain_arguments_come_back(args):
    back = round_trip(ValueError(*args))
    if not any(isinstance(item, str) and not item.isascii() for item in args):
        assert back.args == tuple(args)


def test_an_exception_survives_being_passed_on_again_and_again():
    error = caught_from(BUILT_IN["own"])
    for _ in range(3):
        error = round_trip(error)
    assert type(error) is PaymentFailed
    assert error.code == 51


def test_an_exception_that_is_passed_on_keeps_its_notes_and_gets_more():
    relayed = codec.relayed(codec.encode_exception(PaymentFailed("visa", code=51), notes=["step charge"]))
    relayed.add_note("in the run r1")
    back = codec.decode_exception(codec.encode_exception(relayed, notes=["in the map"]))
    assert type(back) is PaymentFailed
    assert back.__notes__ == ["step charge", "in the run r1", "in the map"]


def test_the_description_of_an_exception_has_its_notes():
    told = codec.tell_exception(codec.encode_exception(PaymentFailed("visa", code=51), notes=["step charge"]))
    assert told.type == "tests.unit.codec.samples.PaymentFailed"
    assert told.__notes__ == ["step charge", "it was raised as tests.unit.codec.samples.PaymentFailed"]


def test_an_attribute_whose_class_is_gone_is_reported_when_the_exception_is_read(monkeypatch):
    error = ValueError("x")
    error.colour = samples.Colour.RED
    stored = codec.encode_exception(error)
    monkeypatch.delattr(samples, "Colour")
    with pytest.raises(errors.NotDecodable, match=r"samples:Colour is in no loaded module: import it"):
        codec.decode_exception(stored)


@pytest.mark.parametrize("stored", [b"", b"{}", b"[]", b"3", b'{"rebuild":true}', b"\x00\x04none", b"[" * 100_000])
def test_bytes_that_are_no_exception_are_refused(stored):
    with pytest.raises(errors.NotDecodable):
        codec.decode_exception(stored)


def test_a_secret_in_an_exception_is_not_written():
    import pydantic

    error = ValueError("x")
    error.password = pydantic.SecretStr("hunter2")
    assert b"hunter2" not in codec.encode_exception(error)

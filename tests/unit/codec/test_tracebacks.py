"""Where a stored exception was raised, as it is told to people."""

from __future__ import annotations

from holdfast.codec import Codec, last_place, readable_traceback, without_own

_OWN = (
    '  File "/usr/lib/python3/site-packages/holdfast/engine/calls.py", line 220, in block\n    return future.result()\n'
)
_HERS = '  File "/srv/shop/orders.py", line 7, in charge\n    raise Declined(card)\n'
_HEADING = "Traceback (most recent call last):\n"
_MESSAGE = "orders.Declined: no\n  File it under lost"

codec = Codec()


def raised(error: Exception) -> Exception:
    try:
        raise error
    except Exception as caught:
        return caught


def test_frames_of_holdfast_itself_are_left_out():
    assert without_own(f"{_HEADING}{_OWN}{_HERS}{_OWN}{_MESSAGE}") == f"{_HEADING}{_HERS}{_MESSAGE}"


def test_a_traceback_without_other_frames_is_left_as_it_is():
    assert without_own(f"{_HEADING}{_OWN}{_MESSAGE}") == f"{_HEADING}{_OWN}{_MESSAGE}"


def test_a_project_that_is_called_holdfast_is_not_taken_for_ours():
    hers = _HERS.replace("/srv/shop/", "/srv/holdfast/")
    assert without_own(f"{_HEADING}{_OWN}{hers}{_MESSAGE}") == f"{_HEADING}{hers}{_MESSAGE}"


def test_the_last_place_is_the_innermost_one_of_the_user_s_own_code():
    installed = _HERS.replace("/srv/shop/", "/usr/lib/python3/site-packages/shop/")
    text = f"{_HEADING}{_HERS.replace('7', '3')}{_HERS}{_OWN}{installed}{_MESSAGE}"
    assert last_place(text) == "/srv/shop/orders.py:7"
    assert last_place(f"{_HEADING}{_OWN}{_MESSAGE}") is None


def test_a_cause_is_shown_before_the_exception_that_it_caused():
    error = raised(ValueError("wrapped"))
    error.__cause__ = raised(KeyError("first"))
    told = readable_traceback(codec, codec.encode_exception(error)) or ""
    assert told.index("KeyError: 'first'") < told.index("direct cause") < told.index("ValueError: wrapped")


def test_each_exception_of_a_group_is_shown():
    group = ExceptionGroup("both", [raised(ValueError("one")), raised(KeyError("two"))])
    told = readable_traceback(codec, codec.encode_exception(group)) or ""
    assert told.index("ValueError: one") < told.index("Exception 2 of 2") < told.index("KeyError: 'two'")


def test_an_exception_that_was_never_raised_or_can_t_be_read_has_no_traceback():
    assert readable_traceback(codec, codec.encode_exception(ValueError("no"), notes=["somewhere"])) is None
    assert readable_traceback(codec, b"\x00garbage") is None
    assert readable_traceback(codec, b"[1]") is None
    assert readable_traceback(codec, None) is None

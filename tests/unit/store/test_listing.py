"""The pure parts of reading: cursors, the order of versions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model import natural
from holdfast.store.listing import decode_cursor, encode_cursor


@given(st.tuples(st.integers(0, 2**62), st.integers(0, 2**62)))
def test_a_cursor_comes_back_as_it_was(place):
    assert decode_cursor(encode_cursor(place)) == place


@given(st.text())
def test_any_other_text_is_no_cursor(text):
    try:
        place = decode_cursor(text)
    except ValueError:
        return
    assert all(isinstance(part, int) for part in place)


@pytest.mark.parametrize("place", [(2**63, 0), (0, 2**64 - 1)])
def test_a_number_too_large_for_a_database_is_no_cursor(place):
    with pytest.raises(ValueError, match="cursor"):
        decode_cursor(encode_cursor(place))


def test_versions_are_ordered_as_people_count():
    versions = ["10", "9", "1.10", "1.9", "2024-01-02", "alpha", "v2", "v10", ""]
    ordered = sorted(versions, key=natural)
    assert ordered.index("9") < ordered.index("10")
    assert ordered.index("1.9") < ordered.index("1.10")
    assert ordered.index("v2") < ordered.index("v10")

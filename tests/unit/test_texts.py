"""Texts for people."""

import pytest

from holdfast import workflow
from holdfast.errors import DefinitionError
from holdfast.model import quoted


def test_a_refused_value_is_shown_as_it_was_written():
    assert quoted("a\0b") == "'a\\x00b'"


def test_a_long_refused_value_is_shown_by_its_beginning_and_length():
    @workflow
    async def body() -> None: ...

    with pytest.raises(DefinitionError) as raised:
        body.options(key="k" * 5_000)
    assert str(raised.value).startswith("key='kkkk")
    assert "(5,002 characters): expected text of 1 to 500 characters" in str(raised.value)
    assert len(str(raised.value)) < 300

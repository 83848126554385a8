"""Texts for people."""

import pytest

from holdfast import workflow
from holdfast.errors import DefinitionError
from holdfast.model import quoted


def test_a_value_that_was_refused_is_shown_as_it_was_written():
    assert quoted("a\0b") == "'a\\x00b'"


def test_of_a_long_one_the_beginning_and_the_length_are_shown():
    @workflow
    async def body() -> None: ...

    with pytest.raises(DefinitionError) as raised:
        body.options(key="k" * 5_000)
    assert str(raised.value).startswith("key='kkkk")
    assert "(5,002 characters): expected text of 1 to 500 characters" in str(raised.value)
    assert len(str(raised.value)) < 300

"""Optional packages are loaded when something needs them, and a missing one is named with its extra."""

import sys

import pytest

from holdfast.errors import DefinitionError
from holdfast.extras import load_extra


def test_a_module_that_is_there_is_handed_out():
    assert load_extra("zstandard", extra="compress", needed_by="Zstd") is sys.modules["zstandard"]


def test_a_missing_module_is_named_with_its_extra_and_what_needs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(DefinitionError, match=r"Zstd needs the zstandard package.*pip install 'holdfast\[compress\]'"):
        load_extra("zstandard", extra="compress", needed_by="Zstd")

"""Values without an annotation keep their types."""

import array
import asyncio
import collections
import enum
import inspect
import io
import os
import re
import subprocess
import sys
import threading
import types
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID

import hypothesis.strategies as st
import pytest
from hypothesis import given

from holdfast.codec import Codec
from holdfast.errors import NotDecodable, NotEncodable
from tests.unit.codec import samples
from tests.unit.codec.samples import Access, Cat, Colour, Level

codec = Codec()
made = codec.value(Any)

CASES = [
    (1, (2, [3, (4,)])),
    {1, 2},
    frozenset({"a", 1}),
    b"\x00",
    bytearray(b"x"),
    datetime(2024, 1, 1, tzinfo=UTC),
    date(2024, 1, 1),
    time(1, 2),
    timedelta(seconds=-1),
    Decimal("1.0"),
    UUID(int=1),
    Path("/a"),
    Colour.RED,
    Level.HIGH,
    Access.READ | Access.WRITE,
    {1: "a", "1": "b"},
    {(1, 2): {None: None}},
    {"a": None, "b": [None]},
    {True: 1, "x": {2.5: 3}},
    2**100,
    float("-inf"),
    {"~tuple": [1]},
    {"~tuple": [1], "b": 2},
    {"~dict": [["a", 1]]},
    {"~:Cat": {"name": "x"}},
    {"~": 1},
    {"": 1},
    {},
    [],
    "~tuple",
    None,
]


@pytest.mark.parametrize("value", CASES, ids=repr)
def test_a_bare_value_keeps_its_type(value):
    back = made.decode(made.encode(value))
    assert back == value
    assert repr(back) == repr(value) or isinstance(value, (set, frozenset))
    assert type(back) is type(value)


atoms = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.uuids()
    | st.datetimes(timezones=st.none() | st.just(UTC))
    | st.dates()
    | st.timedeltas()
    | st.sampled_from(Colour)
)
keys = st.recursive(atoms, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=2), max_leaves=3)
names = st.sampled_from(["~tuple", "~dict", "~", "~:Cat", "a"])
values = st.recursive(
    atoms,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.sets(keys, max_size=3)
        | st.dictionaries(keys, inner, max_size=3)
        | st.dictionaries(names, inner, max_size=2)
    ),
    max_leaves=8,
)


def types_of(value):
    if isinstance(value, dict):
        return [(types_of(key), types_of(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), [types_of(item) for item in value]
    return type(value)


@given(values)
def test_any_bare_value_comes_back_with_its_types(value):
    back = made.decode(made.encode(value))
    assert back == value
    assert types_of(back) == types_of(value)


@pytest.mark.parametrize(
    "wrap",
    [lambda one: [one], lambda one: {"a": one}, lambda one: (one,), lambda one: {1: one}, lambda one: frozenset({one})],
)
def test_a_value_that_could_be_written_can_be_read_however_deep_it_is(wrap):
    deepest, value = b"null", None
    while True:
        value = wrap(value)
        try:
            deepest = made.encode(value)
        except NotEncodable:
            break
    assert made.encode(made.decode(deepest)) == deepest


def test_not_a_number_comes_back():
    assert made.decode(made.encode({"x": (float("nan"),)}))["x"][0] != 0


@pytest.mark.parametrize("annotation", [Any, object, inspect.Parameter.empty])
def test_no_annotation_and_any_are_the_same(annotation):
    assert codec.value(annotation).encode((1,)) == b'{"~tuple":[1]}'


def test_a_function_without_a_return_annotation_is_bare():
    def fn(): ...

    assert codec.result(fn).decode(codec.result(fn).encode({1: (2,)})) == {1: (2,)}


@pytest.mark.parametrize(
    "value", [Cat("a"), samples.Order(id=1), samples.Plain(), samples.Packet(1)], ids=lambda one: type(one).__name__
)
def test_an_instance_without_an_annotation_is_refused_with_the_word_annotate(value):
    with pytest.raises(NotEncodable, match=f"annotate it with {type(value).__name__}"):
        made.encode([value])


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"a": [0, threading.Lock()]}, "value['a'][1]: _thread.lock can't be stored"),
        (1j, "complex can't be stored"),
        (samples.Place("a"), "would come back as tuple"),
        ({Cat: 1}, ".key[0]: type can't be stored"),
        (memoryview(b""), "memoryview can't be stored"),
    ],
    ids=lambda one: one if isinstance(one, str) else type(one).__name__,
)
def test_a_value_that_can_t_be_stored_is_refused_with_its_path(value, told):
    with pytest.raises(NotEncodable) as caught:
        made.encode(value)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (samples.Plain(), "make it a dataclass"),
        (re.compile("a+"), "keep what describes it"),
        (map(str, [1]), "map can't be stored: convert it to a list"),
        ((one for one in [1]), "generator can't be stored: convert it to a list"),
        ({1: 2}.keys(), "dict_keys can't be stored: convert it to a list"),
        (range(3), "range can't be stored: convert it to a list"),
        (type("Row", (collections.UserList,), {"_fields": ()})([1]), "can't be stored: convert it to a list"),
        (type("Record", (), {"keys": list, "__getitem__": id})(), "can't be stored: convert it to a dict"),
        (types.MappingProxyType({}), "mappingproxy can't be stored: convert it to a dict"),
        (ValueError("no"), "ValueError can't be stored: keep its text"),
        (array.array("d", [1.5]), r"array.array can't be stored: convert it by its tolist\(\)"),
        (memoryview(b"x"), "memoryview can't be stored: convert it to bytes"),
        (io.StringIO(), "keep what describes it"),
        (collections.defaultdict(int), "would come back as dict: convert it to dict"),
        (collections.OrderedDict(), "would come back as dict: annotate it, or convert it to dict"),
    ],
    ids=lambda one: one if isinstance(one, str) else type(one).__name__,
)
def test_a_refusal_does_not_advise_an_annotation_that_would_not_help(value, told):
    with pytest.raises(NotEncodable, match=told):
        made.encode(value)


@pytest.mark.parametrize("annotation", [Any, int, list[int], Cat], ids=str)
def test_a_coroutine_that_was_not_awaited_is_refused_with_the_word_await(annotation):
    async def later() -> int:
        return 1

    coroutine, loop = later(), asyncio.new_event_loop()
    try:
        for value in (coroutine, loop.create_future()):
            with pytest.raises(NotEncodable, match=r"await it first; a lambda .*must be an `async def`"):
                codec.value(annotation).encode(value)
    finally:
        coroutine.close()
        loop.close()


def test_an_enum_that_can_t_be_found_again_is_refused():
    local = enum.Enum("Local", {"A": 1})
    local.__module__ = "nowhere"
    with pytest.raises(NotEncodable, match="define it at module level"):
        made.encode(local.A)


@pytest.mark.parametrize("name", ["__main__", "__mp_main__"], ids=["run", "spawned by multiprocessing"])
def test_an_enum_of_the_main_script_is_written_by_the_module_name_that_others_can_import(monkeypatch, name):
    """The same bytes, whoever writes it: they are among what a step's arguments are compared by."""
    script: Any = types.ModuleType(name)
    script.__file__ = "/srv/orders.py"
    script.Size = enum.Enum("Size", {"LARGE": 1}, module=name)
    for one in ("__main__", "__mp_main__"):
        monkeypatch.setitem(sys.modules, one, script)
    assert made.encode(script.Size.LARGE) == b'{"~enum":["orders:Size","LARGE"]}'
    assert made.decode(made.encode(script.Size.LARGE)) is script.Size.LARGE


def test_only_enums_are_looked_up_by_name():
    for name in ("os:system", "subprocess:Popen", "tests.unit.codec.samples:Cat", "builtins:dict"):
        with pytest.raises(NotDecodable, match="in no loaded module"):
            made.decode(b'{"~enum":["%s","A"]}' % name.encode())


def test_reading_never_imports_a_module():
    assert "this" not in sys.modules
    with pytest.raises(NotDecodable):
        made.decode(b'{"~enum":["this:Zen","A"]}')
    assert "this" not in sys.modules


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"{",
        b"\xff",
        b'"\xff"',
        b"[" * 100_000,
        b"1" * 5000,
        b'{"~decimal":"x"}',
        b'{"~bytes":"?"}',
        b'{"~what":1}',
        b'{"~dict":[1]}',
        b'{"~enum":1}',
    ],
)
def test_bytes_that_the_codec_did_not_write_are_refused(stored):
    with pytest.raises(NotDecodable):
        made.decode(stored)


SCRIPT = """
from typing import Any
from holdfast.codec import Codec
codec = Codec()
words = {"a", "b", "c", "dd", "e", 1, (2, "x"), frozenset({"q", "r"})}
print(codec.value(Any).encode(words), codec.value(set[str]).encode({"a", "b", "c", "dd", "e"}))
"""


def test_a_set_is_written_in_one_order_whatever_its_hashes():
    def run(seed):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        return subprocess.run([sys.executable, "-c", SCRIPT], env=env, capture_output=True, check=True).stdout

    assert run("1") == run("2") == run("3")


HUGE = Fraction(10**5000, 3)


@pytest.mark.parametrize(
    ("annotation", "value", "path"),
    [
        (list[Fraction], [Fraction(1), HUGE], r"\[1\]"),
        (Any, [Fraction(1), HUGE], r"\[1\]"),
        (dict[str, Fraction], {"a": HUGE}, r"\['a'\]"),
        (dict[Fraction, int], {HUGE: 1}, r"\.key\(<Fraction>\)"),
        (Any, {HUGE: 1}, r"\.key\[0\]"),
        (dict[int, Fraction], {10**5000: HUGE}, r"\[<int>\]"),
        (Any, {10**5000: HUGE}, r"\[<int>\]"),
    ],
)
def test_a_fraction_of_too_many_digits_is_refused_with_its_path(annotation, value, path):
    with pytest.raises(NotEncodable, match=f"value{path}: Fraction of too many digits: store it as bytes"):
        codec.value(annotation).encode(value)

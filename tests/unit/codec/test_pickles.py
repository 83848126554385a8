"""Pickle only when asked for."""

import pickle
import threading
from typing import Any

import pytest

from holdfast.codec import AesGcm, Codec
from holdfast.errors import NotDecodable, NotEncodable, PayloadTooLarge
from tests.unit.codec.samples import BigItem, Cat, Item, Unprintable

pickling = Codec(pickle=True)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [(Any, [Cat("Tom")]), (Item, BigItem("a", 1, weight=2.0)), (Any, 1j), (list[Any], [{"a": Cat("Tom")}])],
    ids=str,
)
def test_a_value_that_json_can_t_hold_is_pickled(annotation, value):
    made = pickling.value(annotation)
    stored = made.encode(value)
    assert stored[0] == 1
    assert made.decode(stored) == value


def test_a_value_that_json_can_hold_is_not_pickled():
    assert pickling.value(Any).encode({"a": (1,)}) == b'{"a":{"~tuple":[1]}}'


def test_a_value_that_does_not_fit_its_annotation_is_refused_all_the_same():
    with pytest.raises(NotEncodable, match="expected int, got str"):
        pickling.value(int).encode("x")


def test_a_pickle_is_not_read_unless_that_is_allowed():
    stored = pickling.value(Any).encode(Cat("Tom"))
    for annotation in (Any, int, str, Item):
        with pytest.raises(NotDecodable, match=r"Codec\(pickle=True\)"):
            Codec().value(annotation).decode(stored)


def test_arguments_are_pickled_whole():
    def fn(a, b): ...

    made = pickling.arguments(fn)
    packed = made.pack((Cat("Tom"),), {"b": 1})
    assert made.unpack(packed) == ((Cat("Tom"), 1), {})
    with pytest.raises(NotDecodable, match="pickle=True"):
        Codec().arguments(fn).unpack(packed)


@pytest.mark.parametrize(
    "value",
    [1j, [Cat("Tom")], [Cat("Tom"), b"x" * 100_000, {1j: "y" * 200_000}], [Cat(str(n)) for n in range(9_000)]],
    ids=["a scalar", "objects", "much outside of any frame", "many frames"],
)
@pytest.mark.parametrize("chain", [[], [AesGcm({"a": bytes(32)}, "a")]], ids=["plain", "sealed"])
def test_a_pickled_value_becomes_the_one_argument_of_a_call(value, chain):
    def fn(given): ...

    codec = Codec(pickle=True, chain=chain)
    call = codec.open(codec.call_with(codec.message(value, "publish")))
    assert call[0] == 1
    assert codec.arguments(fn).unpack(call) == ((value,), {})
    assert pickle._loads(call[1:]) == ((value,), {})  # type: ignore[attr-defined]  # the one in Python, not in C


def test_a_value_that_can_t_be_pickled_either_is_refused():
    with pytest.raises(NotEncodable, match="neither"):
        pickling.value(Any).encode(threading.Lock())


def test_a_value_whose_pickling_fails_with_an_unprintable_error_is_refused():
    class Closed:
        def __reduce__(self):
            raise Unprintable("x")

    with pytest.raises(NotEncodable, match="neither JSON nor to be pickled: <Unprintable without a printable message>"):
        pickling.value(Any).encode(Closed())


def test_a_broken_pickle_is_not_decodable():
    with pytest.raises(NotDecodable, match="unpickled"):
        pickling.value(Any).decode(b"\x01junk")


def test_a_pickle_passes_through_the_chain():
    codec = Codec(pickle=True, chain=[AesGcm({"k": b"k" * 32}, primary="k")])
    made = codec.value(Any)
    assert made.decode(made.encode(Cat("Tom"))) == Cat("Tom")


def test_the_limit_holds_for_pickles():
    with pytest.raises(PayloadTooLarge):
        Codec(pickle=True, max_payload=50).value(Any).encode(Cat("x" * 100))

"""Pickle only when asked for."""

import threading
from typing import Any

import pytest

from holdfast.codec import AesGcm, Codec
from holdfast.errors import NotDecodable, NotEncodable, PayloadTooLarge
from tests.unit.codec.samples import BigItem, Cat, Item

pickling = Codec(pickle=True)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [(Any, [Cat("Tom")]), (Item, BigItem("a", 1, weight=2.0)), (Any, 1j), (list[Any], [{"a": Cat("Tom")}])],
    ids=str,
)
def test_what_json_can_t_hold_is_pickled(annotation, value):
    made = pickling.value(annotation)
    stored = made.encode(value)
    assert stored[0] == 1
    assert made.decode(stored) == value


def test_what_json_can_hold_is_not_pickled():
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


def test_what_can_t_be_pickled_either_is_refused():
    with pytest.raises(NotEncodable, match="neither"):
        pickling.value(Any).encode(threading.Lock())


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

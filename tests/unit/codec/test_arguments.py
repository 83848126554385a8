"""Arguments by a function's parameters."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import ParamSpec, Required, TypedDict, TypeVarTuple, Unpack
from uuid import UUID

import hypothesis.strategies as st
import pytest
from hypothesis import given

from holdfast.codec import Codec
from holdfast.errors import BadArguments, NotDecodable, NotEncodable, PayloadTooLarge
from tests.unit.codec.samples import BigItem, Cat, Item, Level, Order, Plain, Total

codec = Codec()


def charge(card: str, cents: int) -> str: ...


def lone(n: int) -> None: ...


def ship(item: Item, count: int = 1, *, express: bool = False, note: str | None = None) -> None: ...


def untyped(a, b=None, *args, **kwargs): ...


def positional(a: int, /, b: int = 0, **more: int): ...


def implicit(a: int = None): ...  # noqa: RUF013


def gather(*items: Item, **named: Item): ...


class Wishes(TypedDict, total=False):
    item: Required[Item]
    since: date


def order(card: str, **wishes: Unpack[Wishes]): ...


def round_trip(fn, *args, **kwargs):
    made = codec.arguments(fn)
    return made.unpack(made.pack(args, kwargs))


def test_a_call_comes_back():
    assert round_trip(charge, "tok", 5) == (("tok", 5), {})


def test_arguments_are_fresh_copies():
    item = Item("a", 1, {"x"})
    (back,), _ = round_trip(ship, item)
    assert back == item
    assert back.tags is not item.tags


def test_a_call_has_the_same_bytes_however_it_is_written():
    made = codec.arguments(charge)
    ways = [made.pack(("x", 1), {}), made.pack(("x",), {"cents": 1}), made.pack((), {"cents": 1, "card": "x"})]
    assert set(ways) == {b'["x",1]'}


def test_keyword_only_arguments_are_written_in_the_order_of_the_signature():
    made = codec.arguments(ship)
    one = made.pack((Item("a", 1),), {"note": "n", "express": True})
    two = made.pack((Item("a", 1),), {"express": True, "note": "n"})
    assert one == two == b'{"":[{"sku":"a","cents":1,"tags":[]}],"express":true,"note":"n"}'


def test_a_call_that_skips_a_default_keeps_the_name():
    assert round_trip(untyped, 1, c=(2,)) == ((1,), {"c": (2,)})


def test_defaults_are_not_filled_in():
    assert codec.arguments(ship).pack((Item("a", 1),), {}) == b'[{"sku":"a","cents":1,"tags":[]}]'


def test_a_parameter_added_with_a_default_changes_no_bytes():
    def before(a: int): ...
    def after(a: int, b: int = 2, *, c: int = 3): ...

    assert codec.arguments(before).pack((1,), {}) == codec.arguments(after).pack((1,), {})


def test_any_number_of_arguments_of_either_kind_come_back():
    assert round_trip(untyped, 1, (2,), {3}, x=b"4") == ((1, (2,), {3}), {"x": b"4"})
    assert round_trip(gather, Item("a", 1), b=Item("b", 2)) == ((Item("a", 1),), {"b": Item("b", 2)})


def test_a_keyword_argument_may_have_the_name_of_a_positional_only_parameter():
    assert round_trip(positional, 1, a=2) == ((1,), {"a": 2})


def test_a_default_of_none_allows_none():
    assert round_trip(implicit, None) == ((None,), {})
    assert round_trip(implicit, 3) == ((3,), {})


def test_a_call_without_arguments_is_an_empty_array():
    def fn(): ...

    assert codec.arguments(fn).pack((), {}) == b"[]"
    assert codec.arguments(fn).unpack(b"[]") == ((), {})


def test_leading_parameters_can_be_left_out():
    def fn(connection, item: Item): ...

    made = codec.arguments(fn, skip=1)
    assert made.unpack(made.pack((Item("a", 1),), {})) == ((Item("a", 1),), {})


def test_a_method_is_packed_without_its_instance():
    class Shop:
        def sell(self, item: Item, count: int) -> None: ...

    made = codec.arguments(Shop().sell)
    assert made.unpack(made.pack((Item("a", 1), 2), {})) == ((Item("a", 1), 2), {})
    assert made is codec.arguments(Shop().sell)


def test_a_callable_without_a_signature_takes_anything():
    assert round_trip(dict.fromkeys, (1, 2), 3) == (((1, 2), 3), {})


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(-(10**400), 10**400))
def test_any_text_and_number_come_back(card, cents):
    assert round_trip(charge, card, cents) == ((card, cents), {})


@pytest.mark.parametrize("value", [True, Level.HIGH, 2**70])
def test_a_number_keeps_its_own_type(value):
    ((_, back), _) = round_trip(charge, "x", value)
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize(
    ("fn", "args", "kwargs", "told"),
    [
        (charge, ("x",), {}, "charge() needs cents"),
        (charge, (), {}, "charge() needs card, cents"),
        (charge, ("x", 1, 2), {}, "charge() takes 2 positional arguments (card, cents), 3 were given"),
        (lone, (1, 2), {}, "lone() takes 1 positional argument (n), 2 were given"),
        (charge, ("x", 1), {"tip": 1}, "charge() has no parameter 'tip': its names are card, cents"),
        (charge, ("x", 1), {"card": "y"}, "charge(): argument card was given twice"),
        (charge, (1, 1), {}, "charge(): argument card: expected str, got int"),
        (charge, ("x", "1"), {}, "charge(): argument cents: expected int, got str"),
        (charge, ("x", None), {}, "charge(): argument cents: expected int, got NoneType"),
        (ship, (Item("a", "b"),), {}, "ship(): argument item.cents: expected int, got str"),
        (ship, (Cat("a"),), {}, "expected Item, got tests.unit.codec.samples.Cat"),
        (ship, ({"sku": "a", "cents": 1},), {}, "expected Item, got dict"),
        (positional, (), {"a": 1}, "positional() needs a"),
        (gather, (Item("a", 1), 2), {}, "argument *[1]: expected Item, got int"),
        (gather, (), {"": Item("a", 1)}, "has no parameter ''"),
        (gather, (), {"x": 2}, "argument x: expected Item, got int"),
    ],
    ids=lambda one: getattr(one, "__name__", str(one)),
)
def test_a_call_that_can_t_be_made_says_what_is_wrong(fn, args, kwargs, told):
    with pytest.raises(BadArguments) as caught:
        codec.arguments(fn).pack(args, kwargs)
    assert told in str(caught.value)


def test_an_argument_that_can_t_be_stored_is_named():
    with pytest.raises(NotEncodable, match=r"item: .*BigItem is a subclass of Item.*\(argument of ship\(\)\)"):
        codec.arguments(ship).pack((BigItem("a", 1),), {})
    with pytest.raises(NotEncodable, match=r"a\[0\]: .*Plain has no annotation.*annotate.*\(argument of untyped\(\)\)"):
        codec.arguments(untyped).pack(([Plain()],), {})


def test_arguments_that_are_too_large_are_refused():
    small = Codec(max_payload=100)
    with pytest.raises(PayloadTooLarge, match=r"the arguments of charge\(\): 1[0-9]+ bytes"):
        small.arguments(charge).pack(("x" * 100, 1), {})


def test_check_proves_that_the_arguments_can_be_read():
    def fn(total: Total, order: Order): ...

    total = Total(1)
    total.net = -5
    with pytest.raises(BadArguments, match=r"argument total: .*net must not be negative"):
        codec.arguments(fn).check((total, Order(id=1)), {})


def test_check_gives_the_packed_bytes():
    made = codec.arguments(charge)
    assert made.check(("x", 1), {}) == made.pack(("x", 1), {})


def test_arguments_of_a_start_by_name_are_read_as_plain_json_where_they_fit():
    def pack(ids: list[int], label: str) -> None: ...

    by_name = codec.arguments(untyped).pack(((1, 2), UUID(int=5)), {})
    assert codec.arguments(pack).unpack(by_name) == (([1, 2], str(UUID(int=5))), {})


def test_arguments_written_by_hand_are_read_by_name():
    assert codec.arguments(charge).unpack(b'{"card":"x","cents":1}') == ((), {"card": "x", "cents": 1})


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        (b'["x"]', "needs cents"),
        (b'["x",1,2]', "no place for argument number 3"),
        (b'{"card":"x","cents":1,"tip":2}', "no place for the argument 'tip'"),
        (b'["x","y"]', "argument cents: expected int, found a string"),
        (b'{"":1}', "expected an array or an object"),
        (b"3", "expected an array or an object"),
        (b"{", "no JSON"),
        (b"", "no JSON"),
    ],
)
def test_stored_arguments_that_no_longer_fit_are_not_decodable(stored, told):
    with pytest.raises(NotDecodable) as caught:
        codec.arguments(charge).unpack(stored)
    assert told in str(caught.value)


def test_a_lone_surrogate_in_an_argument_is_refused():
    with pytest.raises(NotEncodable, match=r"arguments\[0\]: str with a lone surrogate"):
        codec.arguments(charge).pack(("\ud800", 1), {})


@dataclass
class Local:
    x: int


def test_packing_is_the_same_with_the_fast_path_and_without():
    def typed(a: int, b: str): ...
    def optional(a: int, b: str, c: Local | None = None): ...

    for args in ((1, "a"), (2**90, ""), (-1, "ü")):
        assert codec.arguments(typed).pack(args, {}) == codec.arguments(optional).pack(args, {})
        assert codec.arguments(typed).unpack(codec.arguments(optional).pack(args, {})) == (args, {})


def test_the_keys_of_an_unpacked_typed_dict_are_typed_arguments():
    wishes = {"item": Item("a", 1, {"x"}), "since": date(2024, 1, 1)}
    assert round_trip(order, "tok", **wishes) == (("tok",), wishes)
    for wrong, told in [({"since": date(2024, 1, 1)}, "needs item"), ({**wishes, "until": 1}, "no parameter 'until'")]:
        with pytest.raises(BadArguments, match=told):
            codec.arguments(order).pack(("tok",), wrong)


def test_arguments_annotated_with_a_param_spec_or_type_variable_tuple_keep_their_types():
    P = ParamSpec("P")
    Ts = TypeVarTuple("Ts")

    def decorated(fn: Callable[P, None]) -> Callable[P, None]:
        def inner(*args: P.args, **kwargs: P.kwargs) -> None: ...

        return inner

    def spread(*args: *Ts): ...

    assert round_trip(decorated(charge), (1, {2}), b=b"x") == (((1, {2}),), {"b": b"x"})
    assert round_trip(spread, (1, {2})) == (((1, {2}),), {})

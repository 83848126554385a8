"""Types get fields with defaults while runs are under way that have handed values of them to steps and children."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import attrs
import msgspec
import pydantic
import pytest

from holdfast import JournalDiverged, sleep, step, workflow
from holdfast.codec import Codec
from holdfast.define import Workflow
from holdfast.engine import Execution


@dataclass
class Data:
    a: int
    b: str = "b"


@dataclass
class GrownData:
    a: int
    gift: bool = False
    b: str = "b"
    notes: list[str] = field(default_factory=list)


@attrs.define
class Defined:
    a: int
    b: str = "b"


@attrs.define
class GrownDefined:
    a: int
    gift: bool = False
    b: str = "b"
    notes: list[str] = attrs.Factory(list)


class Struct(msgspec.Struct):
    a: int
    b: str = "b"


class GrownStruct(msgspec.Struct):
    a: int
    gift: bool = False
    b: str = "b"
    notes: list[str] = []


class Model(pydantic.BaseModel):
    a: int
    b: str = "b"


class GrownModel(pydantic.BaseModel):
    a: int
    gift: bool = False
    b: str = "b"
    notes: list[str] = pydantic.Field(default_factory=list)


class Row(NamedTuple):
    a: int
    b: str = "b"


class GrownRow(NamedTuple):
    a: int
    gift: bool = False
    b: str = "b"
    notes: tuple[str, ...] = ()


PAIRS = [(Data, GrownData), (Defined, GrownDefined), (Struct, GrownStruct), (Model, GrownModel), (Row, GrownRow)]
each_pair = pytest.mark.parametrize(("before", "after"), PAIRS, ids=lambda cls: cls.__name__)


def shop(cls: Any, change: Any = lambda order: order) -> Workflow[..., Any]:
    """A workflow that hands an order to a step, alone and among others, and then waits."""

    @step(name="ship")
    async def ship(order: cls) -> None: ...

    @step(name="tell")
    async def tell(orders: dict[str, list[cls]]) -> None: ...

    @workflow(name="shop")
    async def body(order: cls) -> Any:
        await ship(change(order))
        await tell({"of today": [order, order]})
        await sleep("1h")
        return order

    return body


def sleeps(body: Execution) -> bool:
    """Whether the run has passed both steps and sleeps."""
    return not body.commands and body.next_timer() is not None


@each_pair
def test_a_run_goes_on_when_a_type_has_got_fields_with_defaults(begin, before, after):
    drive = begin(shop(before), before(a=1))
    drive.complete("ship")
    drive.complete("tell")
    assert sleeps(drive.replay(workflow=shop(after)))


@each_pair
def test_a_run_goes_on_when_values_differ_from_the_defaults_that_there_were(begin, before, after):
    drive = begin(shop(before), before(a=1, b="other"))
    drive.complete("ship")
    drive.complete("tell")
    assert sleeps(drive.replay(workflow=shop(after)))


@dataclass
class TracedData(Data):
    trace: str = field(default_factory=lambda: uuid4().hex)
    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    gift: bool = False


@attrs.define
class TracedDefined(Defined):
    trace: UUID = attrs.Factory(uuid4)


class TracedStruct(Struct):
    trace: UUID = msgspec.field(default_factory=uuid4)


class TracedModel(Model):
    trace: UUID = pydantic.Field(default_factory=uuid4)


TRACED = [(Data, TracedData), (Defined, TracedDefined), (Struct, TracedStruct), (Model, TracedModel)]


@pytest.mark.parametrize(("before", "after"), TRACED, ids=lambda cls: cls.__name__)
def test_a_run_goes_on_when_the_default_of_a_new_field_is_another_one_each_time(begin, before, after):
    drive = begin(shop(before), before(a=1))
    drive.complete("ship")
    drive.complete("tell")
    assert sleeps(drive.replay(workflow=shop(after)))


@pytest.mark.parametrize("change", [{"a": 2}, {"gift": True}])
def test_a_default_that_is_another_one_each_time_hides_no_other_change(begin, change):
    drive = begin(shop(Data), Data(a=1))
    with pytest.raises(JournalDiverged):
        drive.replay(workflow=shop(TracedData, lambda order: replace(order, **change)))


def test_code_that_puts_something_into_a_new_list_has_diverged(begin):
    drive = begin(shop(Data), Data(a=1))
    with pytest.raises(JournalDiverged):
        drive.replay(workflow=shop(GrownData, lambda order: replace(order, notes=["x"])))


def test_a_child_whose_input_type_got_fields_with_defaults_is_the_same_child(begin):
    def parent(cls: Any) -> Workflow[..., Any]:
        @workflow(name="deliver")
        async def deliver(order: cls) -> None: ...

        @workflow(name="parent")
        async def body(order: cls) -> None:
            await deliver(order)

        return body

    again = begin(parent(Data), Data(a=1)).replay(workflow=parent(GrownData))
    assert list(again.life.children) == ["deliver"]


def test_code_that_gives_the_new_field_another_value_has_diverged(begin):
    drive = begin(shop(Data), Data(a=1))
    with pytest.raises(JournalDiverged):
        drive.replay(workflow=shop(GrownData, lambda order: replace(order, gift=True)))


def test_code_that_gives_an_old_field_another_value_has_diverged(begin):
    drive = begin(shop(Data), Data(a=1))
    with pytest.raises(JournalDiverged):
        drive.replay(workflow=shop(GrownData, lambda order: replace(order, a=2)))


def test_a_mapping_that_got_a_key_named_like_the_new_field_has_diverged(begin):
    def told(cls: Any, more: dict[str, Any]) -> Workflow[..., Any]:
        @step(name="tell")
        async def tell(order: cls, more: dict[str, Any]) -> None: ...

        @workflow(name="told")
        async def body(order: cls) -> None:
            await tell(order, more)

        return body

    drive = begin(told(Data, {}), Data(a=1))
    drive.replay(workflow=told(GrownData, {}))
    with pytest.raises(JournalDiverged):
        drive.replay(workflow=told(GrownData, {"gift": False}))


def test_the_search_for_earlier_forms_of_a_large_call_is_bounded():
    arguments = Codec().arguments(shop(list[GrownData]).fn)
    few = arguments.pack(([GrownData(a=1)],), {})
    many = arguments.pack(([GrownData(a=number) for number in range(50_000)],), {})
    assert len(list(arguments.earlier(few))) == 7
    assert len(list(arguments.earlier(many))) < 7


def test_fields_that_are_new_each_time_are_left_out_after_those_that_hold_their_defaults():
    arguments = Codec().arguments(shop(TracedData).fn)
    call = arguments.pack((TracedData(a=1, b="other"),), {})
    without = [set(TracedData.__annotations__) - msgspec.json.decode(one)[0].keys() for one in arguments.earlier(call)]
    assert without[:4] == [{"gift"}, {"trace"}, {"at"}, {"trace", "at"}]
    assert len(without) == len(set(map(frozenset, without)))

"""A mapped workflow may change under live runs as any child may: the options of its runs, and its types."""

from dataclasses import dataclass
from typing import Any

import pytest

import holdfast
from holdfast import JournalDiverged, workflow
from holdfast.define import Workflow


@dataclass
class Parcel:
    name: str


@dataclass
class GrownParcel:
    name: str
    is_gift: bool = False


def ship_all(
    names: str = "ab", cls: Any = Parcel, name: str = "ship", options: Any = None, given: Any = None
) -> Workflow[..., Any]:
    """A run that maps parcels; `options` are those of @workflow, `given` those of the map."""

    @workflow(name=name, **options or {})
    async def ship(parcel: cls) -> str:
        return str(parcel.name)

    @workflow(name="ship all")
    async def body() -> list[Any]:
        return await holdfast.map(ship, [cls(name) for name in names], **given or {})

    return body


@pytest.mark.parametrize(
    "options", [{"version": "2"}, {"queue": "parcels"}, {"deadline": "1h"}, {"retention": None}], ids=str
)
def test_a_run_goes_on_when_the_mapped_workflow_declares_other_options(begin, options):
    again = begin(ship_all()).replay(workflow=ship_all(options=options))
    assert list(again.life.children) == ["holdfast.map"]


def test_a_run_goes_on_when_the_concurrency_of_its_map_is_raised(begin):
    again = begin(ship_all()).replay(workflow=ship_all(given={"concurrency": 20}))
    assert list(again.life.children) == ["holdfast.map"]


def test_a_run_goes_on_when_the_type_of_its_items_has_got_a_field_with_a_default(begin):
    again = begin(ship_all()).replay(workflow=ship_all(cls=GrownParcel))
    assert list(again.life.children) == ["holdfast.map"]


@pytest.mark.parametrize(
    "changed",
    [{"names": "ac"}, {"names": "abc"}, {"name": "send"}, {"given": {"on_error": "collect"}}],
    ids=str,
)
def test_a_map_with_other_items_another_workflow_or_another_on_error_has_diverged(begin, changed):
    drive = begin(ship_all())
    with pytest.raises(JournalDiverged):
        drive.replay(workflow=ship_all(**changed))

"""UUIDs as the drivers of databases return them."""

from typing import Any
from uuid import UUID

import pytest
from asyncpg.pgproto.pgproto import UUID as DriversUUID

from holdfast.codec import Codec
from holdfast.errors import NotEncodable

codec = Codec()
TEXT = "12345678-1234-5678-1234-567812345678"


class OrderId(UUID):
    """A class of the user's, which may mean something."""


@pytest.mark.parametrize("annotation", [UUID, UUID | str, UUID | None, Any])
def test_a_uuid_that_asyncpg_returned_comes_back_as_a_uuid(annotation: Any):
    made = codec.value(annotation)
    back = made.decode(made.encode(DriversUUID(TEXT)))
    assert (type(back), str(back)) == (UUID, TEXT)


@pytest.mark.parametrize("annotation", [dict[UUID, int], dict, Any])
def test_a_uuid_that_asyncpg_returned_may_be_a_key(annotation: Any):
    made = codec.value(annotation)
    back = made.decode(made.encode({DriversUUID(TEXT): 1}))
    assert back == {UUID(TEXT): 1}
    assert [type(key) for key in back] == [UUID]


def test_a_uuid_that_asyncpg_returned_is_written_as_any_other():
    for annotation in (UUID, Any):
        made = codec.value(annotation)
        assert made.encode(DriversUUID(TEXT)) == made.encode(UUID(TEXT))


@pytest.mark.parametrize("annotation", [UUID, Any])
def test_any_other_subclass_of_uuid_is_refused(annotation: Any):
    with pytest.raises(NotEncodable, match="OrderId"):
        codec.value(annotation).encode(OrderId(TEXT))

"""Secrets are stored only where the chain encrypts."""

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pydantic
import pydantic.dataclasses
import pytest

from holdfast.codec import AesGcm, Codec
from holdfast.errors import NotEncodable
from tests.unit.codec.samples import Covered, Login

clear = Codec()
encrypting = Codec(chain=[AesGcm({"k": b"k" * 32}, primary="k")])


@dataclass
class Wrapper:
    login: Login


@pydantic.dataclasses.dataclass
class CoveredData:
    user: str
    token: str = pydantic.Field(exclude=True)


CASES = [
    (pydantic.SecretStr, pydantic.SecretStr("hunter2")),
    (pydantic.SecretBytes, pydantic.SecretBytes(b"hunter2")),
    (pydantic.Secret[int], pydantic.Secret[int](7)),
    (list[pydantic.SecretStr | None], [None, pydantic.SecretStr("hunter2")]),
    (Login, Login(user="a", password="hunter2")),
    (Wrapper, Wrapper(Login(user="a", password="hunter2"))),
    (Covered, Covered(user="a", token="hunter2")),
    (CoveredData, CoveredData(user="a", token="hunter2")),
]


@pytest.mark.parametrize(("annotation", "value"), CASES, ids=str)
def test_a_secret_is_refused_in_the_clear(annotation, value):
    with pytest.raises(NotEncodable, match="encrypts") as caught:
        clear.value(annotation).encode(value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(("annotation", "value"), CASES, ids=str)
def test_a_secret_round_trips_where_the_chain_encrypts(annotation, value):
    made = encrypting.value(annotation)
    stored = made.encode(value)
    assert made.decode(stored) == value
    assert b"hunter2" not in stored


def test_a_secret_without_an_annotation_is_refused():
    with pytest.raises(NotEncodable, match="secret"):
        clear.value(Any).encode([pydantic.SecretStr("hunter2")])


def test_a_model_whose_secret_is_elsewhere_in_a_union_is_stored():
    made = clear.value(pydantic.SecretStr | int)
    assert made.decode(made.encode(3)) == 3


def test_pickle_does_not_let_a_secret_through():
    pickling = Codec(pickle=True)
    for value in (pydantic.SecretStr("hunter2"), {"a": [Login(user="a", password="hunter2")]}):
        with pytest.raises(NotEncodable, match="encrypts"):
            pickling.value(Any).encode(value)


def test_pickle_lets_a_secret_through_where_the_chain_encrypts():
    made = Codec(pickle=True, chain=[AesGcm({"k": b"k" * 32}, primary="k")]).value(Any)
    given = {"a": [Login(user="a", password="hunter2")]}
    stored = made.encode(given)
    assert made.decode(stored) == given
    assert b"hunter2" not in stored


def test_the_codec_works_without_loading_pydantic():
    code = (
        "import sys, typing, dataclasses\n"
        "from holdfast.codec import Codec\n"
        "C = dataclasses.make_dataclass('C', [('a', int)])\n"
        "v = Codec().value(list[C]); assert v.decode(v.encode([C(1)])) == [C(1)]\n"
        "Codec().value(typing.Any).encode({'a': (1,)})\n"
        "assert not {'pydantic', 'attr', 'zstandard', 'cryptography'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(filter(None, sys.path))})

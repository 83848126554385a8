"""Payloads are compressed, encrypted and limited; what was sealed can be read while its transform is there."""

import sys
import threading
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from holdfast.codec import AesGcm, Codec, Transform, Zstd
from holdfast.errors import DefinitionError, NotDecodable, PayloadTooLarge

OLD, NEW = b"o" * 32, b"n" * 16
LONG = b'"' + b"x" * 5000 + b'"'


class Reversed:
    """What a user may write."""

    id = "reversed"
    encrypts = False

    def apply(self, data: bytes) -> bytes:
        return data[::-1]

    def revert(self, data: bytes) -> bytes:
        return data[::-1]


def cipher(primary="new", **keys):
    return AesGcm(keys or {"old": OLD, "new": NEW}, primary=primary)


CHAINS = {
    "none": [],
    "zstd": [Zstd(threshold=0)],
    "aes": [cipher()],
    "zstd, aes": [Zstd(threshold=0), cipher()],
    "aes, zstd": [cipher(), Zstd(threshold=0)],
    "own": [Reversed()],
    "all": [Reversed(), Zstd(), cipher()],
}


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
@given(plain=st.binary())
def test_a_sealed_payload_can_be_opened(chain, plain):
    codec = Codec(chain=chain)
    assert codec.open(codec.seal(plain)) == plain


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
def test_values_and_exceptions_pass_through_every_chain(chain):
    codec = Codec(chain=chain)
    made = codec.value(Any)
    for value in ("x", 1, {"a": (1,)}, "y" * 5000):
        assert made.decode(made.encode(value)) == value
    typed = codec.value(str)
    assert typed.decode(typed.encode("x")) == "x"
    assert codec.decode_exception(codec.encode_exception(KeyError("k"))).args == ("k",)


def test_an_empty_chain_returns_the_very_same_object():
    codec = Codec()
    assert codec.seal(LONG) is LONG
    assert codec.open(LONG) is LONG


def test_small_payloads_are_not_compressed():
    codec = Codec(chain=[Zstd(threshold=1024)])
    assert codec.seal(b'"small"') == b'"small"'
    assert len(codec.seal(LONG)) < 200


def test_a_payload_that_does_not_get_smaller_is_stored_uncompressed():
    codec = Codec(chain=[Zstd(threshold=0)])
    assert codec.seal(b"1") == b"1"


def test_encryption_hides_the_payload_and_never_repeats_itself():
    codec = Codec(chain=[cipher()])
    one, two = codec.seal(b'"card number"'), codec.seal(b'"card number"')
    assert b"card" not in one
    assert one != two


def test_payloads_from_before_the_chain_are_read():
    assert Codec(chain=[Zstd(), cipher()]).value(str).decode(b'"x"') == "x"


def test_payloads_of_another_order_and_part_of_the_chain_are_read():
    stored = Codec(chain=[Zstd(threshold=0)]).seal(LONG)
    assert Codec(chain=[cipher(), Zstd()]).open(stored) == LONG


def test_a_transform_that_is_gone_is_named():
    stored = Codec(chain=[Reversed()]).seal(LONG)
    with pytest.raises(NotDecodable, match=r"'reversed'.* in the setting `codec`"):
        Codec().open(stored)


def test_a_payload_of_an_old_key_is_read_after_rotation():
    stored = Codec(chain=[cipher("old")]).seal(LONG)
    assert Codec(chain=[cipher("new")]).open(stored) == LONG


def test_a_missing_key_is_named_and_no_key_is_shown():
    stored = Codec(chain=[cipher("old")]).seal(LONG)
    with pytest.raises(NotDecodable, match="'old'") as caught:
        Codec(chain=[cipher("new", new=NEW)]).open(stored)
    assert "nnnn" not in str(caught.value)
    assert "oooo" not in repr(cipher()) + str(caught.value)


def test_another_key_under_the_same_name_is_refused():
    stored = Codec(chain=[cipher("a", a=OLD)]).seal(LONG)
    with pytest.raises(NotDecodable, match="changed"):
        Codec(chain=[cipher("a", a=b"z" * 32)]).open(stored)


def test_every_changed_byte_of_an_encrypted_payload_is_noticed():
    codec = Codec(chain=[Zstd(threshold=0), cipher()])
    made = codec.value(str)
    stored = made.encode("x" * 100)
    for index in range(len(stored)):
        changed = bytearray(stored)
        changed[index] ^= 1
        with pytest.raises(NotDecodable):
            made.decode(bytes(changed))


def test_a_key_s_name_is_authenticated():
    codec = Codec(chain=[cipher("a", a=OLD, b=OLD)])
    stored = codec.seal(b"1").replace(b"\x01a", b"\x01b", 1)
    with pytest.raises(NotDecodable):
        codec.open(stored)


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
def test_every_cut_payload_is_refused(chain):
    made = Codec(chain=chain).value(str)
    stored = made.encode("x" * 2000)
    for end in [*range(min(40, len(stored))), len(stored) - 1]:
        with pytest.raises(NotDecodable):
            made.decode(stored[:end])


def test_a_compressed_payload_that_was_changed_is_refused():
    codec = Codec(chain=[Zstd(threshold=0)])
    stored = bytearray(codec.seal(LONG))
    stored[-6] ^= 0xFF
    with pytest.raises(NotDecodable, match="zstd"):
        codec.open(bytes(stored))


def test_the_limit_is_on_the_plain_size():
    codec = Codec(max_payload=1000, chain=[Zstd()])
    with pytest.raises(PayloadTooLarge, match="5,002 bytes, more than the limit of 1,000"):
        codec.seal(LONG)
    with pytest.raises(PayloadTooLarge):
        codec.value(str).encode("x" * 5000)


def test_a_value_at_the_limit_is_stored():
    codec = Codec(max_payload=10)
    assert codec.value(str).encode("x" * 8) == b'"xxxxxxxx"'


def test_a_result_that_is_too_large_names_its_function():
    def fn() -> str: ...

    with pytest.raises(PayloadTooLarge, match=r"result \(returned by .*fn\(\)\): 11 bytes"):
        Codec(max_payload=10).result(fn).encode("x" * 9)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: AesGcm({"a": b"short"}, primary="a"), "'a' has 5 bytes"),
        (lambda: AesGcm({"a": OLD}, primary="b"), "'b' is not among the keys"),
        (lambda: AesGcm({"": OLD}, primary=""), "1 to 255 bytes"),
        (lambda: AesGcm({"a": "k" * 32}, primary="a"), "expected keys in bytes"),
        (lambda: AesGcm([OLD], primary="a"), "expected keys in bytes"),
        (lambda: AesGcm({1: OLD}, primary=1), "1 is no text"),
        (lambda: Zstd(level=99), "level=99"),
        (lambda: Zstd(level="best"), "level='best'"),
        (lambda: Zstd(threshold=-1), "threshold=-1"),
        (lambda: Codec(chain=[Zstd(), Zstd()]), "the same id"),
        (lambda: Codec(chain=[Zstd]), "a list of transforms"),
        (lambda: Codec(chain=Zstd()), "a list of transforms"),
        (lambda: Codec(max_payload=0), "max_payload=0"),
        (lambda: Codec(max_payload="4 MiB"), "max_payload='4 MiB'"),
    ],
)
def test_an_unusable_chain_is_refused_where_it_is_written(make, told):
    with pytest.raises(DefinitionError, match=told):
        make()


@pytest.mark.parametrize(
    ("package", "make", "extra"),
    [
        ("zstandard", Zstd, "holdfast[compress]"),
        ("cryptography.hazmat.primitives.ciphers.aead", cipher, "holdfast[encrypt]"),
    ],
)
def test_a_missing_package_is_named_by_its_extra(monkeypatch, package, make, extra):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(DefinitionError) as caught:
        make()
    assert extra in str(caught.value)


def test_the_transforms_are_what_the_protocol_says():
    assert isinstance(Zstd(), Transform)
    assert isinstance(cipher(), Transform)
    assert isinstance(Reversed(), Transform)


def test_one_codec_serves_many_threads():
    codec = Codec(chain=[Zstd(threshold=0), cipher()])
    bad = []

    def work(number):
        made = codec.value(list[int])
        value = [number] * 300
        for _ in range(50):
            if made.decode(made.encode(value)) != value:
                bad.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert bad == []

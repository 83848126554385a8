"""Exceptions, raised and brought back."""

from holdfast.codec import Codec

codec = Codec()


def caught_from(act):
    try:
        act()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def fail(error):
    def act():
        raise error

    return act


def round_trip(error, **options):
    return codec.decode_exception(codec.encode_exception(error, **options))

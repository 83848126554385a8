"""Whether the code of a class takes part when an instance is made of its fields, or an attribute is set or read.

Where it does not, an instance is proven to come back by its fields alone. Whatever is not known to be ordinary counts
as the class's own code: its values are then read back once before they are stored, which costs time and loses nothing.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Iterable
from types import MemberDescriptorType, WrapperDescriptorType
from typing import Any

import msgspec

_HOOKS = ("__post_init__", "__attrs_attrs__", "__pydantic_fields__")
_MAKERS = {kind.__new__ for kind in (object, list, dict, set, deque)}
"""Those of bases that can be made without arguments; a `str` or a tuple is made of its content."""


def makes_itself(cls: Any) -> bool:
    """Whether code of the class itself may run when an instance is made: it may make attributes beside the fields."""
    return (
        any(hasattr(cls, hook) for hook in _HOOKS)
        or not _has_generated_init(cls)
        or inspect.isfunction(cls.__new__)
        or not isinstance(type(cls).__call__, WrapperDescriptorType)
    )


def is_ordinary(cls: Any, fields: Iterable[str]) -> bool:
    """Whether an instance is its fields, and each field is what was set."""
    return (
        not makes_itself(cls)
        and cls.__new__ in _MAKERS
        and (_sets_past_the_class(cls) or isinstance(cls.__setattr__, WrapperDescriptorType))
        and isinstance(cls.__getattribute__, WrapperDescriptorType)
        and not any(_is_descriptor(inspect.getattr_static(cls, name, None)) for name in fields)
    )


def _has_generated_init(cls: Any) -> bool:
    """Whether the dataclass decorator wrote its `__init__`, for exactly the fields that it has.

    `@dataclass` leaves an `__init__` alone that is there, and a subclass without the decorator has its base's fields
    but may have an `__init__` of its own.
    """
    if issubclass(cls, msgspec.Struct):  # which can't define one
        return True
    owner = next(base for base in cls.__mro__ if "__init__" in base.__dict__)
    code = getattr(owner.__init__, "__code__", None)
    is_generated = code is not None and code.co_qualname == "__create_fn__.<locals>.__init__"
    return is_generated and getattr(owner, "__dataclass_fields__", None) is cls.__dataclass_fields__


def _sets_past_the_class(cls: Any) -> bool:
    """Whether making an instance never calls the class's `__setattr__`: that of a frozen class only refuses."""
    return issubclass(cls, msgspec.Struct) or bool(cls.__dataclass_params__.frozen)


def _is_descriptor(attribute: Any) -> bool:
    """Whether it stands between a field and its value. A slot does too, and changes nothing."""
    return hasattr(type(attribute), "__set__") and not isinstance(attribute, MemberDescriptorType)

"""Resolves annotations to types: forward references, inherited type parameters.

An annotation with a name that can't be found becomes an `Unresolved`, an error only when it is used; the others are
resolved all the same.
"""

from __future__ import annotations

import functools
import inspect
import sys
import typing
from collections.abc import Callable
from typing import Any


class Unresolved:
    """An annotation whose names can't be found."""

    def __init__(self, text: str, error: Exception) -> None:
        self.reason = (
            f"its annotation {text!r} can't be resolved ({error}): define or import that name at module level, "
            f"and not only under TYPE_CHECKING"
        )


def function_hints(fn: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of any callable, by parameter name and `return`."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    if isinstance(fn, type):
        return {**function_hints(fn.__init__), "return": fn}  # type: ignore[misc]
    if not hasattr(fn, "__annotations__") and not inspect.isroutine(fn):
        fn = type(fn).__call__
    try:
        return typing.get_type_hints(fn, include_extras=True)
    except Exception:
        inner = inspect.unwrap(fn)
        space = getattr(inner, "__globals__", {})
        own = _own_parameters(inner)
        return {name: _resolve(hint, space, own) for name, hint in getattr(fn, "__annotations__", {}).items()}


def known_hints(fn: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a callable, without those that can't be resolved."""
    return {name: hint for name, hint in function_hints(fn).items() if not isinstance(hint, Unresolved)}


def class_hints(cls: type, arguments: tuple[Any, ...] = ()) -> dict[str, Any]:
    """The annotations of a class and its bases, with type parameters replaced where their arguments are known."""
    try:
        hints = typing.get_type_hints(cls, localns={cls.__name__: cls}, include_extras=True)
    except Exception:
        hints = {}
        for base in reversed(cls.__mro__):
            space = getattr(sys.modules.get(base.__module__), "__dict__", {})
            local = {cls.__name__: cls, **_own_parameters(base)}
            for name, hint in _own(base).items():
                hints[name] = _resolve(hint, space, local)
    known = _type_parameters(cls, arguments)
    if known:
        owners = _owners(cls)
        hints = {name: substitute(hint, known.get(owners.get(name, cls), {})) for name, hint in hints.items()}
    return hints


def substitute(annotation: Any, known: dict[Any, Any]) -> Any:
    if isinstance(annotation, typing.TypeVar):
        return known.get(annotation, annotation)
    parameters = getattr(annotation, "__parameters__", ())
    if isinstance(annotation, type) or not any(parameter in known for parameter in parameters):
        return annotation
    return annotation[tuple(known.get(parameter, parameter) for parameter in parameters)]


def is_typed_dict(annotation: Any) -> bool:
    """Whether it is a TypedDict of typing or typing_extensions: before Python 3.12 pydantic requires the latter."""
    if typing.is_typeddict(annotation):
        return True
    return isinstance(annotation, type) and issubclass(annotation, dict) and hasattr(annotation, "__required_keys__")


def is_required(hint: Any, default: bool) -> bool:
    """Whether a TypedDict needs a key with this hint.

    `default` says whether `__required_keys__` has it, which is wrong where annotations are strings: `Required` and
    `NotRequired` inside them were not seen.
    """
    origin = typing.get_origin(hint)
    if origin is typing.Required or origin is typing.NotRequired:
        return origin is typing.Required
    return is_required(typing.get_args(hint)[0], default) if str(origin).endswith("ReadOnly") else default


def is_unpacked(hint: Any) -> bool:
    """Whether it is unpacked, as in `*args: *tuple[int, str]` and `**kwargs: Unpack[Options]`."""
    return is_unpack(hint) or bool(getattr(hint, "__unpacked__", False))


def is_unpack(hint: Any) -> bool:
    """Whether it is an `Unpack[...]` of typing or of typing_extensions."""
    return str(typing.get_origin(hint)).endswith(".Unpack")


def resolve_reference(text: str, module: str | None) -> Any:
    space = getattr(sys.modules.get(module or ""), "__dict__", {})
    return _resolve(text, space, {})


def _resolve(hint: Any, space: dict[str, Any], local: dict[str, Any]) -> Any:
    holder = type("holder", (), {"__annotations__": {"hint": hint}})
    try:
        return typing.get_type_hints(holder, globalns=space, localns=local, include_extras=True)["hint"]
    except Exception as error:
        return Unresolved(hint if isinstance(hint, str) else str(hint), error)


def _own_parameters(owner: object) -> dict[str, Any]:
    """The type parameters of `class Box[T]` and `def first[T]`, which are in no module's namespace.

    typing itself looks for them only from Python 3.12.4 on.
    """
    return {parameter.__name__: parameter for parameter in getattr(owner, "__type_params__", ())}


def _own(cls: type) -> dict[str, Any]:
    try:
        return inspect.get_annotations(cls)
    except Exception:  # from Python 3.14 on, reading annotations evaluates them
        return {}


def _owners(cls: type) -> dict[str, type]:
    owners: dict[str, type] = {}
    for base in cls.__mro__:
        for name in _own(base):
            owners.setdefault(name, base)
    return owners


def _type_parameters(cls: Any, arguments: tuple[Any, ...]) -> dict[type, dict[Any, Any]]:
    """The arguments of the type parameters of each class in the hierarchy: the same T may differ between classes."""
    own = dict(zip(getattr(cls, "__parameters__", ()), arguments, strict=False))
    known: dict[type, dict[Any, Any]] = {cls: own} if own else {}
    for base in getattr(cls, "__orig_bases__", ()):
        origin = typing.get_origin(base)
        if isinstance(origin, type) and origin is not typing.Generic:
            known.update(_type_parameters(origin, tuple(substitute(arg, own) for arg in typing.get_args(base))))
    return known

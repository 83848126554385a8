"""Exceptions ⇄ plain data.

An exception comes back as its own class if that class can be found by name among the loaded modules; for a worker these
are the modules loaded when it started. This is decided and recorded once, when the exception is written. If the class
can't be found later, that is an error, never another class. Any other exception comes back as a StepFailed.

It is rebuilt without its `__init__`, whose signature is unknown: from the `__new__` of its built-in base, its args and
its attributes. pydantic's ValidationError has no such `__new__` and is rebuilt from its findings (`findings.py`).

Whether retries stop at it (`is_final`) is recorded beside the class: an exception that must not be retried must not
become retryable when it comes back as another class.

A part that can't be kept is named in a note. Writing never raises: a failure must not get lost because its exception
is an odd one.
"""

from __future__ import annotations

import traceback
from collections.abc import Container, Sequence
from types import MemberDescriptorType
from typing import Any

from holdfast.codec import bare
from holdfast.codec.findings import load_findings, lower_findings
from holdfast.codec.loaded import find_class
from holdfast.codec.printable import clean, shown
from holdfast.codec.shapes import Misfit, encode_json, type_name
from holdfast.errors import NotDecodable, StepFailed
from holdfast.model import FINAL_MARK, as_final, is_final

MAX_DEPTH = 10
MAX_TRACEBACK = 8 * 1024
MAX_MESSAGE = 16 * 1024
MAX_MEMBERS = 100
_HELD_DEPTH = 3
_HEAP_TYPE = 1 << 9
_NOT_STATE = ("__notes__", FINAL_MARK)


class Relayed(Exception):
    """An exception that is handed on in its stored form, where its class may be missing."""

    def __init__(self, plain: Any) -> None:
        failed = tell_exception(plain)
        super().__init__(str(plain["message"]))
        self._plain = plain
        self.type = failed.type.rpartition(".")[2]
        """The name of the exception's class."""

    def kept(self, notes: Sequence[str]) -> dict[str, Any]:
        """The stored data, with these notes and those added since."""
        added = [*noted(self), *map(clean, notes)]
        return {**self._plain, "notes": [*self._plain.get("notes", ()), *added]}


def lower_exception(error: BaseException, notes: Sequence[str], loaded: Container[str] | None) -> dict[str, Any]:
    """Plain data for an exception, its causes and its members. Only classes of `loaded` modules count as known."""
    try:
        return _lower(error, notes, MAX_DEPTH, frozenset(), loaded)
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        # An attribute of it raises. The failure and the class's name must be kept all the same.
        stand_in = RuntimeError("<an exception that can't be looked at>")
        plain = _lower(as_final(stand_in) if is_final(error) else stand_in, notes, 1, frozenset(), loaded)
        note = f"reading it raised {type(problem).__qualname__}"
        own = {"module": clean(str(type(error).__module__)), "name": clean(type(error).__qualname__), "rebuild": False}
        return {**plain, **own, "notes": [*plain["notes"], note]}


def shortened(plain: dict[str, Any]) -> dict[str, Any]:
    """The same data without its large parts. It comes back as a StepFailed."""
    return {
        **plain,
        "rebuild": False,
        "message": plain["message"][:500],
        "traceback": plain["traceback"][-500:],
        "notes": ["the exception was too large to be kept whole", *(note[:200] for note in plain["notes"][-5:])],
        "args": [],
        "state": {},
        "held": {},
        "findings": None,
        "members": None,
        "cause": None,
        "context": None,
    }


def load_exception(plain: Any, home: str | None) -> BaseException:
    try:
        error = _load(plain, home)
    except Misfit as misfit:
        raise NotDecodable(f"exception{misfit.path}: {misfit.why}") from misfit.__cause__
    except NotDecodable:
        raise
    except Exception as problem:
        raise NotDecodable(f"the stored exception can't be read: {type_name(type(problem))}: {problem}") from problem
    return error


def tell_exception(plain: Any) -> StepFailed:
    """The record of an exception as a StepFailed, without looking for its class. Raises NotDecodable."""
    try:
        return _as_step_failed(plain)
    except (KeyError, TypeError, AttributeError) as problem:
        raise NotDecodable(f"the stored exception can't be read: {type_name(type(problem))}: {problem}") from problem


def _as_step_failed(plain: dict[str, Any]) -> StepFailed:
    """A StepFailed with the original's message and notes. Its traceback, or else its class, is the last note."""
    name, traceback = f"{plain['module']}.{plain['name']}", plain.get("traceback", "")
    failed = StepFailed(plain["message"], type=name, traceback=traceback)
    _put_notes(failed, [*(str(note) for note in plain.get("notes", ())), traceback or f"it was raised as {name}"])
    return failed


def _lower(
    error: BaseException, notes: Sequence[str], depth: int, seen: frozenset[int], loaded: Container[str] | None
) -> dict[str, Any]:
    seen = seen | {id(error)}
    cls = type(error)
    lost: list[str] = []
    cause = _lower_link(error.__cause__, depth, seen, loaded)
    context = None if error.__suppress_context__ else _lower_link(error.__context__, depth, seen, loaded)
    links = {id(error.__context__): "__context__"} if context is not None else {}
    if cause is not None:
        links[id(error.__cause__)] = "__cause__"
    held = _lower_held(error, links, depth, seen, loaded)
    plain: dict[str, Any] = {
        "module": clean(str(cls.__module__)),
        "name": clean(cls.__qualname__),
        "rebuild": False,
        "message": message_of(error),
        "args": _lower_args(error, held, lost),
        "state": _lower_state(error, held, lost),
        "traceback": traceback_text(error),
        "members": _lower_members(error, depth, seen, loaded),
        "cause": cause,
        "context": context,
    }
    if is_final(error):
        plain["final"] = True
    if held:
        plain["held"] = held
    findings = lower_findings(error, plain["message"], lost)
    if findings is not None:
        plain["findings"] = findings
    plain["notes"] = [*noted(error), *(f"could not be kept: {item}" for item in lost), *(clean(note) for note in notes)]
    plain["rebuild"] = (loaded is None or cls.__module__ in loaded) and _may_be_rebuilt(cls, plain)
    return plain


def _lower_link(
    error: BaseException | None, depth: int, seen: frozenset[int], loaded: Container[str] | None
) -> dict[str, Any] | None:
    return None if error is None or depth <= 1 or id(error) in seen else _lower(error, (), depth - 1, seen, loaded)


def _lower_members(
    error: BaseException, depth: int, seen: frozenset[int], loaded: Container[str] | None
) -> list[Any] | None:
    if not isinstance(error, BaseExceptionGroup) or depth <= 1:
        return None
    members = [member for member in error.exceptions[:MAX_MEMBERS] if id(member) not in seen]
    return [_lower(member, (), depth - 1, seen, loaded) for member in members]


def _lower_held(
    error: BaseException, links: dict[int, str], depth: int, seen: frozenset[int], loaded: Container[str] | None
) -> dict[str, Any]:
    """Exceptions among its args and attributes, by place: each as plain data, or as the place that holds it already."""
    places = {_place(index): item for index, item in enumerate(error.args)}
    places |= {name: item for name, item in (getattr(error, "__dict__", None) or {}).items() if type(name) is str}
    held: dict[str, Any] = {}
    for name, item in places.items():
        if not isinstance(item, BaseException):
            continue
        plain = links.get(id(item)) or _lower_link(item, min(depth, _HELD_DEPTH), seen, loaded)
        if plain is not None:
            held[clean(name)] = plain
            links.setdefault(id(item), clean(name))
    return held


def _place(index: int) -> str:
    return f"args[{index}]"


def _lower_args(error: BaseException, held: dict[str, Any], lost: list[str]) -> list[Any]:
    if isinstance(error, BaseExceptionGroup):
        if len(error.exceptions) > MAX_MEMBERS:
            lost.append(f"all but the first {MAX_MEMBERS} of {len(error.exceptions)} exceptions")
        return [clean(error.message)]
    out = []
    for index, item in enumerate(error.args):
        plain = None if _place(index) in held else _kept(item, _place(index), lost)
        if plain is None and item is not None:
            plain = clean(item) if type(item) is str else shown(item)
        out.append(plain)
    return out


def _lower_state(error: BaseException, held: dict[str, Any], lost: list[str]) -> dict[str, Any]:
    state: dict[str, Any] = {}
    for name, value in (getattr(error, "__dict__", None) or {}).items():
        if type(name) is not str or name in _NOT_STATE or clean(name) in held:
            continue
        plain = _attribute(value, name, lost)
        if plain is not None or value is None:
            state[clean(name)] = plain
    for name, is_builtin in _slots(type(error)):
        value = getattr(error, name, None)
        if value is None or (is_builtin and name == "obj"):  # an AttributeError's `obj` may be any object
            continue
        plain = _attribute(value, name, lost)
        if plain is not None:
            state[name] = plain
    return state


def _attribute(value: Any, name: str, lost: list[str]) -> Any:
    # Text may hold lone surrogates, such as a file's name that is no UTF-8, and the message is made of it.
    plain = _kept(value, name, lost)
    return clean(value) if plain is None and type(value) is str else plain


def _slots(cls: type) -> list[tuple[str, bool]]:
    """Attributes outside `__dict__`, those of built-in classes and of `__slots__`: name, whether it is a built-in's."""
    found = []
    for base in cls.__mro__:
        if base in (BaseException, BaseExceptionGroup, ExceptionGroup):
            continue
        is_builtin = not base.__flags__ & _HEAP_TYPE
        found += [(name, is_builtin) for name, slot in vars(base).items() if isinstance(slot, MemberDescriptorType)]
    return found


def _kept(value: Any, name: str, lost: list[str]) -> Any:
    try:
        plain = bare.lower(value)
        encode_json(plain)
    except Misfit as misfit:
        lost.append(clean(f"{name}{misfit.path}: {misfit.why}"))
    except (ValueError, OverflowError, RecursionError) as problem:
        lost.append(clean(f"{name}: {problem}"))
    else:
        return plain
    return None


def _may_be_rebuilt(cls: type, plain: dict[str, Any]) -> bool:
    if not issubclass(cls, Exception) or find_class(cls.__module__, cls.__qualname__) is not cls:
        return False
    try:
        back = _rebuild(cls, plain, _load_links(plain, None) if "held" in plain else {}, None)
    except Exception:
        return False
    return message_of(back) != _unprintable(cls) or plain["message"] == _unprintable(cls)


def _load(plain: dict[str, Any], home: str | None) -> BaseException:
    links = _load_links(plain, home)
    if plain["rebuild"]:
        cls = find_class(plain["module"], plain["name"], home)
        if cls is None or not issubclass(cls, Exception):
            name = f"{plain['module']}.{plain['name']}"
            raise NotDecodable(
                f"the exception class {name} was known when it was stored and is in no loaded module now: keep it, or "
                f"import its module where the worker starts"
            )
        error = _rebuild(cls, plain, links, home)
    else:
        error = _as_step_failed(plain)
    if "final" in plain:
        as_final(error)
    for name in ("__cause__", "__context__"):
        if name in links:
            object.__setattr__(error, name, links[name])
            break
    return error


def _load_links(plain: dict[str, Any], home: str | None) -> dict[str, BaseException]:
    """The exception's cause, context, and the exceptions among its args and attributes, by place."""
    links = {f"__{name}__": _load(plain[name], home) for name in ("cause", "context") if plain[name] is not None}
    for name, held in plain.get("held", {}).items():
        links[name] = links[held] if type(held) is str else _load(held, home)
    return links


def _rebuild(cls: type, plain: dict[str, Any], links: dict[str, BaseException], home: str | None) -> BaseException:
    base: Any = cls
    while base.__flags__ & _HEAP_TYPE:
        base = base.__base__
    error: BaseException
    if plain.get("findings") is not None:
        error = load_findings(plain["findings"])
    elif issubclass(cls, BaseExceptionGroup):
        error = base.__new__(cls, plain["args"][0], [_load(member, home) for member in plain["members"] or ()])
    else:
        error = base.__new__(cls)
        places = ((_place(index), item) for index, item in enumerate(plain["args"]))
        args = [links[place] if place in links else bare.load(item) for place, item in places]
        # By object's own __setattr__, here and below: an exception may be a frozen dataclass.
        object.__setattr__(error, "args", tuple(args))
    for name, value in plain["state"].items():
        object.__setattr__(error, name, bare.load(value))
    for name in plain.get("held", {}):
        if not name.startswith("args["):
            object.__setattr__(error, name, links[name])
    _put_notes(error, [*plain["notes"], plain["traceback"]] if plain["traceback"] else plain["notes"])
    return error


def _put_notes(error: BaseException, notes: list[str]) -> None:
    if notes:
        # Not by add_note, which reads `__notes__`: a class's `__getattr__` may fail, since `__init__` never ran.
        object.__setattr__(error, "__notes__", list(notes))


def message_of(error: BaseException) -> str:
    """The exception's `str`, cut short; a text with its class's name if `__str__` raises."""
    try:
        return clean(str(error))[:MAX_MESSAGE]
    except KeyboardInterrupt:
        raise
    except BaseException:
        return _unprintable(type(error))


def _unprintable(cls: type) -> str:
    return clean(f"<{cls.__qualname__} without a printable message>")


def noted(error: BaseException) -> list[str]:
    """The notes of an exception as texts. `__notes__` may be no list, and a note may be no text."""
    notes = getattr(error, "__notes__", None)
    return [_note(note) for note in notes] if isinstance(notes, (list, tuple)) else []


def _note(note: object) -> str:
    try:
        return clean(str(note))
    except Exception:
        return shown(note)


def traceback_text(error: BaseException) -> str:
    """The exception's traceback as text that can be stored; empty if it was never raised."""
    if error.__traceback__ is None:
        return ""
    try:
        lines = "".join(traceback.format_tb(error.__traceback__, limit=-50))
    except Exception:
        return ""
    text = f"{lines}{type_name(type(error))}: {message_of(error)}"
    # Cut at the front: the innermost frames are at the end.
    return clean("Traceback (most recent call last):\n" + text[-MAX_TRACEBACK:])

"""Unions.

Where JSON itself tells the members apart (`int | str`, `Order | None`) no tag is written. A member that would look like
another (`Cat | Dog`, `datetime | str`) is written as `{"~:Cat": ...}`. The tag is the member's name, not its position,
so a union may grow and be reordered under live runs. A union may contain another (`Sequence[int] | None` does): the
tags of the inner one are passed on to it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from holdfast.codec.shapes import KIND_OF, Lacking, Misfit, Mismatch, Shape, envelope, expected


class Union(Shape):
    """One of several shapes."""

    __slots__ = ("_by_kind", "_by_tag", "_members", "_tags")

    def __init__(self, members: list[Shape], names: list[str], natural: Shape | None = None) -> None:
        """`names` become tags. `natural` is a member that is always written without a tag."""
        self.name = " | ".join(member.name for member in members)
        self.kinds = frozenset().union(*(member.kinds for member in members))
        self._members = members
        self._by_tag = {f"~:{name}": member for name, member in zip(names, members, strict=True)}
        claims = Counter(kind for member in members for kind in member.kinds)
        clear = [
            member is natural
            or (member.verbatim and not any(_clash(member, other) for other in members if other is not member))
            or all(claims[kind] == 1 for kind in member.kinds)
            for member in members
        ]
        self._tags = [None if is_clear else tag for tag, is_clear in zip(self._by_tag, clear, strict=True)]
        self._by_kind: dict[str, Shape] = {}
        for member, is_clear in zip(members, clear, strict=True):
            for kind in member.kinds if is_clear else ():
                self._by_kind.setdefault(kind, member)

    def lower(self, value: Any) -> Any:
        deepest: Misfit | None = None
        try:
            for member, tag in zip(self._members, self._tags, strict=True):
                try:
                    plain = member.lower(value)
                except Misfit as misfit:
                    if deepest is None or _tells_more(misfit, deepest):
                        deepest = misfit
                else:
                    return plain if tag is None else {tag: plain}
            if deepest is None or (type(deepest) is Mismatch and not deepest.steps):
                raise expected(self, value)
            raise deepest
        finally:
            # Its traceback holds this frame, and this frame the value: a cycle that only the collector would free.
            del deepest

    def load(self, plain: Any) -> Any:
        tag = envelope(plain)
        if tag is None:
            member = self._by_kind.get(KIND_OF[type(plain)])
            return self._load_untagged(plain) if member is None else member.load(plain)
        if tag in self._by_tag:
            return self._by_tag[tag].load(plain[tag])
        if tag.startswith("~:"):
            for member in self._members:
                if isinstance(member, Union) and member.holds(tag):
                    return member.load(plain)
            raise Mismatch(f"{tag[2:]} is no longer among {self.name}: keep it there while such values are stored")
        lacking = None
        for member in self._members:
            try:
                return member.load(plain)
            except Misfit as misfit:
                lacking = _first_lacking(lacking, misfit)
        raise lacking or Mismatch(f"expected {self.name}, found {tag[1:]}")

    def load_own(self, plain: Any) -> Any:
        """Read text or a number that was sent without this annotation, and fits several members.

        It would be in an envelope if it had been of another class, such as a date. So a member that is written as it is
        gets it. Stored values are not read so: one that was stored as a date, before the union, is no text.
        """
        for member in self._members:
            if member.verbatim and KIND_OF[type(plain)] in member.kinds:
                return member.load(plain)
        return self._load_untagged(plain)

    def holds(self, tag: str) -> bool:
        """Whether a member has this tag, here or in a union that is itself a member."""
        return tag in self._by_tag or any(isinstance(member, Union) and member.holds(tag) for member in self._members)

    def _load_untagged(self, plain: Any) -> Any:
        """Read a value written by hand, or before the annotation was a union, if exactly one member can read it."""
        found, lacking = [], None
        for member in self._members:
            try:
                found.append((member, member.load(plain)))
            except Misfit as misfit:
                lacking = _first_lacking(lacking, misfit)
        if len(found) == 1:
            return found[0][1]
        if not found:
            raise lacking or Mismatch(f"fits none of {self.name}")
        names = " and ".join(member.name for member, _ in found)
        raise Mismatch(f'fits {names} alike: say which, as in {{"~:{found[0][0].name}": ...}}')


def _first_lacking(known: Lacking | None, misfit: Misfit) -> Lacking | None:
    """What decides if no member reads the value: with the code that is missing, one of them might."""
    return misfit if known is None and isinstance(misfit, Lacking) else known


def _clash(member: Shape, other: Shape) -> bool:
    return not other.verbatim and bool(member.kinds & other.kinds)


def _tells_more(misfit: Misfit, other: Misfit) -> bool:
    """Whether `misfit` explains more: the value fitted but can't be stored, or it fitted further in."""
    return (not isinstance(misfit, Mismatch), len(misfit.steps)) > (not isinstance(other, Mismatch), len(other.steps))

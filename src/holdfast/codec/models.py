"""Pydantic models, and types that only pydantic can read.

A model is written field by field, like a dataclass, so that nested values keep their types. It is read through its own
validators, since programs bring old data up to date in them. Then the stored fields are put back as they were, so that
a validator that is not idempotent changes nothing. The names of fields that were never set are stored too, because
`model_dump(exclude_unset=True)` depends on them.

This module never imports pydantic: it is reached only with a class whose pydantic is loaded.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

from holdfast.codec import bare
from holdfast.codec.copies import ATOMS, copied, unchanged
from holdfast.codec.fields import Field
from holdfast.codec.records import escaped, excluded, refuse_subclass, unwrapped
from holdfast.codec.shapes import (
    ANY_KIND,
    Lacking,
    Misfit,
    Mismatch,
    Shape,
    Unstorable,
    encode_json,
    envelope,
    type_name,
)
from holdfast.codec.texts import TEXTS, TEXTS_BY_TAG

UNSET = "~unset"


def is_model(cls: type) -> bool:
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and issubclass(cls, pydantic.BaseModel)


def has_core_schema(cls: object) -> bool:
    return "pydantic" in sys.modules and hasattr(cls, "__get_pydantic_core_schema__")


class Model(Shape):
    """A pydantic model."""

    __slots__ = ("_aliases", "_fields", "_hides", "_is_root", "_keeps_extra", "_options", "_passes_unknown", "type")

    def __init__(self, cls: Any, is_encrypted: bool) -> None:
        self.type = cls
        self.name = cls.__name__
        self.kinds = frozenset({"object"})
        self._fields: dict[str, Field] = {}
        self._keeps_extra = cls.model_config.get("extra") == "allow"
        self._is_root = bool(getattr(cls, "__pydantic_root_model__", False))
        decorators = cls.__pydantic_decorators__
        # A validator that runs before the fields are read may need fields of an older version of the model.
        self._passes_unknown = any(
            decorator.info.mode in ("before", "wrap") for decorator in decorators.model_validators.values()
        )
        hidden = [name for name, field in cls.model_fields.items() if field.exclude]
        self._hides = hidden[0] if hidden and not is_encrypted else ""
        by_name = "by_name" in inspect.signature(cls.model_validate).parameters
        self._options = {"by_alias": False, "by_name": True} if by_name else {}
        self._aliases = {} if by_name or cls.model_config.get("populate_by_name") else _aliases(cls)

    def set_fields(self, fields: list[Field]) -> None:
        self._fields = {field.name: field for field in fields}

    def lower(self, value: Any) -> Any:
        if type(value) is not self.type:
            raise refuse_subclass(self, self.type, value)
        if self._hides:
            raise excluded(self._hides)
        out: dict[str, Any] = {}
        name = ""
        try:
            for name, field in self._fields.items():
                out[name] = field.shape.lower(getattr(value, name))
            for name, item in (value.model_extra or {}).items():
                out[name] = bare.lower(item)
        except Misfit as misfit:
            raise misfit.under("." + name) from None
        except AttributeError:
            raise Unstorable(f"{self.name} has no value for its field {name}: it was never set") from None
        unset = [name for name in self._fields if name not in value.model_fields_set]
        if unset:
            out[UNSET] = unset
        return escaped(out)

    def load(self, plain: Any) -> Any:
        plain = dict(unwrapped(self, plain))
        unset = plain.pop(UNSET, ())
        given: dict[str, Any] = {}
        stored: dict[str, Any] = {}
        copies: dict[str, Any] = {}
        misfits: list[Misfit] = []
        for name, item in plain.items():
            field = self._fields.get(name)
            if field is None:
                if self._keeps_extra:
                    given[name] = bare.load(item)
                elif self._passes_unknown:
                    given[name] = item
                continue
            try:
                given[name] = stored[name] = loaded = field.shape.load(item)
                if type(loaded) not in ATOMS:
                    copies[name] = copied(loaded)
            except Misfit as misfit:
                # Its annotation can't read the stored value, but pydantic may.
                given[name] = item
                misfits.append(misfit.under("." + name))
        value = self._validate(given, misfits)
        for name, copy in copies.items():
            stored[name] = unchanged(stored[name], copy)
        value.__dict__.update(stored)
        # Its own validators may have left out what was set, or set what was not.
        if unset or value.model_fields_set != stored.keys():
            are_set = (value.model_fields_set | stored.keys()) - set(unset)
            object.__setattr__(value, "__pydantic_fields_set__", are_set)
        return value

    def _validate(self, given: dict[str, Any], misfits: list[Misfit]) -> Any:
        content = given.get("root") if self._is_root else {self._aliases.get(name, name): given[name] for name in given}
        try:
            value = self.type.model_validate(content, **self._options)
        except Exception as error:
            if misfits:
                raise next((one for one in misfits if isinstance(one, Lacking)), misfits[0]) from error
            raise Mismatch(f"{self.name} refused its stored fields: {error}") from error
        if type(value) is not self.type:
            raise Mismatch(f"{self.name} was read back as {type_name(type(value))} by its own validator")
        return value


def _aliases(cls: Any) -> dict[str, str]:
    return {
        name: field.validation_alias
        for name, field in cls.model_fields.items()
        if isinstance(field.validation_alias, str)
    }


class Adapted(Shape):
    """A type that only pydantic can read and write, such as a URL."""

    __slots__ = ("_adapter",)

    def __init__(self, annotation: Any, name: str) -> None:
        self.name = name
        self.kinds = ANY_KIND - {"null"}
        self._adapter = sys.modules["pydantic"].TypeAdapter(annotation)

    def lower(self, value: Any) -> Any:
        try:
            plain = self._adapter.dump_python(value, mode="json", round_trip=True, warnings="error")
            back = self._adapter.validate_json(encode_json(plain))
        except Exception as error:
            raise Mismatch(f"expected {self.name}, got {type_name(type(value))}: {error}") from error
        if type(back) is not type(value) or back != value or plain is None:
            raise Unstorable(f"{type_name(type(value))} does not come back as it was through pydantic")
        text = TEXTS.get(type(value))
        # Equal is not enough: pydantic writes a datetime's offset but not its zone, so the codec writes it itself.
        return bare.lower(value) if text is not None and text.write(back) != text.write(value) else plain

    def load(self, plain: Any) -> Any:
        tag = envelope(plain)
        try:
            if tag is not None and tag[1:] in TEXTS_BY_TAG:
                return self._adapter.validate_python(bare.load(plain))
            return self._adapter.validate_json(encode_json(plain))
        except Exception as error:
            raise Mismatch(f"expected {self.name}: {error}") from error

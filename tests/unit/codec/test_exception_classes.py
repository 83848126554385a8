"""Which class an exception comes back as, and where it is looked for."""

import sys
import types

import pytest

from holdfast import errors
from tests.unit.codec import samples
from tests.unit.codec.raised import caught_from, codec, fail, round_trip
from tests.unit.codec.samples import Cat, Gone, PaymentFailed


def test_a_local_class_comes_back_as_step_failed():
    class Local(Exception):
        pass

    back = round_trip(caught_from(fail(Local("gone"))), notes=["attempt 1"])
    assert type(back) is errors.StepFailed
    assert str(back) == "gone"
    assert back.type == f"{__name__}.test_a_local_class_comes_back_as_step_failed.<locals>.Local"
    assert back.traceback.endswith("Local: gone")
    assert back.__notes__ == ["attempt 1", back.traceback]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()], ids=repr)
def test_a_class_that_is_no_exception_comes_back_as_step_failed(error):
    back = round_trip(error)
    assert type(back) is errors.StepFailed
    assert back.type == f"builtins.{type(error).__name__}"


def test_a_group_keeps_the_members_that_can_t_be_rebuilt_as_step_failed():
    class Local(Exception):
        pass

    back = round_trip(ExceptionGroup("many", [Local("a"), ValueError("b")]))
    assert [type(member) for member in back.exceptions] == [errors.StepFailed, ValueError]


def test_a_class_that_is_gone_is_never_replaced_by_another(monkeypatch):
    stored = codec.encode_exception(Gone("x"))
    monkeypatch.delattr(samples, "Gone")
    with pytest.raises(errors.NotDecodable, match=r"tests\.unit\.codec\.samples\.Gone was known"):
        codec.decode_exception(stored)


def test_a_name_that_is_no_exception_now_is_not_called(monkeypatch):
    stored = codec.encode_exception(Gone("x"))
    monkeypatch.setattr(samples, "Gone", Cat)
    with pytest.raises(errors.NotDecodable):
        codec.decode_exception(stored)


def module_with(monkeypatch, name, cls, **attributes):
    module = types.ModuleType(name)
    vars(module).update({cls.__name__: cls, **attributes})
    monkeypatch.setitem(sys.modules, name, module)
    return module


def test_a_class_of_the_script_is_found_in_the_body_s_own_module(monkeypatch):
    cls = type("Mine", (Exception,), {"__module__": "__main__"})
    module_with(monkeypatch, "__main__", cls)
    stored = codec.encode_exception(cls("x"))
    module_with(monkeypatch, "__main__", Cat)
    module_with(monkeypatch, "orders", cls)
    assert type(codec.decode_exception(stored, home="orders")) is cls
    with pytest.raises(errors.NotDecodable):
        codec.decode_exception(stored)


@pytest.mark.parametrize("others", [{"__main__"}, {"orders"}], ids=["the script", "who imports it"])
def test_a_class_of_a_script_that_multiprocessing_has_spawned_is_found_by_others(monkeypatch, others):
    """In a spawned process the script is called __mp_main__, and so is the module of its classes."""
    cls = type("Mine", (Exception,), {"__module__": "__mp_main__"})
    monkeypatch.setitem(sys.modules, "__mp_main__", module_with(monkeypatch, "__main__", cls))
    stored = codec.encode_exception(cls("x"))
    monkeypatch.setitem(sys.modules, "__mp_main__", module_with(monkeypatch, "__main__", Cat))
    for name in others:
        module_with(monkeypatch, name, cls)
    assert type(codec.decode_exception(stored, home="orders")) is cls


@pytest.mark.parametrize("place", ["cause", "context", "member"])
def test_a_script_class_of_a_cause_or_group_member_is_found_in_the_body_s_own_module(monkeypatch, place):
    cls = type("Mine", (Exception,), {"__module__": "__main__"})
    module_with(monkeypatch, "__main__", cls)
    error = ExceptionGroup("many", [cls("x")]) if place == "member" else ValueError("x")
    if place != "member":
        setattr(error, f"__{place}__", cls("x"))
    stored = codec.encode_exception(error)
    module_with(monkeypatch, "__main__", Cat)
    module_with(monkeypatch, "orders", cls)
    back = codec.decode_exception(stored, home="orders")
    assert type(back.exceptions[0] if place == "member" else getattr(back, f"__{place}__")) is cls


def test_the_script_s_own_class_comes_before_one_of_that_name_in_the_body_s_module(monkeypatch):
    cls, other = (type("Mine", (Exception,), {"__module__": module}) for module in ("__main__", "orders"))
    module_with(monkeypatch, "__main__", cls)
    module_with(monkeypatch, "orders", other)
    assert type(codec.decode_exception(codec.encode_exception(cls("x")), home="orders")) is cls


@pytest.mark.parametrize(
    "attributes",
    [
        {"__file__": "/srv/orders.py", "__spec__": None},
        {"__spec__": types.SimpleNamespace(name="orders")},
        {"__spec__": types.SimpleNamespace(name="orders.__main__")},
    ],
    ids=["by file", "by spec", "as a package"],
)
def test_a_class_of_a_module_is_found_when_that_module_is_the_script(monkeypatch, attributes):
    cls = type("Mine", (Exception,), {"__module__": "orders"})
    module_with(monkeypatch, "orders", cls)
    stored = codec.encode_exception(cls("x"))
    monkeypatch.delitem(sys.modules, "orders")
    module_with(monkeypatch, "__main__", cls, **attributes)
    assert type(codec.decode_exception(stored)) is cls


def test_reading_never_imports_a_module():
    stored = codec.encode_exception(ValueError("x")).replace(b'"builtins"', b'"this"')
    with pytest.raises(errors.NotDecodable):
        codec.decode_exception(stored)
    assert "this" not in sys.modules


def test_a_worker_knows_the_classes_of_modules_that_were_loaded_when_it_started_and_no_others(monkeypatch):
    """The worker that replays the run has not imported what a step imported while it ran."""
    of_worker = codec.for_worker()
    late = types.ModuleType("loaded_late")
    late.Late = type("Late", (Exception,), {"__module__": "loaded_late"})
    monkeypatch.setitem(sys.modules, "loaded_late", late)
    error = PaymentFailed("visa", code=51)
    error.__cause__ = ExceptionGroup("many", [late.Late("x")])
    back = of_worker.decode_exception(of_worker.encode_exception(error))
    assert type(back) is PaymentFailed
    assert [type(member) for member in back.__cause__.exceptions] == [errors.StepFailed]
    assert back.__cause__.exceptions[0].type == "loaded_late.Late"

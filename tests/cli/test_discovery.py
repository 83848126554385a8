"""Finding workflows where people keep them, and what is said when they are not there."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.discovery import Found, discover, survey
from holdfast.errors import DefinitionError, DuplicateWorkflow

Write = Callable[..., Path]


@pytest.fixture
def write(place: Path) -> Write:
    def write(path: str, text: str = "") -> Path:
        file = place / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text))
        return file

    return write


def flow(name: str) -> str:
    return f"from holdfast import workflow\n\n@workflow\nasync def {name}() -> None: ...\n"


def names(found: Found) -> list[str]:
    return [one.name for one in found.workflows]


def modules(found: Found) -> list[str]:
    return [one.fn.__module__ for one in found.workflows]


def test_a_module_is_found_by_name_in_the_working_directory(write):
    write("orders.py", flow("order") + flow("refund"))
    assert names(discover(["orders"])) == ["order", "refund"]


def test_one_attribute_of_a_module_is_found_alone(write):
    write("orders.py", flow("order") + flow("refund"))
    assert names(discover(["orders:refund"])) == ["refund"]


def test_an_attribute_may_be_a_list(write):
    write("orders.py", flow("order") + flow("refund") + flow("spare") + "ALL = [refund, order]\n")
    assert names(discover(["orders:ALL"])) == ["refund", "order"]


def test_a_file_is_a_module_as_if_it_were_run_as_a_script(write):
    write("jobs/daily.py", "import beside\n" + flow("daily"))
    write("jobs/beside.py")
    found = discover(["jobs/daily.py"])
    assert (names(found), modules(found)) == (["daily"], ["daily"])


def test_a_file_in_a_package_has_its_name_in_the_package(write):
    write("shop/__init__.py")
    write("shop/orders.py", "from . import steps\n" + flow("order"))
    write("shop/steps.py")
    assert modules(discover(["shop/orders.py"])) == ["shop.orders"]


@pytest.mark.parametrize("files", [["shop/__init__.py"], []], ids=["a package", "a folder"])
@pytest.mark.parametrize("target", ["shop", "shop/", "./shop"])
def test_every_module_of_a_package_or_folder_is_loaded_by_the_same_name(write, files, target):
    for file in files:
        write(file)
    write("shop/orders.py", flow("order"))
    write("shop/deep/returns.py", flow("give_back"))
    found = discover([target])
    assert sorted(modules(found)) == ["shop.deep.returns", "shop.orders"]


def test_modules_are_found_in_a_folder_whose_name_can_t_be_a_module_s(write):
    write("my-flows/orders.py", flow("order"))
    assert modules(discover(["my-flows"])) == ["orders"]


@pytest.mark.timeout(20)
def test_links_to_a_folder_above_are_not_followed(write, place):
    """Two of them would lead to more places than can ever be looked at."""
    write("jobs/deeper/daily.py", flow("daily"))
    for link in ("one", "other"):
        (place / "jobs" / "deeper" / link).symlink_to(place / "jobs")
    assert modules(discover(["jobs"])) == ["jobs.deeper.daily"]


def test_ignored_files_are_not_loaded(write):
    write("shop/orders.py", flow("order"))
    write("shop/test_orders.py", "raise AssertionError")
    write("shop/tests/more.py", "raise AssertionError")
    write("shop/__main__.py", "raise AssertionError")
    write("shop/.hidden/x.py", "raise AssertionError")
    assert names(discover(["shop"], ignore=["test_*.py", "tests"])) == ["order"]


@pytest.mark.parametrize("file", ["workflows.py", "workflows/orders.py", "workflows/__init__.py"])
def test_without_targets_the_workflows_of_the_working_directory_are_found(write, file):
    write(file, flow("order"))
    assert names(discover()) == ["order"]


def test_the_directory_of_the_settings_is_searched_last_without_targets(write, place):
    write("workflows/orders.py", flow("order"))
    (place / "deep").mkdir()
    assert names(discover(directory=place / "deep", home=place)) == ["order"]


def test_modules_are_found_from_the_directory_of_the_settings(write, place):
    write("shop/orders.py", flow("order"))
    (place / "deep").mkdir()
    assert names(discover(["shop.orders"], directory=place / "deep", home=place)) == ["order"]


def test_finding_no_workflow_is_an_error_with_advice(place):
    with pytest.raises(DefinitionError, match=r"no package or folder 'workflows'; name a module.*holdfast\.toml"):
        discover()


def test_a_target_without_a_workflow_is_refused(write):
    write("orders.py", "x = 1\n")
    with pytest.raises(DefinitionError, match="'orders' holds no workflow"):
        discover(["orders"])


def test_two_targets_may_lead_to_the_same_workflow(write):
    write("shop/orders.py", flow("order"))
    assert names(discover(["shop", "shop/orders.py", "shop.orders:order"])) == ["order"]


def test_resources_are_found_in_modules_that_steps_come_from(write):
    write(
        "shop/steps.py",
        """
        from holdfast import resource, step

        @resource
        def till():
            yield 1

        @step
        def ring() -> int:
            return till()
        """,
    )
    write("shop/orders.py", "from shop.steps import ring\n" + flow("order"))
    found = discover(["shop.orders"])
    assert [one.name for one in found.resources] == ["till"]


def test_middleware_is_found_as_a_module_s_list_of_that_name(write):
    write("orders.py", flow("order") + "def timed(info): ...\nmiddleware = [timed]\n")
    assert [one.__name__ for one in discover(["orders"]).middleware] == ["timed"]


def test_middleware_that_is_no_list_of_middleware_is_refused(write):
    write("orders.py", flow("order") + "middleware = 3\n")
    with pytest.raises(DefinitionError, match=r"`middleware` in orders \(orders.py\): expected a list"):
        discover(["orders"])


def test_the_codec_of_a_module_is_found(write):
    write("orders.py", flow("order") + "from holdfast import Codec\ncodec = Codec(max_payload=10)\n")
    assert discover(["orders"]).codec is sys.modules["orders"].codec


def test_two_codecs_are_refused(write):
    write("orders.py", flow("order") + "from holdfast import Codec\ncodec = Codec()\n")
    write("refunds.py", flow("refund") + "from holdfast import Codec\ncodec = Codec()\n")
    with pytest.raises(DefinitionError, match="orders and refunds hold a Codec each"):
        discover(["orders", "refunds"])


def test_two_workflows_of_one_name_are_named_with_their_files_and_lines(write):
    write("orders.py", flow("order"))
    write("refunds.py", "\n" + flow("order"))
    with pytest.raises(DuplicateWorkflow, match=r"'order' in version '1': orders.py, line 3 and refunds.py, line 4"):
        discover(["orders", "refunds"])


def test_one_file_loaded_under_two_names_is_reported_as_loaded_twice(write, place):
    write("shop/orders.py", flow("order"))
    write("main.py", "import sys\nsys.path.insert(0, 'shop')\nfrom orders import order\nimport shop.orders\n")
    with pytest.raises(DuplicateWorkflow, match=r"loaded twice, as orders and as shop\.orders"):
        discover(["main", "shop.orders"])


def test_a_module_that_is_not_there_is_named(place):
    with pytest.raises(DefinitionError, match="there is no module 'orders'; it must be installed"):
        discover(["orders"])


def test_a_file_that_is_not_there_is_named(place):
    with pytest.raises(DefinitionError, match=r"'jobs/daily.py': there is no such folder or \.py file"):
        discover(["jobs/daily.py"])


def test_an_attribute_that_is_not_there_is_named_with_its_module(write):
    write("orders.py", flow("order"))
    with pytest.raises(DefinitionError, match=r"the module orders \(orders.py\) has no 'refund'"):
        discover(["orders:refund"])


def test_an_attribute_that_is_no_workflow_is_refused(write):
    write("orders.py", flow("order") + "def plain(): ...\n")
    with pytest.raises(DefinitionError, match=r"'orders:plain' is <function plain.*expected a function decorated"):
        discover(["orders:plain"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\nimport nowhere\n", r"orders.py, line 2: ModuleNotFoundError: No module named 'nowhere'"),
        ("x = 1\nx.y\n", r"orders.py, line 2: AttributeError"),
        ("x = (\n", r"orders.py, line 1: SyntaxError"),
        ("import json\njson.loads('{')\n", r"orders.py, line 2: json.decoder.JSONDecodeError"),
        ("import sys\nsys.exit(3)\n", r"orders.py, line 2: it ends the process when it is imported"),
        ("import broken\n", r"broken.py, line 3: ZeroDivisionError"),
        ("from holdfast import workflow\n@workflow\nclass X: ...\n", r"orders.py, line 2: holdfast.errors.Def"),
    ],
)
def test_a_module_that_can_t_be_loaded_is_named_with_the_line(write, text, said):
    write("orders.py", text)
    write("broken.py", "\n\n1 / 0\n")
    with pytest.raises(DefinitionError, match=rf"the module 'orders' can't be loaded: {said}"):
        discover(["orders"])


def test_a_file_whose_name_is_taken_is_refused(write):
    write("jobs/json.py", flow("order"))
    with pytest.raises(DefinitionError, match=r"jobs/json.py would be the module 'json', and that name belongs to"):
        discover(["jobs/json.py"])


@pytest.mark.parametrize("target", ["a b", ":x", "a..b"])
def test_an_invalid_target_is_refused(place, target):
    with pytest.raises(DefinitionError, match=r"is no target; expected module, module:attribute"):
        discover([target])


def test_a_survey_lists_every_module_that_can_t_be_loaded_and_finds_the_rest(write):
    write("jobs/good.py", flow("good"))
    write("jobs/bad.py", "import nowhere_at_all")
    write("jobs/worse.py", "1 / 0")
    write("jobs/zwin.py", flow("good"))
    found, problems = survey(["./jobs"])
    assert names(found) == ["good"]
    assert [word in str(one) for word, one in zip(("bad.py", "worse.py", "zwin.py"), problems, strict=True)] == [
        True
    ] * 3


def test_a_survey_that_finds_no_workflow_says_so(place):
    found, problems = survey()
    assert names(found) == []
    assert len(problems) == 1

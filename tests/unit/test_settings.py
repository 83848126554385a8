"""Where settings come from, and what is said about wrong ones."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from holdfast import settings
from holdfast.errors import DefinitionError
from holdfast.settings import Settings, resolve, settings_file
from holdfast.store import parse_url


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with two above it that belong to the test."""
    deep = tmp_path / "project" / "package"
    deep.mkdir(parents=True)
    return deep


def test_every_setting_has_a_check_and_a_field():
    assert set(settings._CHECKS) == {field.name for field in fields(Settings)}


def test_the_defaults_hold_without_any_setting(place):
    found = resolve(environ={}, directory=place)
    assert (found.url, found.namespace, found.migrate) == ("sqlite:///holdfast.db", "default", True)


def test_an_argument_comes_before_the_environment_and_the_environment_before_the_file(place):
    (place / "holdfast.toml").write_text('url = "sqlite:////file.db"\nnamespace = "file"\nschema = "file"\n')
    environ = {"HOLDFAST_URL": "sqlite:////environ.db", "HOLDFAST_NAMESPACE": "environ"}
    found = resolve(environ=environ, directory=place, url="sqlite:////argument.db")
    assert (found.url, found.namespace, found.schema) == ("sqlite:////argument.db", "environ", "file")


def test_an_argument_of_none_and_an_empty_variable_count_as_not_given(place):
    assert resolve(environ={"HOLDFAST_URL": ""}, directory=place, url=None).url == "sqlite:///holdfast.db"


def test_the_nearest_file_upward_counts_alone(place):
    (place.parent / "holdfast.toml").write_text('namespace = "near"\n')
    (place.parent.parent / "holdfast.toml").write_text('namespace = "far"\nschema = "far"\n')
    found = resolve(environ={}, directory=place)
    assert (found.namespace, found.schema) == ("near", None)


def test_a_pyproject_counts_only_if_it_has_the_table(place):
    (place / "pyproject.toml").write_text('[project]\nname = "x"\n')
    (place.parent / "pyproject.toml").write_text('[tool.holdfast]\nnamespace = "shop"\n')
    assert resolve(environ={}, directory=place).namespace == "shop"


def test_holdfast_toml_comes_before_a_pyproject_beside_it(place):
    (place / "pyproject.toml").write_text('[tool.holdfast]\nnamespace = "pyproject"\n')
    (place / "holdfast.toml").write_text('namespace = "own"\n')
    assert resolve(environ={}, directory=place).namespace == "own"


def test_a_relative_database_in_a_file_is_meant_from_that_file(place):
    (place.parent / "holdfast.toml").write_text('url = "sqlite:///data/orders.db"\n')
    assert resolve(environ={}, directory=place).url == f"sqlite:///{place.parent}/data/orders.db"


@pytest.mark.parametrize("name", ["100%20", "c#", "what?", "my shop"])
def test_a_folder_may_have_any_name(tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    (folder / "holdfast.toml").write_text('url = "sqlite:///orders.db"\n')
    assert parse_url(resolve(environ={}, directory=folder).url).path == str(folder / "orders.db")


@pytest.mark.parametrize("url", ["sqlite:////abs/orders.db", "sqlite:///:memory:", "postgresql://host/orders"])
def test_any_other_address_in_a_file_stays_as_it_is(place, url):
    (place / "holdfast.toml").write_text(f'url = "{url}"\n')
    assert resolve(environ={}, directory=place).url == url


def test_paths_among_the_workflows_in_a_file_are_meant_from_that_file_and_modules_are_left_alone(place):
    (place.parent / "holdfast.toml").write_text('workflows = ["shop.orders", "jobs/", "daily.py", "./flows"]\n')
    found = resolve(environ={}, directory=place).workflows
    root = place.parent
    assert found == ("shop.orders", str(root / "jobs"), str(root / "daily.py"), str(root / "flows"))


def test_workflows_of_the_environment_are_meant_from_the_working_directory(place):
    found = resolve(environ={"HOLDFAST_WORKFLOWS": "shop.orders, jobs/"}, directory=place)
    assert found.workflows == ("shop.orders", "jobs/")


def test_settings_file_returns_the_file_that_settings_come_from(place):
    (place.parent / "holdfast.toml").write_text("")
    assert settings_file(place) == place.parent / "holdfast.toml"


def test_values_of_the_environment_are_read_as_what_they_mean(place):
    environ = {
        "HOLDFAST_MAX_PAYLOAD": "1024",
        "HOLDFAST_MIGRATE": "off",
        "HOLDFAST_QUEUES": "default, parcels",
        "HOLDFAST_LEASE": "1m30s",
        "HOLDFAST_GRACE": "2.5",
        "HOLDFAST_MAX_RETENTION": "90d",
        "HOLDFAST_EVENT_RETENTION": "3600",
    }
    found = resolve(environ=environ, directory=place)
    assert (found.max_payload, found.migrate, found.queues) == (1024, False, ("default", "parcels"))
    assert (found.lease, found.grace) == (90_000_000, 2_500_000)
    assert (found.max_retention, found.event_retention) == (90 * 86_400 * 1_000_000, 3_600 * 1_000_000)


def test_environment_variables_that_are_no_settings_are_ignored(place):
    assert resolve(environ={"HOLDFAST_COLOUR": "red"}, directory=place) == Settings()


def test_an_unknown_key_in_a_file_is_refused_with_the_file_the_key_and_a_guess(place):
    (place / "holdfast.toml").write_text('namespce = "x"\n')
    with pytest.raises(DefinitionError, match=r"holdfast\.toml: namespce is not a setting .did you mean 'namespace'"):
        resolve(environ={}, directory=place)


def test_an_unknown_key_in_a_pyproject_is_named_with_its_table(place):
    (place / "pyproject.toml").write_text('[tool.holdfast]\ncolour = "red"\n')
    with pytest.raises(DefinitionError, match=r"pyproject\.toml: tool\.holdfast\.colour is not a setting; known: url,"):
        resolve(environ={}, directory=place)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("namespace", '""', "expected text"),
        ("schema", '"My Shop"', "expected lower-case letters"),
        ("schema", '"pg_shop"', "no pg_ in front"),
        ("schema", "3", "expected lower-case letters"),
        ("max_payload", "0", "expected a whole number from 1"),
        ("max_payload", "true", "expected a whole number from 1"),
        ("migrate", '"perhaps"', "expected true or false"),
        ("queues", "[]", "expected names"),
        ("processes", "0", "expected a whole number from 1"),
        ("workflows", "3", "expected names"),
        ("lease", '"soon"', "is not a duration"),
        ("lease", '"999ms"', "expected a second or more"),
        ("cors", '["app.example.com"]', "expected origins as browsers send them"),
        ("cors", '["https://app.example.com/"]', "expected origins as browsers send them"),
        ("url", '"orders.db"', "expected the address of a database"),
    ],
)
def test_a_bad_value_is_refused_with_its_file_and_key(place, key, value, expected):
    (place / "holdfast.toml").write_text(f"{key} = {value}\n")
    with pytest.raises(DefinitionError, match=rf"holdfast\.toml: {key}.*{expected}"):
        resolve(environ={}, directory=place)


def test_a_bad_value_in_the_environment_is_refused_by_the_name_of_the_variable(place):
    with pytest.raises(DefinitionError, match="the environment variable HOLDFAST_CONCURRENCY 'many'"):
        resolve(environ={"HOLDFAST_CONCURRENCY": "many"}, directory=place)


def test_a_bad_address_is_never_repeated_since_it_may_hold_a_password(place):
    with pytest.raises(DefinitionError) as refused:
        resolve(environ={"HOLDFAST_URL": "user:secret@host"}, directory=place)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [("holdfast.toml", 'queues = ["mail"]\r\n'), ("pyproject.toml", '[tool.holdfast]\nqueues = "mail"\n')],
)
def test_a_byte_order_mark_as_editors_on_windows_write_it_is_no_setting(place, name, text):
    (place / name).write_text(text, "utf-8-sig")
    assert resolve(environ={}, directory=place).queues == ("mail",)


def test_a_file_that_is_no_toml_is_named(place):
    (place / "holdfast.toml").write_text("url = \n")
    with pytest.raises(DefinitionError, match=r"holdfast\.toml can't be read"):
        resolve(environ={}, directory=place)


def test_a_settings_table_of_another_type_is_refused(place):
    (place / "pyproject.toml").write_text("[tool]\nholdfast = 3\n")
    with pytest.raises(DefinitionError, match=r"tool\.holdfast: expected a table"):
        resolve(environ={}, directory=place)


def test_a_name_that_no_store_can_hold_is_refused(place):
    # As a byte that is no UTF-8 comes out of the environment.
    with pytest.raises(DefinitionError, match=r"HOLDFAST_NAMESPACE.*expected text"):
        resolve(environ={"HOLDFAST_NAMESPACE": "shop\udcff"}, directory=place)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"lease": 0.1}, "lease=0.1: expected a second"),
        ({"grace": "soon"}, "grace='soon': it is not a duration; write"),
    ],
)
def test_a_wrong_argument_is_shown_as_it_was_written(place, given, told):
    with pytest.raises(DefinitionError, match="^" + re.escape(told)):
        resolve(environ={}, directory=place, **given)


def test_an_unknown_argument_is_refused(place):
    with pytest.raises(DefinitionError, match="colour= is not a setting"):
        resolve(environ={}, directory=place, colour="red")


def test_a_settings_file_that_is_a_folder_or_a_broken_link_is_refused_and_not_skipped(place):
    file = place / "holdfast.toml"
    file.mkdir()
    with pytest.raises(DefinitionError, match=r"holdfast\.toml is a folder; expected a file with settings"):
        resolve(environ={}, directory=place)
    file.rmdir()
    file.symlink_to("nowhere.toml")
    with pytest.raises(DefinitionError, match=r"holdfast\.toml can't be read: .*No such file"):
        resolve(environ={}, directory=place)

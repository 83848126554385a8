"""Database urls: what they name, what is refused, what is shown."""

import pytest

from holdfast.errors import DefinitionError
from holdfast.store import open_store, parse_url, redact_url


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///relative.db", "relative.db"),
        ("sqlite:///some/where.db", "some/where.db"),
        ("sqlite:////tmp/absolute.db", "/tmp/absolute.db"),
        ("sqlite:///:memory:", ":memory:"),
        ("SQLITE:///upper.db", "upper.db"),
        ("sqlite:///with%20space.db", "with space.db"),
        ("sqlite:///ünicode.db", "ünicode.db"),
        ("sqlite:///what%3F%23%25.db", "what?#%.db"),
    ],
)
def test_a_sqlite_url_names_a_file(url, path):
    assert parse_url(url) == ("sqlite", path)


@pytest.mark.parametrize(
    "url",
    ["", "holdfast.db", "/tmp/holdfast.db", "sqlite:", "sqlite://", "sqlite:///", "sqlite://host.db", "sqlite:////dir/",
     "sqlite:///a.db?mode=ro", "sqlite:///a%00b.db", "sqlite:///a\x00b.db", "mysql://localhost/x", "sqlite3:///x.db", "postgresql://me@[::1/db",
     "postgresql://me@host:port/db", "postgresql://one:1,two:65536/db"],
)  # fmt: skip
def test_a_url_that_names_no_store_is_refused_with_what_was_expected(url):
    with pytest.raises(DefinitionError, match=r"sqlite:///relative\.db"):
        parse_url(url)


@pytest.mark.parametrize("name", ["what?.db", "no#1.db"])
def test_a_file_whose_name_reads_like_options_is_refused_with_how_to_write_it(name):
    with pytest.raises(DefinitionError, match=r"in a file's name write %3F for \? and %23 for #"):
        parse_url(f"sqlite:///{name}")


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "POSTGRESQL"])
def test_a_postgres_url_names_the_store_for_it_and_shows_no_password(scheme):
    store = open_store(f"{scheme}://me:secret@host/db", namespace="mine", schema="theirs")
    assert type(store).__name__ == "PostgresStore"
    assert (store.namespace, store.schema) == ("mine", "theirs")
    assert "secret" not in f"{store.url} {store!r}"


@pytest.mark.parametrize(
    "place", ["", "host", "host:5432", "127.0.0.1:1,other:2", "[::1]", "[fe80::1%25eth0]:5432", "me:a%2Fb@host"]
)
def test_a_postgres_url_names_any_number_of_hosts_with_or_without_ports(place):
    assert parse_url(f"postgresql://{place}/db") == ("postgresql", f"{place}/db")


@pytest.mark.parametrize("password", ["se@cret", "se[cret", "se]cret", "[secret]", "se/cret", "se#cret", "se?cret"])
def test_a_password_that_was_not_quoted_is_refused_with_how_to_write_it(password):
    with pytest.raises(DefinitionError, match=r"in a password write %40 for @, .* %5B for \[") as caught:
        parse_url(f"postgresql://me:{password}@host/db")
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize("host", ["[host]", "[1.2.3.4]", "[::1]x"])
def test_a_host_in_brackets_that_is_no_address_is_refused(host):
    with pytest.raises(DefinitionError, match="a host or a port that can't be one"):
        parse_url(f"postgresql://me@{host}/db")


@pytest.mark.parametrize("schema", ["", "Upper", "pg_own", 'a"b', "a-b", "x" * 64])
def test_a_schema_that_needs_quotes_is_refused(schema):
    with pytest.raises(DefinitionError, match="schema"):
        open_store("postgresql://host/db", schema=schema)


def test_an_unknown_pooler_is_refused():
    with pytest.raises(DefinitionError, match="pooler='statement'; expected transaction or session"):
        open_store("postgresql://host/db?pooler=statement")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:///a.db", "sqlite:///a.db"),
        ("postgresql://me:secret@host:5432/db", "postgresql://me:***@host:5432/db"),
        ("postgresql://me:se:c@ret@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me:se/c?r#et@host/db", "postgresql://me:***@host/db"),
        ("postgresql://:secret@host/db", "postgresql://:***@host/db"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        ("postgresql://host/db?user=me&password=secret&x=1", "postgresql://host/db?user=me&password=***&x=1"),
    ],
)
def test_a_url_is_shown_without_its_password(url, shown):
    assert redact_url(url) == shown


def test_a_bad_url_is_named_without_its_password():
    with pytest.raises(DefinitionError) as raised:
        parse_url("mysql://me:secret@host/db")
    assert "mysql://me:***@host/db" in str(raised.value)


def test_making_a_store_touches_nothing(tmp_path):
    store = open_store(f"sqlite:///{tmp_path}/holdfast.db", namespace="mine")
    assert (store.url, store.namespace) == (f"sqlite:///{tmp_path}/holdfast.db", "mine")
    assert list(tmp_path.iterdir()) == []


def test_options_that_mean_nothing_are_refused():
    with pytest.raises(DefinitionError, match="schema"):
        open_store("sqlite:///a.db", schema="mine")
    with pytest.raises(DefinitionError, match="namespace"):
        open_store("sqlite:///a.db", namespace="")

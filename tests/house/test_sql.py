"""SQL lives in .sql files, in named blocks that say what they do, and is never put together by an f-string."""

import ast
import re

from tests.house.sources import SOURCE, Module, parse

STATEMENT = re.compile(
    r"\b(?:select\b.*\bfrom|insert\s+(?:or\s+\w+\s+)?into|update\b.*\bset|delete\s+from"
    r"|(?:create|drop|alter)\s+(?:unique\s+)?(?:table|index|trigger|view)|pragma\s+\w+)\b",
    re.IGNORECASE | re.DOTALL,
)
BLOCK = re.compile(r"^-- name: *(?P<name>.*)\n(?P<next>.*)", re.MULTILINE)


def formatted_sql(module: Module) -> list[str]:
    """SQL put together by an f-string, by `%` or by `.format`."""
    found = []
    for node in ast.walk(module.tree):
        match node:
            case ast.JoinedStr(values=values):
                text = "".join(part.value if isinstance(part, ast.Constant) else "x" for part in values)
            case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Mod()):
                pass
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format")):
                pass
            case _:
                continue
        if STATEMENT.search(text):
            found.append(f"{module.name}:{node.lineno}: {text[:60]!r}")
    return found


def bad_blocks(text: str) -> list[str]:
    """Blocks without a proper name, with a name used twice, or without a line on what they do."""
    found = []
    seen = set()
    for block in BLOCK.finditer(text):
        name = block["name"].strip()
        says = block["next"].removeprefix("--").strip()
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name in seen:
            found.append(f"{name!r}: expected a name of its own, in lower case")
        if not block["next"].startswith("--") or not says or says.startswith("name:"):
            found.append(f"{name!r}: expected a comment on what it does in the next line")
        seen.add(name)
    return found


def test_sql_is_never_formatted(modules):
    assert [found for module in modules for found in formatted_sql(module)] == []


def test_formatted_sql_is_found():
    assert formatted_sql(parse("f'select a from {table}'"))
    assert formatted_sql(parse("f'''\n    UPDATE runs\n    SET {column} = 1'''"))
    assert formatted_sql(parse("'delete from %s' % table"))
    assert formatted_sql(parse("'insert into {} values (1)'.format(table)"))
    assert not formatted_sql(parse("f'select a file called {name}'"))
    assert not formatted_sql(parse("'select a from runs where ' + ' and '.join(tests)"))


def test_every_block_of_sql_has_a_name_and_says_what_it_does():
    found = {path.relative_to(SOURCE): bad_blocks(path.read_text("utf-8")) for path in SOURCE.rglob("*.sql")}
    assert {str(path): bad for path, bad in found.items() if bad} == {}


def test_a_bad_block_is_found():
    assert bad_blocks("-- name: get_run\n-- One run.\nselect 1;\n") == []
    assert len(bad_blocks("-- name: get_run\nselect 1;\n")) == 1
    assert len(bad_blocks("-- name: get_run\n-- One.\nselect 1;\n-- name: get_run\n-- Two.\nselect 2;\n")) == 1
    assert len(bad_blocks("-- name: GetRun\n-- One run.\nselect 1;\n")) == 1


def test_no_statement_selects_everything():
    star = re.compile(r"\bselect\s+(?:\w+\.)?\*", re.IGNORECASE)
    assert [path.name for path in SOURCE.rglob("*.sql") if star.search(path.read_text("utf-8"))] == []

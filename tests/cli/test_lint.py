"""holdfast lint finds every planted hazard of the corpus, and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from holdfast.cli import main
from holdfast.cli.lint import CODES, Project, check

ROOT = Path(__file__).parents[2]
CORPUS = Path(__file__).parent / "corpus"
MARK = re.compile(r"# hazard: (\w+)")
FILES = sorted(path.name for path in CORPUS.glob("*.py"))


def planted(path: Path) -> list[tuple[int, str]]:
    lines = path.read_text().splitlines()
    return [(number, found[1]) for number, line in enumerate(lines, 1) if (found := MARK.search(line))]


def found_in(path: Path) -> list[tuple[int, str]]:
    return [(one.line, one.code) for one in check(Project([ROOT]), path)]


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a module whose body is given, and check it."""
    monkeypatch.chdir(tmp_path)

    def module(text: str, *options: str) -> int:
        (tmp_path / "jobs.py").write_text(text)
        return main(["lint", "jobs.py", *options])

    return module


@pytest.mark.parametrize("name", FILES)
def test_lint_finds_exactly_the_planted_mistakes(name):
    assert found_in(CORPUS / name) == planted(CORPUS / name)


def test_the_corpus_holds_enough_mistakes_of_every_code():
    marks = [code for name in FILES for _, code in planted(CORPUS / name)]
    assert len(marks) >= 40
    assert set(marks) == CODES.keys() - {"allow", "syntax"}


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_no_example_is_flagged(path):
    assert found_in(path) == []


def test_a_finding_names_the_place_the_code_and_the_fix(module, capsys):
    text = "import time\nfrom holdfast import workflow\n\n@workflow\nasync def order():\n    return time.time()\n"
    assert module(text) == 1
    seen = capsys.readouterr()
    expected = "jobs.py:6:12: clock time.time() reads a clock; use holdfast.now() (workflow order)\n"
    assert seen.out == expected
    assert seen.err == "1 finding in 1 file\n"


def test_findings_are_printed_as_json(module, capsys):
    text = "import time\nfrom holdfast import workflow\n\n@workflow\nasync def order():\n    return time.time()\n"
    assert module(text, "--json") == 1
    told = json.loads(capsys.readouterr().out)
    (finding,) = told["findings"]
    assert (finding["path"], finding["line"], finding["column"], finding["code"]) == ("jobs.py", 6, 12, "clock")


def test_clean_code_ends_with_zero(module, capsys):
    assert module("from holdfast import workflow\n\n@workflow\nasync def order():\n    return 1\n") == 0
    assert capsys.readouterr().out == ""


def test_a_comment_that_allows_another_code_hides_no_finding(module, capsys):
    body = "    return time.time()  # holdfast: allow[random]\n"
    assert module(f"import time\nfrom holdfast import workflow\n\n@workflow\nasync def order():\n{body}") == 1
    assert "clock" in capsys.readouterr().out


@pytest.mark.parametrize("comment", ["# holdfast: allow[clok]", "# holdfast: allow", "# holdfast: noqa"], ids=str)
def test_a_comment_that_allows_nothing_is_a_finding(module, capsys, comment):
    assert module(f"x = 1  {comment}\n") == 1
    assert "jobs.py:1:8: allow " in capsys.readouterr().out


@pytest.mark.parametrize("text", ["def order(:\n", f"x = {' + '.join('a' * 20_000)}\n"], ids=["wrong", "too deep"])
def test_a_file_that_cannot_be_parsed_is_a_finding(module, capsys, text):
    assert module(text) == 1
    assert "syntax" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("head", "encoding"), [("", "utf-8-sig"), ("# coding: latin-1\n", "latin-1"), ("", "utf-8")], ids=str
)
def test_a_file_is_read_in_the_encoding_that_python_reads_it_in(module, tmp_path, head, encoding):
    body = 'from holdfast import workflow\n\n@workflow\nasync def order():\n    return "café"\n'
    (tmp_path / "jobs.py").write_text(f"{head}{body}", encoding)
    assert main(["lint", "jobs.py"]) == 0


def test_the_setting_names_the_targets_that_are_checked(tmp_path, monkeypatch, capsys):
    (tmp_path / "holdfast.toml").write_text('workflows = ["shop.orders"]\n')
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "orders.py").write_text(
        "from holdfast import workflow\n\n@workflow\nasync def o():\n    open('x')\n"
    )
    (tmp_path / "shop" / "other.py").write_text("def broken(:\n")
    monkeypatch.chdir(tmp_path)
    assert main(["lint"]) == 1
    assert capsys.readouterr().out.startswith("shop/orders.py:5:5: io open()")


def test_ignored_files_are_not_checked(tmp_path, monkeypatch):
    (tmp_path / "workflows").mkdir()
    (tmp_path / "workflows" / "test_orders.py").write_text("def broken(:\n")
    monkeypatch.chdir(tmp_path)
    assert main(["lint"]) == 0


def test_a_target_that_is_not_there_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["lint", "nowhere.py"]) == 1
    assert "nowhere.py" in capsys.readouterr().err


@pytest.mark.timeout(20)
def test_links_to_a_folder_above_are_not_followed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "daily.py").write_text("")
    for link in ("one", "other"):
        (tmp_path / "jobs" / link).symlink_to(tmp_path / "jobs")
    assert main(["lint", "jobs"]) == 0
    assert "1 file" in "".join(capsys.readouterr())


def test_a_module_may_import_from_the_folder_above_all_others(module, tmp_path):
    # As `from .. import rates` in /app/jobs.py does.
    dots = "." * len((tmp_path / "jobs.py").parents)
    body = "@workflow\nasync def order():\n    return rates.of('card')\n"
    assert module(f"from holdfast import workflow\nfrom {dots} import rates\n\n{body}") == 0


def test_lint_imports_none_of_the_code(module, tmp_path):
    module("open('imported', 'w')\n")
    assert not (tmp_path / "imported").exists()


def test_lint_lists_its_codes(capsys):
    assert main(["lint", "--codes"]) == 0
    told = capsys.readouterr().out
    assert all(code in told for code in CODES)

"""What mkdocs is told beside mkdocs.yml: pages for files outside docs/, and the command's reference.

Pages link to files as they lie in the repository (`../examples/hello.py`), so that they can be read there. On the site
such a file is a page of its own under `repository/`, and the link leads there. A link to nothing is left as it is, for
mkdocs to complain about.
"""

from __future__ import annotations

import inspect
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

from holdfast.cli.app import app

ROOT = Path(__file__).resolve().parents[1]
ELSEWHERE = "repository"
LINK = re.compile(r"(\]\()(?!\w+:|#)([^)#\s]+)")
FETCHED = re.compile(
    r"""<(?:script|img|iframe|link(?![^>]*rel="canonical"))\b[^>]*?(?:src|href)="((?:https?:)?//[^"]+)"""
)
LANGUAGES = {
    ".py": "python",
    ".toml": "toml",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".service": "ini",
    "Dockerfile": "docker",
}


def on_files(files: Any, config: Any) -> Any:
    """Give every file that a page links to, directly or through another such file, a page."""
    waiting = [f"docs/{page.src_uri}" for page in files.documentation_pages()]
    waiting += ["CHANGELOG.md", "ARCHITECTURE.md"]
    seen = set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        text = _page(path)
        if not path.startswith("docs/"):
            files.append(File.generated(config, _address(path), content=text))
        waiting += [target for _, target in _links(text, path) if not target.startswith("docs/")]
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Let links lead to the pages of the files that they name, and put in what is made of the code."""
    uri = page.file.src_uri
    path = _source(uri)

    def lead(link: re.Match[str]) -> str:
        target = _target(link[2], path)
        if target is None or (path.startswith("docs/") and target.startswith("docs/")):
            return link[0]
        return link[1] + posixpath.relpath(_address(target), posixpath.dirname(uri) or ".")

    if path.endswith(".md") or (ROOT / path).is_dir():
        markdown = LINK.sub(lead, markdown)
    if "<!-- commands -->" in markdown:
        markdown = markdown.replace("<!-- commands -->", "\n\n".join(_commands()))
    return markdown


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    """Nothing is fetched from elsewhere, so that the site works where the internet does not."""
    if fetched := FETCHED.search(output):
        raise PluginError(f"{page.file.src_uri} would fetch {fetched[1]}; put it into docs/")
    return output


def _page(path: str) -> str:
    """The text of the page for a file or folder of the repository."""
    place = ROOT / path
    if place.is_dir():
        held = sorted(one for one in place.iterdir() if not one.name.startswith(("_", ".")))
        return f"# {path}\n\n" + "\n".join(f"- [{one.name}]({one.name})" for one in held)
    text = place.read_text("utf-8")
    if place.suffix == ".md":
        return text
    language = LANGUAGES.get(place.suffix) or LANGUAGES.get(place.name, "text")
    return f"# {path}\n\n~~~~{language}\n{text}\n~~~~\n"


def _links(text: str, path: str) -> Iterator[tuple[str, str]]:
    if not (path.endswith(".md") or (ROOT / path).is_dir()):
        return
    for link in LINK.finditer(text):
        if target := _target(link[2], path):
            yield link[2], target


def _target(link: str, path: str) -> str | None:
    """The file of the repository that a link on the page at `path` names, if there is one."""
    folder = path if (ROOT / path).is_dir() else posixpath.dirname(path)
    target = posixpath.normpath(posixpath.join(folder, link))
    return target if not target.startswith("..") and (ROOT / target).exists() else None


def _address(path: str) -> str:
    """Where the page for a file of the repository is, from the site's root."""
    if path == "docs":
        return "README.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if (ROOT / path).is_dir():
        return f"{ELSEWHERE}/{path}/index.md"
    return f"{ELSEWHERE}/{path}" if path.endswith(".md") else f"{ELSEWHERE}/{path}.md"


def _source(uri: str) -> str:
    """The file or folder that a page was made of: the other way round."""
    if not uri.startswith(f"{ELSEWHERE}/"):
        return f"docs/{uri}"
    path = uri.removeprefix(f"{ELSEWHERE}/")
    if path.endswith("/index.md"):
        return path.removesuffix("/index.md")
    return path if (ROOT / path).exists() else path.removesuffix(".md")


def _commands() -> Iterator[str]:
    """A section for each command, from the very objects that parse the command line."""
    yield from _sections("holdfast", typer.main.get_command(app))


def _sections(name: str, group: Any) -> Iterator[str]:
    for word, command in sorted(group.commands.items()):
        if command.hidden:
            continue
        if hasattr(command, "commands"):
            yield from _sections(f"{name} {word}", command)
        else:
            yield _section(f"{name} {word}", command)


def _section(name: str, command: Any) -> str:
    context = command.context_class(command, info_name=name)
    lines = [f"## `{name}`", "", inspect.cleandoc(command.help or ""), ""]
    records = [parameter.get_help_record(context) for parameter in command.params]
    if any(records):
        lines += ["| | |", "| --- | --- |"]
        lines += [
            f"| `{_cell(record[0])}` | {_cell(record[1]).replace('[', '&#91;')} |"
            for record in records
            if record is not None
        ]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def on_page_content(html: str, **_: Any) -> str:
    """The blocking classes' docstrings only name their async siblings: let the names lead there."""
    return re.sub(
        r"As (?:<code>)?(Async(?:Client|Run))\.(\w+)(?:</code>)?\.",
        r'As <a href="#holdfast.\1.\2"><code>\1.\2</code></a>.',
        html,
    )

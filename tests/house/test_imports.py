"""What import-linter can't see: hidden imports, front doors, and what `import holdfast` drags in."""

import ast
import importlib
import json
import os
import subprocess
import sys

from tests.house.sources import SOURCE, Module, parse

GUESTS = {
    *("aiohttp", "aiosqlite", "asyncpg", "django", "fastapi", "flask", "psycopg", "sqlalchemy", "starlette", "uvicorn"),
    *("attr", "attrs", "pydantic", "hypothesis", "pytest", "uvloop"),
    *("click", "rich", "typer", "cryptography", "zstandard"),
    *("opentelemetry", "prometheus_client"),
}

REPORT = """
import json, logging, sys, threading
import holdfast
print(json.dumps({
    "modules": sorted({name.partition(".")[0] for name in sys.modules}),
    "rooms": sorted(name for name in sys.modules if name.startswith("holdfast.")),
    "handlers": len(logging.root.handlers),
    "level": logging.root.level,
    "threads": threading.active_count(),
}))
"""


def hidden_imports(module: Module) -> list[str]:
    """Imports inside a function, and imports of the package for the type checker only."""
    found = []
    for node in ast.walk(module.tree):
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        is_for_the_checker = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if is_function or is_for_the_checker:
            for line, target, _ in module.imports(node):
                if is_function or target.partition(".")[0] == "holdfast":
                    found.append(f"{module.name}:{line} imports {target}")
    return found


def side_doors(module: Module, doors: dict[str, set[str]], names: set[str]) -> list[str]:
    """Imports from inside another room. `doors` holds what each room offers, `names` all modules there are."""
    found = []
    for line, target, name in module.imports():
        parts = target.split(".")
        if parts[0] != "holdfast" or len(parts) < 2 or parts[1] == module.room:
            continue
        room = parts[1]
        is_deep = len(parts) > 2
        is_module = name is not None and f"{target}.{name}" in names and name not in doors.get(room, set())
        is_private = name is not None and name.startswith("_")
        if is_deep or is_module or is_private:
            found.append(f"{module.name}:{line} takes {name or 'the module'} from {target}, past the door of {room}")
    return found


def offered(module: Module) -> set[str] | None:
    """The names in a module's `__all__`, or None if it has none."""
    for node in module.tree.body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]:
            return set(ast.literal_eval(node.value))
    return None


def loaded() -> dict:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", REPORT],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    return json.loads(ran.stdout)


def imports_by_name(module: Module) -> list[str]:
    """Places that import whatever a string says."""
    calls = (node for node in ast.walk(module.tree) if isinstance(node, ast.Call))
    names = {"import_module", "__import__"}
    return [f"{module.name}:{node.lineno}" for node in calls if ast.unparse(node.func).split(".")[-1] in names]


def test_no_import_is_hidden(modules):
    assert [found for module in modules for found in hidden_imports(module)] == []


def test_a_hidden_import_is_found():
    in_function = parse("def f():\n    from .x import y\n", "holdfast.store.runs")
    for_checker = parse("if typing.TYPE_CHECKING:\n    import holdfast.engine\n")
    guest = parse("def f():\n    import zstandard\n")
    harmless = parse("if typing.TYPE_CHECKING:\n    import zstandard\n")
    assert hidden_imports(in_function) == ["holdfast.store.runs:2 imports holdfast.store.x"]
    assert hidden_imports(for_checker) == ["holdfast.example:2 imports holdfast.engine"]
    assert hidden_imports(guest) == ["holdfast.example:2 imports zstandard"]
    assert hidden_imports(harmless) == []


def test_only_optional_packages_and_the_user_s_own_modules_are_imported_by_name(modules):
    loaders = {"holdfast.extras", "holdfast.discovery.loading"}
    found = [place for module in modules if module.name not in loaders for place in imports_by_name(module)]
    assert found == []


def test_an_import_by_name_is_found():
    assert imports_by_name(parse("import importlib\nimportlib.import_module('zstandard')\n")) == ["holdfast.example:2"]
    assert imports_by_name(parse("__import__('zstandard')\n")) == ["holdfast.example:1"]


def test_rooms_are_entered_by_their_front_doors(modules, examples):
    doors = {module.room: offered(module) or set() for module in modules if module.name.count(".") == 1}
    names = {module.name for module in modules}
    assert [found for module in [*modules, *examples] for found in side_doors(module, doors, names)] == []


def test_a_side_door_is_found():
    names = {"holdfast.store", "holdfast.store.sqlite", "holdfast.store.step"}
    doors = {"store": {"open_store", "step"}}

    def found(line: str, name: str = "holdfast.worker.runs") -> int:
        return len(side_doors(parse(line, name), doors, names))

    assert found("from holdfast.store.sqlite import rows") == 1
    assert found("import holdfast.store.sqlite") == 1
    assert found("from holdfast.store import sqlite") == 1
    assert found("from holdfast.store import _private") == 1
    assert found("from ..store.sqlite import rows") == 1
    assert found("from holdfast.store import open_store, step") == 0
    assert found("from holdfast.store.sqlite import rows", "holdfast.store.opening") == 0


def test_every_room_lists_what_it_offers(modules):
    rooms = [module for module in modules if module.is_package and module.name.count(".") <= 1]
    assert [module.name for module in rooms if offered(module) is None] == []


def test_every_name_that_is_offered_exists(modules):
    missing = []
    for module in modules:
        names = offered(module) or set()
        real = importlib.import_module(module.name) if names else None
        missing += [f"{module.name}.{name}" for name in names if not hasattr(real, name)]
    assert missing == []


def test_importing_the_package_imports_no_optional_package():
    assert GUESTS.intersection(loaded()["modules"]) == set()


def test_importing_the_package_leaves_the_command_and_the_test_kit_alone():
    rooms = loaded()["rooms"]
    assert [name for name in rooms if name.split(".")[1] in ("cli", "testing")] == []


def test_importing_the_package_starts_nothing_and_configures_no_logging():
    seen = loaded()
    assert (seen["threads"], seen["handlers"], seen["level"]) == (1, 0, 30)

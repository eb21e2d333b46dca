"""Imports point one way: a folder imports from itself and from those above it in docs/architecture.md."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = {"algebra", "rewrite", "runtime"}
ROWS = re.findall(r"^\| (`.*?) \|", (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), re.MULTILINE)
FLOORS = {name: floor for floor, row in enumerate(ROWS) for name in re.findall(r"`([\w/.]+)`", row)}
"""The folders in their order, and the files that have a floor apart from their folder's."""

UPWARDS = {
    "mrql/jobs/stream.py": {"mrql/cli"},
    "mrql/shell/interpreter.py": {"mrql/cli"},
    "runtime/postgresql/copy_format.py": {"runtime/spark/io"},
    "runtime/sinks/files.py": {"runtime/spark/expressions", "runtime/spark/io"},
    "runtime/spark/expressions/python_udf.py": {"runtime/spark/session"},
    "runtime/streaming/report.py": {"runtime/spark/jvm"},
}
"""What still points upwards, and to where. Nothing is to be added."""

GROUND = {"mrql.version"}
"""What everything may import."""

TRANSLATE = "mrql/translate"
SEEN_BY_TRANSLATE = {"algebra", "mrql/syntax", "mrql/parser", TRANSLATE}
"""The language sees the algebra only."""


def source_files() -> list[Path]:
    """All modules of the package, each once: the rooms at the top level, not the links to them."""
    rooms = [file for room in sorted(ROOMS) for file in sorted((ROOT / room).rglob("*.py"))]
    inside = [file for file in sorted((ROOT / "mrql").rglob("*.py")) if not ROOMS & {*relative(file).parts[1:2]}]
    return rooms + inside


def relative(file: Path) -> Path:
    return file.relative_to(ROOT)


def folder_of(file: Path) -> str:
    return str(relative(file).parent)


def place_of(file: Path) -> str:
    """What of the list a file is: itself, or its folder."""
    return str(relative(file)) if str(relative(file)) in FLOORS else folder_of(file)


@cache
def places() -> dict[str, str]:
    """The place of each module, and that of each package, by its absolute name."""
    found = {}
    for file in source_files():
        parts = relative(file).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        found[".".join(parts if parts[0] == "mrql" else ("mrql", *parts))] = place_of(file)
    return found


def imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The modules that are imported anywhere in a tree, also inside functions, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name a module in full"
            module = node.module or ""
            for alias in node.names:  # `from mrql import api` names a module too
                inner = f"{module}.{alias.name}"
                yield (inner if inner in places() else module), node.lineno


def read(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), str(file))


def ours(file: Path) -> Iterator[tuple[str, int]]:
    """The places of this package that a file imports from."""
    found = ((module, line) for module, line in imports(read(file)) if module not in GROUND)
    yield from ((places()[module], line) for module, line in found if module in places())


@pytest.mark.parametrize("file", source_files(), ids=lambda file: str(relative(file)))
def test_imports_point_one_way(file: Path) -> None:
    """A file imports from its own floor and from those above it."""
    upwards = {place for place, _ in ours(file) if FLOORS[place] > FLOORS[place_of(file)]}
    assert upwards == UPWARDS.get(str(relative(file)), set())


@pytest.mark.parametrize("file", source_files(), ids=lambda file: str(relative(file)))
def test_the_rooms_are_imported_as_parts_of_the_package(file: Path) -> None:
    """`import algebra` would find the directory here, and nothing where the package is installed."""
    assert [module for module, _ in imports(read(file)) if module.split(".")[0] in ROOMS] == []


def test_the_language_sees_the_algebra_only() -> None:
    seen = {folder for file in source_files() if folder_of(file) == TRANSLATE for folder, _ in ours(file)}
    assert {folder for folder in seen if folder.split("/")[0] != "algebra"} <= SEEN_BY_TRANSLATE


@pytest.mark.parametrize("file", source_files(), ids=lambda file: str(relative(file)))
def test_pyspark_is_imported_only_by_the_runtime(file: Path) -> None:
    """The rest starts without it; jobs, commands and the API may name its types, or load it when it is needed."""
    if relative(file).parts[0] == "runtime":
        return
    tree = read(file)
    front = FLOORS[place_of(file)] > FLOORS[TRANSLATE]
    allowed = set(imported_when_needed(tree)) if front else set()
    found = [line for module, line in imports(tree) if module.split(".")[0] in ("pyspark", "py4j")]
    assert [line for line in found if line not in allowed] == []


def test_the_package_starts_without_pyspark() -> None:
    """`mrql check` and `mrql explain` answer before pyspark would be loaded."""
    code = "import sys, mrql, mrql.cli.main; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def imported_when_needed(tree: ast.Module) -> Iterator[int]:
    """The lines of imports inside functions and under `if TYPE_CHECKING`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or is_for_type_checkers(node):
            yield from (n.lineno for n in ast.walk(node) if isinstance(n, ast.Import | ast.ImportFrom))


def is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def test_every_folder_has_its_floor() -> None:
    """Those with modules are in the list, each once, and nothing else is but files that are there."""
    named = [name for row in ROWS for name in re.findall(r"`([\w/.]+)`", row)]
    files = {name for name in named if name.endswith(".py")}
    assert files <= {str(relative(file)) for file in source_files()}
    assert sorted(set(named) - files) == sorted({folder_of(file) for file in source_files()})
    assert len(named) == len(set(named))


def test_what_points_upwards_is_there() -> None:
    """What is no longer wrong is taken from the list."""
    assert [name for name in UPWARDS if not (ROOT / name).exists()] == []


def test_the_rooms_are_linked_into_the_package() -> None:
    """Every tool sees them there without being told."""
    assert {room: (ROOT / "mrql" / room).resolve() for room in ROOMS} == {room: ROOT / room for room in ROOMS}

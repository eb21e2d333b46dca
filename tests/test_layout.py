"""Imports point one way: algebra ← rewrite ← runtime ← the commands and the API; the language sees the algebra only."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = {"algebra", "rewrite", "runtime"}
SEES: dict[str, set[str]] = {
    "algebra": set(),
    "rewrite": {"algebra"},
    "runtime": {"algebra", "rewrite"},
    "language": {"algebra"},
    "front": {"algebra", "rewrite", "runtime", "language"},
}
"""What each part may import besides itself."""

FRONT = {
    "cli",
    "checkpoints",
    "display",
    "endings",
    "loading",
    "metrics",
    "operation",
    "options",
    "output",
    "running",
    "sinks",
    "streaming",
    "testing",
    "writing",
    "adapters",
    "api",
    "explain",
    "shell",
    "verify",
}
FRONT |= {"verify", "__init__", "__main__"}
"""The files and folders of mrql/ that tie the parts together: the commands with their output, and the API."""


def source_files() -> list[Path]:
    """All modules of the package, each once: the rooms at the top level, not the links to them."""
    rooms = [file for room in sorted(ROOMS) for file in sorted((ROOT / room).rglob("*.py"))]
    inside = [file for file in sorted((ROOT / "mrql").rglob("*.py")) if not ROOMS & {*relative(file).parts[1:]}]
    return rooms + inside


def relative(file: Path) -> Path:
    return file.relative_to(ROOT)


def part_of(file: Path) -> str:
    """The part that a file belongs to."""
    first, *rest = relative(file).parts
    if first in ROOMS:
        return first
    return "front" if rest[0].removesuffix(".py") in FRONT else "language"


def part_of_module(module: str) -> str:
    """The part that `mrql.…` belongs to."""
    names = module.split(".")[1:]
    if names and names[0] in ROOMS:
        return names[0]
    return "front" if not names or names[0] in FRONT else "language"


def imports(tree: ast.AST, file: Path) -> Iterator[tuple[str, int]]:
    """The modules that are imported anywhere in a tree, also inside functions, by absolute name and line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = absolute(node, file)
            # `from mrql import parser` names a module too.
            names = [f"{module}.{alias.name}" for alias in node.names] if module == "mrql" else [module]
            yield from ((name, node.lineno) for name in names)


def absolute(node: ast.ImportFrom, file: Path) -> str:
    """The module of a `from … import`, with the dots of a relative one resolved."""
    if node.level == 0:
        return node.module or ""
    parts = relative(file).parts
    package = ["mrql", *parts[:-1]] if parts[0] in ROOMS else list(parts[:-1])
    return ".".join([*package[: len(package) - node.level + 1], *filter(None, [node.module])])


def read(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), str(file))


@pytest.mark.parametrize("file", source_files(), ids=lambda file: str(relative(file)))
def test_imports_point_one_way(file: Path) -> None:
    """A file imports its own part and those below it."""
    own = part_of(file)
    wrong = [
        f"line {line}: {module}"
        for module, line in imports(read(file), file)
        if module.split(".")[0] == "mrql" and part_of_module(module) not in SEES[own] | {own}
    ]
    assert wrong == [], f"{own} may import {', '.join(sorted(SEES[own])) or 'nothing of ours'}"


@pytest.mark.parametrize("file", source_files(), ids=lambda file: str(relative(file)))
def test_the_rooms_are_imported_as_parts_of_the_package(file: Path) -> None:
    """`import algebra` would find the directory here, and nothing where the package is installed."""
    assert [module for module, _ in imports(read(file), file) if module.split(".")[0] in ROOMS] == []


@pytest.mark.parametrize("file", source_files(), ids=lambda file: str(relative(file)))
def test_pyspark_is_imported_only_by_the_runtime(file: Path) -> None:
    """The rest starts without it; the commands and the API may name its types, or load it when it is needed."""
    if part_of(file) == "runtime":
        return
    tree = read(file)
    allowed = set(imported_when_needed(tree)) if part_of(file) == "front" else set()
    found = [line for module, line in imports(tree, file) if module.split(".")[0] in ("pyspark", "py4j")]
    assert [line for line in found if line not in allowed] == []


def test_the_package_starts_without_pyspark() -> None:
    """`mrql check` and `mrql explain` answer before pyspark would be loaded."""
    code = "import sys, mrql, mrql.cli; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def imported_when_needed(tree: ast.Module) -> Iterator[int]:
    """The lines of imports inside functions and under `if TYPE_CHECKING`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or is_for_type_checkers(node):
            yield from (n.lineno for n in ast.walk(node) if isinstance(n, ast.Import | ast.ImportFrom))


def is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def test_every_part_is_looked_at() -> None:
    """The tests above would be content with no files at all."""
    assert {part_of(file) for file in source_files()} == set(SEES)


def test_the_rooms_are_linked_into_the_package() -> None:
    """Every tool sees them there without being told."""
    assert {room: (ROOT / "mrql" / room).resolve() for room in ROOMS} == {room: ROOT / room for room in ROOMS}

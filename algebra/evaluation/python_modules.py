"""A digest of Python code: of the file of a module, and of the modules that it imports, directly or indirectly.

Imports are found in the text of a file, also inside functions; nothing is run. Imports by a computed name are not seen.
Modules that come with Python are skipped; an installed package is represented by its version.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

DIGEST_DIGITS = 16
"""The number of hexadecimal digits of a digest."""


def written(names: Sequence[str], directory: str) -> str:
    """A digest of the files of some modules and of all that these import, searched for in a directory first, and then
    on Python's path."""
    path = [directory, *sys.path]
    found: dict[str, str] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        spec = _spec(name, path)
        file = None if spec is None or spec.origin is None else Path(spec.origin)
        if file is None or not file.is_file():
            found[name] = ""  # it comes with Python, or is a name inside a module
        elif name not in names and _is_installed(file):
            found[name] = _version(name)
        elif name not in names and _comes_with_python(file):
            found[name] = ""
        else:
            data = file.read_bytes()
            found[name] = hashlib.sha256(data).hexdigest()
            if name in names or not _comes_with_python(file):
                waiting += _imports(name, data, is_package=file.name == "__init__.py")
    told = "\n".join(f"{name} {said}" for name, said in sorted(found.items()) if said)
    return hashlib.sha256(told.encode()).hexdigest()[:DIGEST_DIGITS]


def _spec(name: str, path: Sequence[str]) -> ModuleSpec | None:
    """The location of a module, found without importing it."""
    whole, spec, searched = "", None, list(path)
    for part in name.split("."):
        whole = f"{whole}.{part}" if whole else part
        spec = PathFinder.find_spec(whole, searched)
        if spec is None:
            return None
        searched = list(spec.submodule_search_locations or [])
    return spec


def _imports(name: str, data: bytes, *, is_package: bool) -> Iterator[str]:
    """The modules that a text imports, and the imported names that may be modules."""
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError):  # not Python, such as a library in machine code
        return
    package = name if is_package else name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _above(alias.name)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".") if package else []
            base = parts[: len(parts) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            if module:
                yield from _above(module)
            for alias in node.names:
                yield f"{module}.{alias.name}" if module else alias.name


def _above(name: str) -> Iterator[str]:
    """A module and the packages that contain it, which are imported first."""
    while name:
        yield name
        name = name.rpartition(".")[0]


def _is_installed(file: Path) -> bool:
    places = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    return "site-packages" in file.parts or any(file.is_relative_to(place) for place in places if place)


def _comes_with_python(file: Path) -> bool:
    return file.is_relative_to(sysconfig.get_path("stdlib"))


def _version(name: str) -> str:
    """The version of the package that contains a module; empty if it has none."""
    try:
        return importlib.metadata.version(name.partition(".")[0])
    except importlib.metadata.PackageNotFoundError:
        return ""

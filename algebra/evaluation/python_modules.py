"""What code in Python is made of: the file of a module, and those of the modules that it imports in its turn.

Imports are found in the text of a file, also those inside of functions; nothing is run. What is imported by a name that
is computed is not seen. Modules that come with Python are passed over; of an installed package its version counts.
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
"""So many hexadecimal digits say what some files hold."""


def written(names: Sequence[str], directory: str) -> str:
    """What is in the files of some modules and of all that these import, looked for in a directory and then wherever
    Python looks; in short."""
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
            found[name] = ""  # it comes with Python, or is a name that a module has
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
    """Where a module is, which need not be imported for that."""
    whole, spec, searched = "", None, list(path)
    for part in name.split("."):
        whole = f"{whole}.{part}" if whole else part
        spec = PathFinder.find_spec(whole, searched)
        if spec is None:
            return None
        searched = list(spec.submodule_search_locations or [])
    return spec


def _imports(name: str, data: bytes, *, is_package: bool) -> Iterator[str]:
    """The modules that a text imports, with what may be one."""
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError):  # no text of Python, such as a library in machine code
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
    """A module and the packages that it is in, which are imported first."""
    while name:
        yield name
        name = name.rpartition(".")[0]


def _is_installed(file: Path) -> bool:
    places = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    return "site-packages" in file.parts or any(file.is_relative_to(place) for place in places if place)


def _comes_with_python(file: Path) -> bool:
    return file.is_relative_to(sysconfig.get_path("stdlib"))


def _version(name: str) -> str:
    """The version of the package that has a module, where it says one."""
    try:
        return importlib.metadata.version(name.partition(".")[0])
    except importlib.metadata.PackageNotFoundError:
        return ""

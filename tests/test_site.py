"""The site of the documents: it is built, no link in it leads nowhere, and the reference has all that is public."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.documents import DOCS

PUBLIC = ("mrql", "mrql.algebra.build", "mrql.streams", "mrql.adapters", "mrql.testing")
"""The packages whose names are for programs."""
_NAMED = re.compile(r"^::: (\S+)$", re.MULTILINE)
_ANCHOR = re.compile(r'id="(mrql[^"]*)"')


@pytest.mark.slow
def test_the_site_is_built(tmp_path: Path) -> None:
    """As `make docs` does it: a page for each document, the README as the first one, and all names in the reference,
    each as it is imported or where it is defined."""
    if find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not installed: make test does that, and pip install 'mrql[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path)]
    env = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=DOCS.parent, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {file.relative_to(tmp_path).with_suffix("").as_posix() for file in tmp_path.rglob("*.html")}
    documents = {file.relative_to(DOCS).with_suffix("").as_posix() for file in DOCS.rglob("*.md")}
    assert documents | {"index"} <= pages
    assert "Write a query once" in (tmp_path / "index.html").read_text(encoding="utf-8")
    assert (tmp_path / "search" / "search_index.json").exists()
    anchors = {*_ANCHOR.findall((tmp_path / "api.html").read_text(encoding="utf-8"))}
    names = [item for package in PUBLIC for item in names_of(package).items()]
    assert [name for name, defined in names if not {name, defined} & anchors] == []


def test_each_document_is_in_the_navigation() -> None:
    """Also where the site is not built, which warns of those that are not; decisions are found by links."""
    listed = re.findall(r"^ +- (\S+\.(?:md|ipynb))$", (DOCS.parent / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    files = {file.relative_to(DOCS).as_posix() for kind in ("*.md", "notebooks/*.ipynb") for file in DOCS.glob(kind)}
    assert sorted(listed) == sorted({*files, "index.md"})


def test_the_reference_names_what_is_public() -> None:
    """Also where the site is not built: each package, and each name of the package itself."""
    named = {*_NAMED.findall((DOCS / "api.md").read_text(encoding="utf-8"))}
    assert {*PUBLIC[1:]} <= named
    assert {name for name, defined in names_of("mrql").items() if not {name, defined} & named} == set()


def names_of(package: str) -> dict[str, str]:
    """The public names of a package, each with the one under which it is defined."""
    module = import_module(package)
    found = {}
    for name in module.__all__:
        value = getattr(module, name)
        found[f"{package}.{name}"] = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"
    return found

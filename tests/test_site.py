"""The site of the documents: it is built without broken links, and its reference has all public names."""

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
"""The packages with public names."""
_NAMED = re.compile(r"^::: (\S+)$", re.MULTILINE)
_ANCHOR = re.compile(r'id="(mrql[^"]*)"')


@pytest.mark.slow
def test_the_site_is_built(tmp_path: Path) -> None:
    """As by `make docs`, there is a page for each document, the README as the first, and all public names are in the
    reference, each as it is imported or where it is defined."""
    if find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not installed: make test does that, and pip install '.[docs]' does")
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
    """Each document is in the navigation, even if the site is not built; decisions are found by links."""
    listed = re.findall(r"^ +- (\S+\.(?:md|ipynb))$", (DOCS.parent / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    files = {file.relative_to(DOCS).as_posix() for kind in ("*.md", "notebooks/*.ipynb") for file in DOCS.glob(kind)}
    assert sorted(listed) == sorted({*files, "index.md"})


def test_the_reference_names_what_is_public() -> None:
    """The reference names each public package, and each name of `mrql` itself, even if the site is not built."""
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

"""The notebooks in `docs/notebooks`, run cell by cell without a kernel. `python -m tests.support.notebooks` writes the
outputs of their cells, after an intended change; it starts a PostgreSQL for the one that needs it.

Cells with a tag are run, but their outputs are left out: a `picture`, or `times`, which differ each time.
"""

from __future__ import annotations

import ast
import json
import os
import tempfile
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from tests.support.documents import DOCS
from tests.support.postgresql import Server

NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
WITH_A_SERVER = DOCS / "notebooks" / "postgresql.ipynb"
"""The one that needs a PostgreSQL, which the environment names, and no session of Spark."""


def read(file: Path) -> dict[str, Any]:
    """The content of a notebook."""
    notebook: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return notebook


def executed(notebook: dict[str, Any]) -> dict[str, Any]:
    """The same notebook, with the outputs of its cells in the active session."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            outputs = _outputs("".join(cell["source"]), names)
            cell = {**cell, "outputs": [] if cell["metadata"].get("tags") else outputs}
        cells.append(cell)
    return {**notebook, "cells": cells}


def _outputs(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """The text that a cell prints, and the value of its last statement if that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = StringIO(), None
    with redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    found: list[dict[str, Any]] = []
    if text := printed.getvalue():
        found.append({"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        found.append({"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"})
    return found


def main() -> None:
    """Rewrites each notebook."""
    from tests.conftest import local_spark

    spark, server = local_spark(), Server.start()
    os.environ |= server.environment
    for file in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as directory:
            os.chdir(directory)
            text = json.dumps(executed(read(file)), indent=1, ensure_ascii=False) + "\n"
        file.write_text(text, encoding="utf-8")
        print(f"wrote {file.name}")
    spark.stop()
    server.stop()


if __name__ == "__main__":
    main()

"""Regenerates the golden files and the tables of `docs/`: `python -m tests.regenerate`.

Only for an intended change: review what it changes.
"""

from __future__ import annotations

from tests.support import function_document, incremental_cases
from tests.support.golden_cases import GOLDEN, golden_files


def main() -> None:
    """Writes each file that differs, removes those that are not wanted, and says which."""
    wanted = golden_files()
    for path in sorted(p.relative_to(GOLDEN) for p in GOLDEN.rglob("*.txt")):
        if path not in wanted:
            (GOLDEN / path).unlink()
            print(f"removed {path}")
    for path, text in sorted(wanted.items()):
        file = GOLDEN / path
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            print(f"wrote {path}")
    for module in (incremental_cases, function_document):
        text = module.DOCUMENT.read_text(encoding="utf-8")
        if module.document(text) != text:
            module.DOCUMENT.write_text(module.document(text), encoding="utf-8")
            print(f"wrote {module.DOCUMENT.name}")


if __name__ == "__main__":
    main()

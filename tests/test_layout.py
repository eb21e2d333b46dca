"""Imports point one way: a folder imports from itself and from those above it in docs/architecture.md."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from mrql.cli.main import COMMANDS

ROOT = Path(__file__).parent.parent
ROOMS = {"algebra", "rewrite", "runtime"}
ROWS = re.findall(r"^\| (`.*?) \|", (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), re.MULTILINE)
FLOORS = {name: floor for floor, row in enumerate(ROWS) for name in re.findall(r"`([\w/.]+)`", row)}
"""The folders in their order, and the files that have a floor apart from their folder's."""

LATE = {
    "mrql/shell/start.py",  # the line editor of a terminal
}
"""The files that import modules of ours late for a reason other than Spark. Nothing is to be added."""

OPTIONAL = {"IPython", "deltalake", "psycopg", "pyiceberg"}
"""The packages that need not be installed: that of a notebook, and those of the extras."""

SPARK = "runtime/spark"

NAMES_SPARK = {
    "runtime/engines.py",  # makes an engine by its name: that on Spark takes a session, whose type is named
    "runtime/sources/spark_reader.py",  # reads Python data sources, which are classes of pyspark, in either engine
}
"""The other files of the runtime that may name types of pyspark, or import it when it is needed."""

FOLDER_MAX_MODULES = 15
"""The most modules that a folder may have, so that it is taken in at a glance."""

LARGER = {
    "mrql/translate": 48,  # a file for each construct of the language
    "runtime/spark/io": 24,  # a file for each format, and what they share
    "runtime/spark/expressions": 24,  # a file for each kind of functions and values in SQL
    "algebra/functions": 28,  # a file for each kind of functions
    "mrql/api": 17,  # what a view does, a file for each part of it
    "mrql/parser": 18,  # a file for each part of the grammar
    "runtime/sources/formats": 18,  # a file for each format, and what they share
    "runtime/postgresql": 17,  # three connectors: a table that is polled, a log, and a table of answers
}
"""The folders that have more modules, and how many: those of one kind are found by their names."""

GROUND = {"mrql.version"}
"""The modules that everything may import."""

TESTED_ELSEWHERE = {
    "mrql": "the streams are operators of the algebra (tests/algebra/build), and the API is tested in tests/mrql/api",
    "mrql/syntax": "the tests of the parser make its nodes",
}
"""The folders whose modules have no tests in a folder of the same name, and where these are."""

SHARED_ELSEWHERE = {
    "tests/regenerate.py": "a command: what is to be compared with is written by it",
    "tests/bad_input/deaths.py": "only the tests beside it kill processes so",
    "tests/bad_input/situations.py": "the corpus of what may go wrong",
    "tests/bad_input/table.py": "the corpus of what may go wrong",
    "tests/runtime/checkpoint/crashes.py": "kills, which the tests beside it are about",
    "tests/runtime/checkpoint/damage.py": "damage, which the tests beside it are about",
    "tests/runtime/checkpoint/fed_views.py": "a process that the tests beside it kill",
    "tests/runtime/killed_tables.py": "processes that the soak kills, over tables of Delta Lake and Iceberg",
    "tests/runtime/postgresql/killed_logs.py": "processes that the tests beside it kill",
    "tests/runtime/checkpoint/streams.py": "streams that die, which the tests beside it are about",
    "tests/soak/__main__.py": "a command: cases with new seeds, for as long as one likes",
    "tests/soak/fuzz.py": "a part of that command",
    "tests/soak/hundreds.py": "a command",
    "tests/soak/large_data.py": "a part of that command",
    "tests/soak/loop_memory.py": "a part of that command",
    "tests/soak/properties.py": "a part of that command",
    "tests/tpch/cases.py": "reads the SQL beside it",
}
"""The files without tests that are not in `tests/support`, and why."""

PRINTS = {"mrql/cli", "mrql/shell"}
"""The folders that print."""

ALSO_PRINTS = {
    "algebra/evaluation/trace.py",  # prints what a query traces
    "mrql/api/notebook.py",  # prints what a notebook would show
    "mrql/monitoring/logs.py",
    "mrql/output/console_sink.py",
    "mrql/output/tables.py",
    "mrql/output/terminal.py",
}
"""The other files that print, which is their purpose."""

EXITS = {"mrql/cli"}
"""The folder that ends the process: all others raise."""

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
    """The entry of a file in the list of floors: itself, or its folder."""
    return str(relative(file)) if str(relative(file)) in FLOORS else folder_of(file)


@cache
def folders() -> dict[str, str]:
    """The folder of each module and package, by its absolute name."""
    return {module_of(file): folder_of(file) for file in source_files()}


@cache
def places() -> dict[str, str]:
    """The place of each module and package, by its absolute name."""
    return {module_of(file): place_of(file) for file in source_files()}


def module_of(file: Path) -> str:
    parts = relative(file).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(parts if parts[0] == "mrql" else ("mrql", *parts))


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


@cache
def imported(file: Path) -> tuple[tuple[str, int], ...]:
    """The modules that a file imports, with their lines: several tests ask for them."""
    return tuple(imports(read(file)))


def ours(file: Path) -> Iterator[tuple[str, int]]:
    """The places of this package that a file imports from, with the lines."""
    found = ((module, line) for module, line in imported(file) if module not in GROUND)
    yield from ((places()[module], line) for module, line in found if module in places())


@pytest.mark.parametrize("file", source_files(), ids=lambda file: str(relative(file)))
def test_imports_point_one_way(file: Path) -> None:
    """A file imports from its own floor and from those above it."""
    assert {place for place, _ in ours(file) if FLOORS[place] > FLOORS[place_of(file)]} == set()


def test_no_modules_need_each_other() -> None:
    """No modules import each other in a cycle. Late imports count, those for type checkers do not."""
    needs = {module_of(file): set(needed(file)) for file in source_files()}
    assert [*circles(needs)] == []


def needed(file: Path) -> Iterator[str]:
    """The modules of ours that a file needs when it runs."""
    typing = {*lines_of(read(file), is_for_type_checkers)}
    for module, line in imported(file):
        if module in folders() and module != module_of(file) and line not in typing:
            yield module


def circles(needs: Mapping[str, set[str]]) -> Iterator[frozenset[str]]:
    """The largest sets of modules of which each needs every other one, directly or indirectly."""
    below = {module: reached(module, needs) for module in needs}
    seen: set[str] = set()
    for module in needs:
        if module in below[module] and module not in seen:
            circle = frozenset(other for other in below[module] if module in below[other])
            seen |= circle
            yield circle


def reached(module: str, needs: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [module]
    while waiting:
        more = needs[waiting.pop()] - found
        found |= more
        waiting += more
    return found


def test_circles_are_found() -> None:
    """The cycles of a known graph are found."""
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": {"d"}, "e": {"a", "f"}, "f": {"e"}}
    assert set(circles(graph)) == {frozenset("bc"), frozenset("d"), frozenset("ef")}


ONE_IN_EACH = {
    # Both engines have states of stages.
    "StageState",
    # A type in the syntax tree, and the type that it means.
    *("BagType", "ListType", "RecordType", "TupleType"),
    # An expression in the syntax tree, and the term that it becomes.
    *("GroupBy", "Lambda", "Nth", "OrderBy", "Repeat"),
}
"""The names of classes of which there is more than one."""


def test_no_two_classes_have_one_name() -> None:
    """The name of a class is unique, except for those in `ONE_IN_EACH`."""
    trees = {file: read(file) for file in source_files()}
    found = Counter(node.name for tree in trees.values() for node in tree.body if isinstance(node, ast.ClassDef))
    assert {name for name, times in found.items() if times > 1} == ONE_IN_EACH


NAMED_BY_SPARK = {"MAX_PRECISION", "MIN_SCALE"}
"""Bounds of decimals, with the names that Spark gives them."""


def test_bounds_say_what_they_bound_and_in_which_unit() -> None:
    """The name of a bound says what it bounds and its unit: `QUERY_MAX_CHARACTERS`, not `MAX_SIZE` or `PLANS_MAX`."""
    constants = {name for file in source_files() for name in constants_of(read(file))}
    bounds = {name for name in constants if {"MAX", "MIN", "MOST", "LEAST"} & {*name.strip("_").split("_")}}
    assert {name for name in bounds if not re.fullmatch(r"_?[A-Z_]+_(MAX|MIN)_[A-Z_]+", name)} == NAMED_BY_SPARK


def constants_of(tree: ast.Module) -> Iterator[str]:
    """The names of the numbers that a module defines."""
    for node in tree.body:
        is_number = isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and is_computed(node.value)
        if is_number:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def is_computed(node: ast.expr) -> bool:
    """Whether a constant is a number, or computed from numbers."""
    match node:
        case ast.Constant(int() | float()):
            return True
        case ast.BinOp(left, _, right):
            return is_computed(left) and is_computed(right)
        case _:
            return False


def test_modules_are_imported_at_the_head_of_a_file() -> None:
    """A function imports a module of ours only if that needs Spark, which `check` and `explain` do without."""
    late = {}
    for file in source_files():
        lines = {*lines_of(read(file), is_function)}
        found = {module for module, line in imported(file) if line in lines and module in folders()}
        late[str(relative(file))] = {module for module in found if not is_on_spark(folders()[module])}
    assert {file for file, modules in late.items() if modules} == LATE


@pytest.mark.parametrize("file", source_files(), ids=lambda file: str(relative(file)))
def test_what_is_installed_with_the_package_is_imported_at_the_head_too(file: Path) -> None:
    """Required packages are imported at the head, except pyspark, which has tests of its own."""
    tree = read(file)
    lines = {*lines_of(tree, is_function)}
    late = {module.split(".")[0] for module, line in imports(tree) if line in lines and module not in folders()}
    assert late - {"mrql"} <= {"pyspark", *OPTIONAL}


@pytest.mark.parametrize("file", source_files(), ids=lambda file: str(relative(file)))
def test_the_rooms_are_imported_as_parts_of_the_package(file: Path) -> None:
    """No module has `import algebra`, which would find the directory here, but nothing in an installed package."""
    assert [module for module, _ in imported(file) if module.split(".")[0] in ROOMS] == []


def test_the_language_sees_the_algebra_only() -> None:
    seen = {folder for file in source_files() if folder_of(file) == TRANSLATE for folder, _ in ours(file)}
    assert {folder for folder in seen if folder.split("/")[0] != "algebra"} <= SEEN_BY_TRANSLATE


@pytest.mark.parametrize("file", source_files(), ids=lambda file: str(relative(file)))
def test_pyspark_is_imported_only_by_the_engine_on_spark(file: Path) -> None:
    """The rest starts without it; jobs, commands and the API may name its types, or load it when it is needed."""
    if is_on_spark(folder_of(file)):
        return
    found = [line for module, line in imported(file) if module.split(".")[0] in ("pyspark", "py4j")]
    front = FLOORS[place_of(file)] > FLOORS[TRANSLATE] or str(relative(file)) in NAMES_SPARK
    allowed = set(imported_when_needed(read(file))) if found and front else set()
    assert [line for line in found if line not in allowed] == []


def test_the_package_starts_without_pyspark() -> None:
    """Importing the package and its commands does not import pyspark, which `check` and `explain` do not need."""
    commands = ", ".join(f"mrql.cli.{name}" for name in COMMANDS)
    code = f"import sys, mrql, mrql.cli.main, {commands}; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def is_on_spark(folder: str) -> bool:
    return f"{folder}/".startswith(f"{SPARK}/")


def imported_when_needed(tree: ast.Module) -> Iterator[int]:
    """The lines of imports inside functions and under `if TYPE_CHECKING`."""
    return lines_of(tree, lambda node: is_function(node) or is_for_type_checkers(node))


def lines_of(tree: ast.Module, inside: Callable[[ast.AST], bool]) -> Iterator[int]:
    """The lines of imports inside some nodes."""
    for node in filter(inside, ast.walk(tree)):
        yield from (n.lineno for n in ast.walk(node) if isinstance(n, ast.Import | ast.ImportFrom))


def is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


@pytest.mark.parametrize("file", source_files(), ids=lambda file: str(relative(file)))
def test_only_the_front_prints_and_exits(file: Path) -> None:
    """All other modules return what is to be said, or raise it."""
    nodes = [*ast.walk(read(file))]
    called = {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}
    raised = {ast.unparse(node.exc) for node in nodes if isinstance(node, ast.Raise) and node.exc}
    if folder_of(file) not in PRINTS:
        says = {
            name for name in called if name in PRINTING or name.endswith((".print", ".stdout.write", ".stderr.write"))
        }
        assert bool(says) == (str(relative(file)) in ALSO_PRINTS), says
    if folder_of(file) not in EXITS:
        assert {name for name in called | raised if name.split("(")[0] in EXITING} == set()


PRINTING = {"print", "click.echo", "click.secho", "say"}
EXITING = {"sys.exit", "os._exit", "exit", "quit", "SystemExit"}


def test_every_folder_has_its_floor() -> None:
    """The folders with modules are in the list, each once, and otherwise only files that exist."""
    named = [name for row in ROWS for name in re.findall(r"`([\w/.]+)`", row)]
    files = {name for name in named if name.endswith(".py")}
    assert files <= {str(relative(file)) for file in source_files()}
    assert sorted(set(named) - files) == sorted({folder_of(file) for file in source_files()})
    assert len(named) == len(set(named))


def test_folders_are_taken_in_at_a_glance() -> None:
    """The folders with more than `FOLDER_MAX_MODULES` modules are in `LARGER`, with their number."""
    modules = Counter(folder_of(file) for file in source_files() if file.name != "__init__.py")
    larger = {folder: count for folder, count in modules.items() if count > FOLDER_MAX_MODULES}
    assert larger == LARGER


def test_the_rooms_are_linked_into_the_package() -> None:
    """The rooms are links in the package, where every tool finds them."""
    assert {room: (ROOT / "mrql" / room).resolve() for room in ROOMS} == {room: ROOT / room for room in ROOMS}


def test_the_tests_lie_as_what_they_test() -> None:
    """A folder with modules has a folder with tests, or `TESTED_ELSEWHERE` says where these are."""
    with_tests = {str(relative(file.parent)) for file in (ROOT / "tests").rglob("test_*.py")}
    modules = {folder_of(file) for file in source_files() if file.name != "__init__.py"}
    assert {folder for folder in modules if f"tests/{folder}" not in with_tests} == TESTED_ELSEWHERE.keys()


def test_what_tests_share_lies_in_one_place() -> None:
    """Files without tests are in `tests/support`, or in `SHARED_ELSEWHERE` with the reason why they are not."""
    python = {relative(file) for file in (ROOT / "tests").rglob("*.py")}
    shared = {file for file in python if not file.name.startswith("test_") and file.name not in ALL_FOLDERS_MAY_HAVE}
    assert {str(file) for file in shared if file.parts[1] != "support"} == SHARED_ELSEWHERE.keys()


ALL_FOLDERS_MAY_HAVE = {"__init__.py", "conftest.py"}

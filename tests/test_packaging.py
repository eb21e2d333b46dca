"""What a user gets: the wheel, and the package installed from it."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

pytestmark = pytest.mark.slow


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """The output of a command that must succeed, without the Python paths of this environment."""
    env = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as it would be published."""
    directory = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", directory, ROOT)
    (built,) = directory.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    """The files in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of commands of an environment with the wheel, which finds our dependencies, too."""
    root = tmp_path_factory.mktemp("environment")
    builder = venv.EnvBuilder(with_pip=False)
    builder.create(root)
    commands = Path(builder.ensure_directories(root).bin_path)
    python = commands / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel)
    # A path from a .pth file comes after the environment's own, and the .pth files in it are not read: the editable
    # installation that the tests run from stays out of sight.
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    ours = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
    (site / "dependencies.pth").write_text("".join(f"{path}\n" for path in ours), encoding="utf-8")
    return commands


def test_the_wheel_holds_one_package(names: set[str]) -> None:
    """Nothing called `runtime` or `algebra` may land in a user's site-packages."""
    top = {name.split("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"mrql"}
    assert len(top) == 2


def test_the_wheel_holds_every_module_and_grammar(names: set[str]) -> None:
    """The rooms are in the package as directories, not as links that point nowhere."""
    rooms = ("algebra", "rewrite", "runtime")
    expected = {
        f"mrql/{file.relative_to(ROOT)}"
        for room in rooms
        for pattern in ("*.py", "*.lark", "*.mrql")
        for file in (ROOT / room).rglob(pattern)
    }
    expected |= {
        str(file.relative_to(ROOT))
        for pattern in ("*.py", "*.lark", "*.mrql", "py.typed")
        for file in (ROOT / "mrql").rglob(pattern)
        if not {*file.relative_to(ROOT).parts} & {*rooms}
    }
    assert {"mrql/parser/grammar.lark", "mrql/algebra/notation/term.lark", "mrql/py.typed"} <= expected
    assert {name for name in names if ".dist-info/" not in name} == expected


def test_the_installed_package_is_imported(installed: Path, tmp_path: Path) -> None:
    """The imported package is the one from the wheel, and finds its grammars."""
    code = (
        "import mrql; from mrql.algebra.notation.parser import parse; parse('1 + 2');"
        "print(mrql.__file__); print(mrql.compile('count(s)', s='bag(long)').type)"
    )
    file, answer_type = run(installed / "python", "-c", code, cwd=tmp_path).splitlines()
    assert Path(file).is_relative_to(installed.parent)
    assert answer_type == "long"


def test_the_installed_command_runs(installed: Path, tmp_path: Path) -> None:
    """The command exists, and names its subcommands."""
    help_text = run(installed / "mrql", "--help", cwd=tmp_path)
    assert all(command in help_text for command in ("run", "stream", "check", "explain"))


def test_the_installed_command_evaluates_a_query(installed: Path, tmp_path: Path) -> None:
    """A query runs from a directory that has nothing to do with the sources."""
    (tmp_path / "points.csv").write_text("1,2\n1,4\n", encoding="utf-8")
    query = tmp_path / "query.mrql"
    query.write_text('select (x, avg(y)) from (x, y) in source(csv, "points.csv", ",", type((long, long))) group by x;')
    output = run(installed / "mrql", "run", query, "--data", tmp_path, "--engine", "reference", "--format", "json")
    assert '"value": [[1, 3.0]]' in output

"""Window functions over ordered groups take `n log n` steps. These are counted as lines of Python that are
executed and functions that are called: a time would depend on the load of the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import log2
from types import FrameType
from typing import Any

import pytest

import mrql
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.values.values import Bag, Record
from mrql.algebra.values.zset import ZSet
from mrql.runtime.reference.view import ReferenceView
from tests.support.planning import planned

ROW = "bag(<k: long, v: long, w: double>)"
ROWS, BY_V = "select y from y in x order by y.v", "from y in x order by y.v"
FUNCTIONS = {
    "row_number": f"row_number({ROWS})",
    "lag": f"lag({ROWS})",
    "lag of many": f"lag(({ROWS}), 30)",
    "lead": f"lead({ROWS})",
    "ntile": f"ntile(({ROWS}), 7)",
    "rolling": f"rolling(({ROWS}), 3)",
    **{name: f"{name}(select (y, y.v) {BY_V})" for name in ("rank", "dense_rank", "percent_rank", "cume_dist")},
    **{name: f"{name}(select (y, y.v) {BY_V})" for name in ("running_sum", "running_min", "running_max")},
    "running_sum of doubles": f"running_sum(select (y, y.w) {BY_V})",
    "running_avg": f"running_avg(select (y, y.w) {BY_V})",
}
KEYS = {"other keys": 7919, "few keys": 5, "one key": 1}
"""The number of distinct keys that the rows are ordered by, at most."""

FEW, MANY = 50, 200
EACH_FOR_ALL = "select (a.v, count(select b from b in x where b.v <= a.v)) from a in x"


def rows(size: int, keys: int) -> Bag:
    """Rows of one group, in no order."""
    return Bag([Record({"k": 0, "v": i * 7919 % 10_007 % keys, "w": i * 31 % 97 / 8}) for i in range(size)])


def steps(run: Callable[[], object]) -> int:
    """The number of lines that are executed and functions that are called while something runs."""
    count = 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return count


def growth(run: Callable[[int], Callable[[], object]]) -> float:
    """The ratio of the steps for many rows to those for few, divided by the ratio of `n log n`."""
    few, many = (steps(run(size)) for size in (FEW, MANY))
    return many / few / (MANY * log2(MANY) / (FEW * log2(FEW)))


def compiled(function: str) -> mrql.Query:
    return mrql.compile(f"select (k, ({function})) from x in S group by k: x.k", S=ROW)


def evaluated(text: str, keys: int) -> Callable[[int], Callable[[], object]]:
    term = compiled(text).term

    def of_size(size: int) -> Callable[[], object]:
        contents = {"S": rows(size, keys)}
        return lambda: evaluate(term, contents)

    return of_size


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_window_function_takes_n_log_n_steps(name: str, keys: str) -> None:
    assert growth(evaluated(FUNCTIONS[name], KEYS[keys])) < 1.15


@pytest.mark.parametrize("name", FUNCTIONS)
def test_so_does_a_view(name: str) -> None:
    """A view, which recomputes the group in a batch, takes `n log n` steps, too."""
    plan = planned(compiled(FUNCTIONS[name]).term).plan

    def of_size(size: int) -> Callable[[], object]:
        view, changes = ReferenceView(plan), {"S": ZSet.of(rows(size, 7919))}

        def batch() -> None:
            view.apply(changes)
            view.answer()

        return batch

    assert growth(of_size) < 1.15


def test_the_count_sees_a_select_for_each_row() -> None:
    assert growth(evaluated(EACH_FOR_ALL, 7919)) > 2.5

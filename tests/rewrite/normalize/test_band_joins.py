"""Windows over an order are joined by bins, and mean the same."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from functools import cache
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, given, settings

import mrql
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.terms import CMap, Stream, Term
from mrql.algebra.values.values import Record, close
from mrql.algebra.values.zset import ZSet
from mrql.rewrite.pipeline import normal_form
from mrql.rewrite.plan.circuit import circuit_of
from mrql.rewrite.plan.cost import Cost
from mrql.runtime.reference.view import ReferenceView
from tests.support.weighted import weighted

ROW = "bag(<id: int, t: long, i: int, day: date, at: timestamp, v: double>)"
STREAMS = {"S": ROW, "T": ROW}
WINDOWS = {
    "longs": "b.t <= a.t and b.t > a.t - 3",
    "the other way round": "a.t - 3 < b.t and a.t + 1 >= b.t",
    "around": "b.t >= a.t - 2 and b.t <= a.t + 5",
    "one value": "b.t <= a.t and b.t >= a.t",
    "ints against longs": "b.i <= a.t and b.i >= a.t - 2",
    "a sum": "b.t + b.i <= a.t * 2 and b.t + b.i > 2 * a.t - 4 or false",
    "of terms": "b.t * 2 <= a.t + a.i and b.t * 2 > a.t + a.i - 7",
    "dates": "b.day <= a.day and b.day >= date_sub(a.day, 2)",
    "days to come": "b.day < add_days(a.day, 4) and b.day > a.day",
    "hours": "b.at <= a.at and b.at > add_hours(a.at, -3)",
    "hours and minutes": "b.at < add_minutes(a.at, 30) and b.at >= add_hours(add_minutes(a.at, 30), -1)",
    "with other conditions": "b.t <= a.t and b.v > 0.0 and b.t > a.t - 3 and a.v < b.v + 3.0",
}
GUARDED = {
    "at the end of the longs": "a.t < 100 and b.t >= a.t and b.t <= a.t + 2",
    "at the beginning of the longs": "a.t > -100 and b.t <= a.t and b.t > a.t - 9",
    "the last days": 'a.day < date("9999-12-30") and b.day >= a.day and b.day <= add_days(a.day, 2)',
    "the first hours": 'a.at > timestamp("0001-01-02") and b.at <= a.at and b.at >= add_hours(a.at, -3)',
}
"""Windows that may fail, but only for rows that an earlier condition excludes; the numbers of their bins cannot."""
FAILING = {
    "a division": "a.i <> 0 and b.t >= a.t / a.i and b.t <= a.t / a.i + 2",
    "a division of the inner row": "b.i <> 0 and b.t / b.i >= a.t and b.t / b.i <= a.t + 2",
    "wider than a long": "a.t >= 0 and a.t < 100 and b.t > a.t - 9223372036854775807 and b.t < a.t + 5",
}
"""Windows of which the number of a bin may fail, too."""
ALL = {**WINDOWS, **GUARDED, **FAILING}
RANGES = {
    "a range": ("a.t - 2..a.t", "b.t = n and b.id <> n"),
    "a range of ints": ("a.t..a.t + 5", "b.v > 0.0 and n = b.i"),
    "a range of terms": ("a.t + a.i - 7..a.t + a.i", "b.t * 2 = n"),
}
"""Ranges, and conditions on their numbers."""
QUERIES = {
    "a join": "select (a.id, b.id, b.v) from a in S, b in T where {}",
    "a join with itself": "select (a.id, b.v) from a in S, b in S where {}",
    "a sum": "select (a.id, sum(select b.v from b in T where {})) from a in S",
    "a count": "select (a.id, count(select b from b in S where {})) from a in S",
    "the greatest and the least": "select (a.id, max(select b.t from b in T where {0}), "
    "min(select b.v from b in T where {0})) from a in S",
    "a condition": "select a.id from a in S where not exists(select b from b in T where {} and b.id <> a.id)",
    "groups": "select (k, sum(b.i)) from a in S, b in T where {} group by k: a.id",
    "a join of three": "select (a.id, c.id) from a in S, b in T, c in S where {} and c.id = b.id",
    "a nested join": "select (a.id, count(select c from b in T, c in S where c.id = b.id and {})) from a in S",
}


@cache
def compiled(window: str, query: str) -> mrql.Query:
    if window not in RANGES:
        return mrql.compile(QUERIES[query].format(ALL[window]), **STREAMS)
    numbers, condition = RANGES[window]
    text = re.sub(r"\bb in ", f"n in {numbers}, b in ", QUERIES[query].format(condition))
    return mrql.compile(text, **STREAMS)


SMALL = st.integers(-12, 12)
LARGE = st.one_of(SMALL, st.sampled_from([-(2**62), 2**62, 2**62 + 1]))
LARGEST = st.one_of(SMALL, st.sampled_from([-(2**63), 2**63 - 1, 2**63 - 3]))
START = datetime(1970, 1, 1)


def rows(times: st.SearchStrategy[int], *, ends: bool) -> st.SearchStrategy[Any]:
    """Lists of rows; with `ends`, some of their days and hours are at the ends of the calendar."""
    hours = st.integers(-8, 8).map(lambda n: START + timedelta(minutes=20 * n, microseconds=n % 3))
    days = st.integers(-5, 5).map(lambda n: date(1970, 1, 1) + timedelta(n))
    if ends:
        hours |= st.sampled_from([datetime.min, datetime.min + timedelta(hours=1), datetime.max])
        days |= st.sampled_from([date.min, date.max - timedelta(1), date.max])
    fields = {
        "id": st.integers(0, 3), "t": times, "i": st.integers(-5, 5) | st.just(0), "day": days, "at": hours,
        "v": st.sampled_from([0.5, -1.0, 2.0]),
    }  # fmt: skip
    columns = st.fixed_dictionaries({name: weighted((3, values), (1, st.none())) for name, values in fields.items()})
    return st.lists(columns.map(Record), min_size=1, max_size=6)


@pytest.mark.wide(keep=4)
@pytest.mark.parametrize("window", [*ALL, *RANGES])
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(data=st.data())
def test_they_mean_the_same(window: str, data: st.DataObject) -> None:
    """The normal form, and a view under insertions and deletions, mean the same; missing values are in no window."""
    query = compiled(window, data.draw(st.sampled_from([*QUERIES])))
    small = window in ("a sum", "of terms", "a range of terms", "a division", "a division of the inner row")
    within = window in WINDOWS or window in RANGES
    batch_of = rows(SMALL if small else LARGE if within else LARGEST, ends=not within)
    batches = data.draw(st.lists(st.fixed_dictionaries(dict.fromkeys(STREAMS, batch_of)), min_size=1, max_size=3))
    view, normal = ReferenceView(query.trace().plan, {}), normal_form(query.term)
    there = {name: ZSet.of([]) for name in STREAMS}
    for number, batch in enumerate(batches):
        changes = {name: ZSet.of(found) for name, found in batch.items()}
        if number == 2:
            changes = {name: change - there[name] for name, change in changes.items()}
        there = {name: there[name] + changes[name] for name in STREAMS}
        contents = {name: there[name].bag() for name in STREAMS}
        wanted = evaluate(query.term, contents)
        view.apply(changes)
        assert close(evaluate(normal, contents), wanted)
        assert close(view.answer(), wanted)


def sources_within(term: Term) -> list[Term]:
    bodies = [part.function.body for part in subterms(term) if isinstance(part, CMap)]
    return [part for body in bodies for part in subterms(body) if isinstance(part, Stream)]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("window", [name for name in (*WINDOWS, *GUARDED, *RANGES) if name != "a sum"])
def test_they_are_joined(window: str, query: str) -> None:
    """No source is read for each row, and a batch costs its keys; except that a join of three with a window of times,
    which may leave the calendar, is not reordered for a batch of the third input."""
    trace = compiled(window, query).trace()
    assert sources_within(trace.normal_form) == []
    circuit = circuit_of(trace.plan)
    costs = [circuit.cost(stage.name)[0] for stage in trace.plan.stages]
    costs += [circuit.change(name).reads for name in ("answer", *(derived.name for derived in trace.plan.derived))]
    of_times = "a.day" in ALL.get(window, "") or "a.at" in ALL.get(window, "")
    assert (Cost.STATE in costs) == (query == "a join of three" and of_times)


@pytest.mark.parametrize(
    "condition",
    [
        "b.t <= a.t",
        "b.t <= a.t and b.t > a.i - 3",
        "b.v <= a.v and b.v > a.v - 3.0",
        "b.t <= a.t and b.t > a.t + 3",
        "b.t <= a.t and b.i > a.t - 3",
        "b.at <= a.at and b.at > add_months(a.at, -1)",
    ],
)
def test_what_is_no_window_is_left_as_it_is(condition: str) -> None:
    """Conditions with one end, ends of different terms, doubles, months, and empty windows get no bins."""
    assert not makes_bins(f"select (a.id, b.id) from a in S, b in T where {condition}")


@pytest.mark.parametrize(
    ("numbers", "condition"),
    [
        ("1..a.t", "b.t = n"),
        ("a.i..a.t", "b.t = n"),
        ("a.t + 2..a.t", "b.t = n"),
        ("a.t..a.t + 2", "b.t < n"),
        ("a.t..a.t + 2", "b.t = n + a.i"),
        ("a.t..a.t + 2", "n = a.i"),
    ],
)
def test_what_is_no_range_of_a_window_is_left_as_it_is(numbers: str, condition: str) -> None:
    """Ranges with ends of different terms, empty ranges, and numbers that are not looked up get no bins."""
    assert not makes_bins(f"select (a.id, b.id) from a in S, n in {numbers}, b in T where {condition}")


def makes_bins(text: str) -> bool:
    return next(step for step in mrql.compile(text, **STREAMS).trace().steps if step.name == "bands").has_changed

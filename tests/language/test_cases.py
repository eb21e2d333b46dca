"""The cases of `tests/language/*.case` in the reference engine: evaluated once, and batch by batch with deletions."""

from __future__ import annotations

import re

import pytest

from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.values.value_text import show_value
from mrql.algebra.values.values import Bag, same
from mrql.algebra.values.zset import ZSet
from mrql.output.tables import type_name
from mrql.runtime.reference.view import ReferenceView
from tests.support.cases import CLASSES, Case, cases, documents
from tests.support.planning import planned

ANSWERS = [case for case in cases() if case.error is None]
ERRORS = [case for case in cases() if case.error is not None]
MENDED = [case for case in ERRORS if case.instead is not None]


@pytest.mark.parametrize("case", ANSWERS, ids=lambda case: case.name)
def test_answer(case: Case) -> None:
    """A query has its value and its type, and each document in the value has its class."""
    query = case.compiled
    if case.type is not None:
        assert type_name(query.type) == case.type
    expected = case.expected(query.type)
    value = evaluate(query.term, case.data)
    assert same(value, expected), show_value(value)
    assert all(type(document) is CLASSES[t.kind] for document, t in documents(value, query.type)), show_value(value)


@pytest.mark.parametrize("shrinks", [False, True], ids=["grows", "shrinks"])
@pytest.mark.parametrize("case", [case for case in ANSWERS if case.reads], ids=lambda case: case.name)
def test_incremental_answer(case: Case, shrinks: bool) -> None:
    """The answer is right after each batch: rows arrive one by one, or some are deleted and inserted again."""
    query = case.compiled
    plan = planned(query.term, shrinking=frozenset(case.streams if shrinks else ())).plan
    view = ReferenceView(plan)
    present = {name: ZSet() for name in case.reads}
    batches = [{name: ZSet.of([row])} for name in case.reads for row in case.data[name]]
    if shrinks:
        batches = [{name: ZSet.of(case.data[name])} for name in case.reads]
        batches += [{name: ZSet.of(list(case.data[name])[:2], -1)} for name in case.reads]
        batches += [{name: ZSet.of(list(case.data[name])[:2]) for name in case.reads}]
    for batch in batches:
        present |= {name: present[name] + change for name, change in batch.items()}
        contents = {name: rows.bag() for name, rows in present.items()}
        try:
            expected = evaluate(query.term, contents)
        except UserError:
            return  # no value over the data so far: a key that is not there yet, for example
        view.apply(batch)
        assert same(view.answer(), expected), f"{show_value(view.answer())}, not {show_value(expected)}"
    assert same(view.answer(), case.expected(query.type))


@pytest.mark.parametrize("case", ERRORS, ids=lambda case: case.name)
def test_error(case: Case) -> None:
    """A wrong query has one error, word for word, with its place."""
    with pytest.raises(UserError) as caught:
        evaluate(case.compiled.term, case.data | {name: Bag() for name in case.streams if name not in case.data})
    error = caught.value
    assert error.span is not None
    assert f"{error.span.line}:{error.span.column} {error.message}" == case.error
    if case.hint is not None:
        assert (error.hint or "") == case.hint


@pytest.mark.parametrize("case", MENDED, ids=lambda case: case.name)
def test_what_a_hint_leads_to(case: Case) -> None:
    """The program that follows a hint has a value, and has a call that the hint names, if it names any."""
    evaluate(case.mended().term, case.data | {name: Bag() for name in case.streams if name not in case.data})
    assert case.hint is not None
    assert case.instead is not None
    named = {word for text in re.findall("`([^`]+)`", case.hint) for word in re.findall(r"\w+", text)}
    calls = re.search(r"\w\(", case.hint)
    assert not calls or named & set(re.findall(r"(\w+)\(", case.instead))

"""Joins follow a batch by the delta rule that the circuit says, and `explain` shows."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import mrql
from mrql.rewrite.analysis.multilinear import DeltaForm
from mrql.rewrite.plan.operators import OperatorKind
from tests.runtime.spark.maintenance.test_by_row import STREAMS, assert_follows
from tests.support.histories import Batch

JOINS = {
    "what may fail": ("select (a, sum(d / b)) from (a, b) in L, (c, d) in M where a = c group by a", DeltaForm.THERE),
    "what never fails": ("select (a, sum(d)) from (a, b) in L, (c, d) in M where a = c group by a", DeltaForm.CHANGES),
}

HISTORY = (
    Batch({"L": ((1, 2), (2, 3)), "M": ((1, 6), (2, 9))}),
    Batch({"L": ((1, 3),), "M": ((1, 12), (3, 1))}),
    # The new row of L must not meet the deleted rows of M: it would divide by 0.
    Batch({"L": ((1, 0),)}, {"M": ((1, 6), (1, 12))}),
    Batch({"L": ((2, 1),), "M": ((1, 5),)}, {"L": ((1, 0), (2, 3))}),
    Batch({}, {"L": ((1, 2), (1, 3)), "M": ((2, 9),)}),
)


@pytest.mark.spark
@pytest.mark.parametrize("name", JOINS)
def test_the_rule_of_the_circuit_is_run(name: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A join uses the circuit's rule, and its answers are the reference's, also if a row is inserted as its partner is
    deleted."""
    text, form = JOINS[name]
    asked = list[DeltaForm]()
    choices = DeltaForm.choices

    def noted(form: DeltaForm, changed: tuple[bool, ...]) -> tuple[tuple[str, ...], ...]:
        asked.append(form)
        return choices(form, changed)

    circuit = mrql.compile(text, **STREAMS).plan.circuit
    joins = [operator for operator in circuit.operators if operator.kind is OperatorKind.JOIN]
    assert [join.form for join in joins] == [form]
    monkeypatch.setattr(DeltaForm, "choices", noted)
    assert_follows(spark, text, HISTORY)
    assert len(asked) >= len(HISTORY)
    assert {*asked} == {form}

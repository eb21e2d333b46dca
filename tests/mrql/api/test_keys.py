"""The keys of streams: how they are given and explained, and which are refused."""

from __future__ import annotations

from typing import Any

import pytest

import mrql
from mrql.algebra.errors import UserError
from mrql.rewrite.plan.circuit import circuit_of

QUERY = mrql.compile(
    "select (o.city, sum(o.n)) from o in orders group by o.city",
    orders="bag(<id: long, city: string, n: long, x: double>)",
)


@pytest.mark.parametrize("keys", ["id", ["id"], mrql.key("id")])
def test_a_key_is_names_of_fields(keys: Any) -> None:
    plan = QUERY.trace(keys={"orders": keys}).plan
    assert plan.keyed == {"orders": mrql.key("id")}
    assert plan.noted == {"orders"}
    assert not plan.looked_up


def test_what_is_kept_is_explained() -> None:
    found = QUERY.explanation(keys={"orders": mrql.key("id", version="n")})
    said = "a row of orders replaces the one with its id: the rows are kept by it, and the n of those"
    assert said in " ".join(found.split())
    operators = circuit_of(QUERY.trace(keys={"orders": "id"}).plan).operators
    (source,) = (operator for operator in operators if operator.id == "orders")
    assert "which it replaces" in source.rule


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"keys": {"others": "id"}}, "the query has no stream `others` to give a key to"),
        ({"keys": {"orders": "nr"}}, "the key of `orders`: the rows have no field `nr`"),
        ({"keys": {"orders": 1}}, "the key of `orders` is the names of its fields"),
        ({"keys": "orders"}, "keys are given by stream"),
        ({"keys": {"orders": []}}, "a key has at least one field"),
        ({"keys": {"orders": [1]}}, "a field is called by a text"),
        ({"keys": {"orders": mrql.key("id", version="x")}}, "the field `x` is of type double, and no version"),
        (
            {"keys": {"orders": "id"}, "insert_only": True},
            "rows of `orders` replace others, and a view that only takes",
        ),
        ({"keys": {"orders": "id"}, "trusted": ["orders"]}, "`orders` has a key: there are no deletions to trust"),
    ],
)
def test_what_a_key_cannot_be(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        QUERY.trace(**arguments)


def test_what_replaces_rows_cannot_be_taken_back() -> None:
    with pytest.raises(UserError, match="a batch that replaces rows cannot be taken back"):
        -mrql.Delta(upsert=object())  # type: ignore[arg-type]
    with pytest.raises(UserError, match="a batch of changes cannot be taken back"):
        -mrql.Delta(changes=object())  # type: ignore[arg-type]

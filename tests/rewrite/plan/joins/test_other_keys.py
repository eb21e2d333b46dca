"""The other keys by which inputs of a join are looked up, and by which of these they can be kept."""

from __future__ import annotations

import pytest

import mrql
from mrql.rewrite.plan.joins.other_keys import Path, other_keys
from tests.support.planning import planned

PAIRS = "{(long, long)}"


def met(text: str, **types: str) -> dict[tuple[str, str], tuple[Path, ...] | None]:
    """The other keys of a query's joins, by the stream of the batch and the stream that it looks up."""
    plan = planned(mrql.compile(text, **types).term).plan
    feeds = (feed for stage in plan.stages for feed in stage.feeds)
    return {(key.batch[0], key.label[0]): key.parts for feed in feeds for key in other_keys(feed)}


THREE = "select (a, f) from (a, b) in S, (c, d) in T, (e, f) in P where b = c and {} = {}"


def test_a_part_as_it_is() -> None:
    """T, with elements (c, d), is kept by c, and looked up by d, its second part."""
    assert met(THREE.format("d", "e"), S=PAIRS, T=PAIRS, P=PAIRS) == {("P", "T"): ((1,),)}


def test_an_input_is_met_by_what_its_batch_has_met_before() -> None:
    """A batch of Q looks up P, and then T through P; a batch of P looks up T, and Q by the key that Q is kept by."""
    text = "select (a, h) from (a, b) in S, (c, d) in T, (e, f) in P, (g, h) in Q where b = c and d = e and f = g"
    found = met(text, **dict.fromkeys("STPQ", PAIRS))
    assert found == {("P", "T"): ((1,),), ("Q", "T"): ((1,),), ("Q", "P"): ((1,),)}


def test_several_parts() -> None:
    text = "select (a, f) from (a, b) in S, (c, d, x) in T, (e, y, f) in P where b = c and x = y and d = e"
    ((where, parts),) = met(text, S=PAIRS, T="{(long, long, string)}", P="{(long, string, long)}").items()
    assert where == ("P", "T")
    assert parts is not None
    assert len({*parts}) == 2


@pytest.mark.parametrize(
    ("key", "types"),
    [
        ("d + 1", ("long", "long")),  # computed, so it has no column
        ("d", ("int", "long")),  # joined as a long, which has another hash
        ("d", ("double", "double")),  # 0.0 and −0.0 are equal
        ("d", ("any", "any")),  # so are 1 and 1.0
    ],
)
def test_what_is_not_kept_by(key: str, types: tuple[str, str]) -> None:
    of_t, of_p = types
    found = met(THREE.format(key, "e"), S=PAIRS, T=f"{{(long, {of_t})}}", P=f"{{({of_p}, long)}}")
    assert found == {("P", "T"): None}


@pytest.mark.parametrize("t", ["bool", "int", "string", "date", "timestamp", "binary", "decimal(9, 2)"])
def test_what_is_kept_by(t: str) -> None:
    found = met(THREE.format("d", "e"), S=PAIRS, T=f"{{(long, {t})}}", P=f"{{({t}, long)}}")
    assert found == {("P", "T"): ((1,),)}

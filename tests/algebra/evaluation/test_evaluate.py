"""The reference evaluator computes a term once if it is the same for all rows, and only then."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.notation.parser import parse
from mrql.algebra.values.values import Bag, Value


class Counted(Bag):
    """A bag that counts how often it is iterated over."""

    walks = 0

    def __iter__(self) -> Iterator[Value]:
        self.walks += 1
        return super().__iter__()


TOTAL = "reduce(+, cMap(λy. {y * 1L}, ys))"
OF_OUTER = "reduce(+, cMap(λy. {y * x}, ys))"
OF_INNER = "reduce(+, cMap(λy. {y * z}, ys))"
SHADOWED = "reduce(+, cMap(λx. {x * 1L}, ys)) + x"


@pytest.mark.parametrize(
    ("body", "expected", "walks"),
    [
        pytest.param(f"{{x + {TOTAL}}}", [7, 8, 9], 1, id="of no row"),
        pytest.param(f"cMap(λz. {{z + {TOTAL}}}, zs)", [16, 26] * 3, 1, id="of no row, two deep"),
        pytest.param(f"cMap(λz. {{z + {OF_OUTER}}}, zs)", [16, 26, 22, 32, 28, 38], 3, id="of the outer row"),
        pytest.param(f"cMap(λz. {{x + {OF_INNER}}}, zs)", [61, 121, 62, 122, 63, 123], 6, id="of the inner row"),
        pytest.param(f"if x = 2L then {{{TOTAL}}} else {{x}}", [1, 6, 3], 1, id="under a condition"),
        pytest.param(f"{{{SHADOWED}}}", [7, 8, 9], 1, id="a name that is bound inside again"),
    ],
)
def test_what_rows_share_is_computed_once(body: str, expected: list[int], walks: int) -> None:
    streams = {"xs": "{long}", "ys": "{long}", "zs": "{long}"}
    ys = Counted([1, 2, 3])
    term = parse(f"cMap(λx. {body}, xs)", streams)
    assert evaluate(term, {"xs": Bag([1, 2, 3]), "ys": ys, "zs": Bag([10, 20])}) == Bag(expected)
    assert ys.walks == walks

"""The equations of the normal form that hold if a value cannot be missing, or if that makes no difference."""

from __future__ import annotations

import pytest

from mrql.algebra.notation.parser import parse
from mrql.algebra.notation.printer import show
from mrql.rewrite.normalize.normalize import normalize

SOURCES = {"P": "{<V: {long}, L: [long], T: (long, long), N: {{long}}>}", "S": "{long}", "W": "{(long, long)}"}
GROUPED = "groupBy(cMap(λp. {{(1L, {})}}, P))"
NESTED, PAIRED = GROUPED.format("p.T"), GROUPED.format("(p.T#0, 2L)")

FORMS = {
    # a collection that may be missing is rebuilt …
    "cMap(λp. {cMap(λx. {x}, p.V)}, P)": None,
    "cMap(λp. {p.V ⊎ {}:{long}}, P)": "cMap(λp. {cMap(λx. {x}, p.V)}, P)",
    "cMap(λp. {{}:{long} ⊎ p.V}, P)": "cMap(λp. {cMap(λx. {x}, p.V)}, P)",
    "cMap(λp. {p.L ⊎ []:[long]}, P)": None,
    "cMap(λp. {reduce(⊎, p.V)}, P)": "cMap(λp. {cMap(λx. {x}, p.V)}, P)",
    "cMap(λp. {cMap(λy. p.V, {1L})}, P)": "cMap(λp. {cMap(λx. {x}, p.V)}, P)",
    "cMap(λp. {if p.T#0 = 1L then cMap(λx. {x}, p.V) else {}:{long}}, P)": None,
    "cMap(λp. cMap(λn. {cMap(λx. {x}, n)}, p.N), P)": None,
    # … unless it is iterated over anyway
    "cMap(λp. cMap(λx. {x}, p.V), P)": "cMap(λp. p.V, P)",
    "cMap(λp. {reduce(+, cMap(λx. {x}, p.V))}, P)": "cMap(λp. {reduce(+, p.V)}, P)",
    "cMap(λp. {cMap(λx. {x}, p.V) ⊎ S}, P)": "cMap(λp. {p.V ⊎ S}, P)",
    "cMap(λp. if p.T#0 = 1L then cMap(λx. {x}, p.V) else S, P)": "cMap(λp. if p.T#0 = 1L then p.V else S, P)",
    # one that cannot be missing is not rebuilt
    "cMap(λx. {x}, S)": "S",
    "S ⊎ {}:{long}": "S",
    f"cMap(λ(k, s). {{(k, cMap(λx. {{x}}, s))}}, {NESTED})": f"cMap(λ(k, s). {{(k, s)}}, {NESTED})",
    f"cMap(λ(k, s). {{(k, s ⊎ {{}}:{{(long, long)}})}}, {NESTED})": f"cMap(λ(k, s). {{(k, s)}}, {NESTED})",
    # a missing tuple is not a tuple of missing parts
    f"cMap(λ(k, s). {{(k, cMap(λ(a, b). {{(a, b)}}, s))}}, {NESTED})": None,
    f"cMap(λ(k, s). {{(k, cMap(λ(a, b). {{(a, b)}}, s))}}, {PAIRED})": f"cMap(λ(k, s). {{(k, s)}}, {PAIRED})",
    "cMap(λ(a, b). {(a, b)}, W)": None,
    "cMap(λ(k, s). {s}, groupBy(cMap(λ(a, b). {(a, b)}, W)))": "cMap(λ(k, s). {s}, groupBy(W))",
}


@pytest.mark.parametrize(("written", "normal"), FORMS.items(), ids=FORMS.keys())
def test_normal_forms(written: str, normal: str | None) -> None:
    """An equation fires where it holds, and leaves the term as it is where it does not."""
    term = parse(written, SOURCES)
    assert show(normalize(term)) == show(parse(normal or written, SOURCES))

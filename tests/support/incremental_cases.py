"""Every construct of the language with its incremental form and what a batch costs: the table of `docs/incremental.md`.

The table is made from the plans themselves, so that it agrees with them; `python -m tests.regenerate` writes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import attrs

import mrql
from mrql.algebra.notation.parser import parse_type
from mrql.rewrite.passes import Trace
from mrql.rewrite.plan.circuit import circuit_of
from mrql.rewrite.plan.cost import Cost
from mrql.rewrite.plan.plan import Plan, Shape, Stage
from tests.support.planning import planned

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "incremental.md"
BEGIN, END = "<!-- constructs: begin -->", "<!-- constructs: end -->"

STREAMS = {
    "S": parse_type("{(long, long)}"),
    "T": parse_type("{(long, long)}"),
    "P": parse_type("{<K: long, V: long, I: {<U: long>}>}"),
    "J": parse_type("{<K: long, V: any>}"),
    "X": parse_type("{XML}"),
}


@attrs.frozen
class Construct:
    """A construct and a query that has it."""

    name: str
    query: str


GCD = "function gcd(a: long, b: long): long { if b > 0 then gcd(b, a mod b) else a }"
TREE = "data Tree = Leaf: long | Node: (Tree, Tree)"
PYTHON = {
    "group-by with a function that calls itself": ["gcd"],
    "a function of a group that calls itself": ["total"],
    "a function that calls itself and reads a stream": ["reach"],
    "an imported function": ["parts"],
}
"""The constructs whose rows pass through Python on Spark, and the functions that are the reason."""

CONSTRUCTS = tuple(
    Construct(*row)
    for row in (
        ("filter and map", "select (x, y + 1) from (x, y) in S where y > 0"),
        ("elements of nested bags", "select (p.K, i.U) from p in P, i in p.I"),
        ("union", "(select x from (x, y) in S) union (select d from (c, d) in T)"),
        ("except", "S except T"),
        ("intersect", "(select y from (x, y) in S) intersect (select c from (c, d) in T)"),
        ("group-by with sums, counts, averages", "select (x, count(y), avg(y)) from (x, y) in S group by x"),
        ("group-by with extremes", "select (x, min(y), max(y)) from (x, y) in S group by x"),
        (
            "group-by with statistics",
            "select (x, variance(y), stddev(y), variance_pop(y), stddev_pop(y), median(y), percentile(y, 0.9), "
            "mode(y)) from (x, y) in S group by x",
        ),
        (
            "group-by with statistics of pairs",
            "select (k, covar(x, y), covar_pop(x, y), corr(x, y), max_by(x, y), min_by(x, y)) "
            "from (x, y) in S group by k: x mod 2",
        ),
        (
            "group-by with frequencies and collected values",
            "select (x, count_distinct(y), histogram(y), histogram(y, 5), collect(y + 1), sort(y), "
            'string_agg(y as string, ", ")) from (x, y) in S group by x',
        ),
        (
            "statistics of everything",
            "(median(select y from (x, y) in S), stddev(select y from (x, y) in S), corr(S))",
        ),
        ("histogram of everything", "histogram((select y from (x, y) in S), 10)"),
        ("group-by with bags", "select (x, y) from (x, y) in S group by x"),
        ("one group of all", "select (k, sum(y), x) from (x, y) in S group by k: ()"),
        (
            "group-by with an aggregation of one's own",
            "aggregation product(\\(x, y). x * y, 1): long; select (x, product(y)) from (x, y) in S group by x",
        ),
        (
            "group-by with an aggregation that has an inverse",
            "aggregation moments(\\(a, b). (a#0 + b#0, a#1 + b#1), (0, 0), \\x. (1, x), \\a. (-a#0, -a#1)): "
            "(long, long); select (x, moments(y)) from (x, y) in S group by x",
        ),
        (
            "case",
            "select (x, case count(y) { 1: y | 2: {0} | _: {} }) from (x, y) in S group by x",
        ),
        (
            "join on a union",
            "data Maybe = Just: long | None; macro maybe(n) { if n > 0 then Just(n) else None }; "
            "select (a, d) from (a, b) in S, (c, d) in T where maybe(b) = maybe(c)",
        ),
        (
            "a function of functions",
            "f = \\(x, p). some t in T: p(t) = x; select a from (a, b) in S where f(a, \\t. t#0)",
        ),
        ("group-by over nested bags", "select (k, sum(p.V)) from p in P, i in p.I group by k: i.U"),
        (
            "group-by with a function of a date",
            'select (m, sum(y)) from (x, y) in S group by m: date_trunc("month", date(from_unix(x)))',
        ),
        ("flatten", "flatten(select (select i.U from i in p.I) from p in P)"),
        ("sort", "sort(select y from (x, y) in S)"),
        ("having", "select (x, sum(y)) from (x, y) in S group by x having count(y) > 1"),
        ("distinct", "select distinct y from (x, y) in S"),
        ("totals", "(sum(select y from (x, y) in S), count(T))"),
        ("extremes of all", "max(select y from (x, y) in S)"),
        ("join", "select (a, d) from (a, b) in S, (c, d) in T where b = c"),
        ("self-join", "select (a, d) from (a, b) in S, (c, d) in S where b = c"),
        ("join of three", "select (a, p.V) from (a, b) in S, (c, d) in T, p in P where b = c and d = p.K"),
        ("join on a window", "select (a, d) from (a, b) in S, (c, d) in T where b < c and c < b + 10"),
        ("join on an inequality", "select (a, d) from (a, b) in S, (c, d) in T where b < c"),
        (
            "join on an equality in each alternative",
            "select (a, d) from (a, b) in S, (c, d) in T where (b = c and a > 1) or (b = c and d > 1)",
        ),
        ("product", "select (a, c) from (a, b) in S, (c, d) in T"),
        ("join under a group-by", "select (a, sum(d)) from (a, b) in S, (c, d) in T where b = c group by a"),
        ("sum of products over a join", "sum(select b * d from (a, b) in S, (c, d) in T where a = c)"),
        (
            "sums of products by key",
            "select (a, sum(b * d - b), count(d)) from (a, b) in S, (c, d) in T where a = c and d > 0 group by a",
        ),
        (
            "sum over a join of three",
            "sum(select b * d * p.V from (a, b) in S, (c, d) in T, p in P where a = c and c = p.K)",
        ),
        ("nested select in the head", "select (a, select d from (c, d) in T where c = b) from (a, b) in S"),
        (
            "correlated aggregate in a filter",
            "select a from (a, b) in S where b > sum(select d from (c, d) in T where c = a)",
        ),
        (
            "correlated average in a filter",
            "select a from (a, b) in S where b > avg(select d from (c, d) in T where c = a)",
        ),
        (
            "correlated aggregate over a join",
            "select (a, p.V) from (a, b) in S, p in P where b = p.K and a > sum(select d from (c, d) in T where c = a)",
        ),
        (
            "correlated aggregate over a range",
            "select (a, sum(select d from h in a - 2..a, (c, d) in T where c = h)) from (a, b) in S",
        ),
        (
            "correlated aggregate over a nested bag",
            "select (p.K, count(select d from i in p.I, (c, d) in T where c = i.U)) from p in P",
        ),
        (
            "elements without a partner",
            "select a from (a, b) in S where count(select d from (c, d) in T where c = a) = 0",
        ),
        ("exists", "select a from (a, b) in S where exists(select d from (c, d) in T where c = a)"),
        ("not exists", "select a from (a, b) in S where not exists(select d from (c, d) in T where c = a)"),
        ("in", "select a from (a, b) in S where b in (select c from (c, d) in T)"),
        ("not in", "select a from (a, b) in S where (a, b) not in T"),
        ("in, from a nested bag", "select (p.K, i.U) from p in P, i in p.I where i.U in (select d from (c, d) in T)"),
        ("some", "select a from (a, b) in S where some (c, d) in T: c = a and d > b"),
        ("all", "select a from (a, b) in S where all (c, d) in (select t from t in T where t#0 = a): d > b"),
        ("all and some of a group", "select (x, all(y > 0), some(y > 0)) from (x, y) in S group by x"),
        ("all and some of everything", "(all(select y > 0 from (x, y) in S), some (c, d) in T: c = d)"),
        ("a quantifier without an equality", "select a from (a, b) in S where all (c, d) in T: d > b"),
        (
            "some of some",
            "select a from (a, b) in S where some (c, d) in T: some p in P: p.K = c and p.V = a",
        ),
        (
            "a relational division",
            "select a from (a, b) in S where all (c, d) in T: some p in P: p.K = c and p.V = a",
        ),
        (
            "set operations on nested selects",
            "select (a, (select d from (c, d) in T where c = a) except {1}) from (a, b) in S",
        ),
        ("uncorrelated aggregate in a filter", "select a from (a, b) in S where b > avg(select d from (c, d) in T)"),
        (
            "correlation by an inequality",
            "select (a, sum(select d from (c, d) in T where c < a)) from (a, b) in S",
        ),
        (
            "group-by over a group-by",
            "select (n, count(k)) from (k, n) in (select (x, count(y)) from (x, y) in S group by x) group by n",
        ),
        (
            "join with groups",
            "select (c, n) from (k, n) in (select (x, count(y)) from (x, y) in S group by x), (c, d) in T where d = k",
        ),
        (
            "groups of what passes a total",
            "select (a, count(b)) from (a, b) in S where b > avg(select d from (c, d) in T) group by a",
        ),
        ("number of distinct values", "count(select distinct y from (x, y) in S)"),
        ("sum of group averages", "sum(select avg(y) from (x, y) in S group by x)"),
        ("extreme of group averages", "max(select avg(y) from (x, y) in S group by x)"),
        ("order and limit", "select (x, y) from (x, y) in S order by y desc limit 3"),
        ("order over groups", "select (x, sum(y)) from (x, y) in S group by x order by x"),
        (
            "the first ones of each group",
            "select (x, (select z from z in y order by z desc limit 2)) from (x, y) in S group by x",
        ),
        ("elements of a range", "select (x, i) from (x, y) in S, i in 1..y"),
        (
            "numbers and running sums in each group",
            "select (x, z, n, s) from (x, zs) in (select (x, (select z from z in y order by z desc)) from (x, y) in S "
            "group by x), ((z, n), s) in running_sum(select ((z, n), z) from (z, n) in row_number(zs) order by n)",
        ),
        (
            "ranks and what comes before, in an order of all",
            "select (x, r, p) from ((x, r), p) in lag(select (x, r) from (x, r) in "
            "rank(select ((x, y), y) from (x, y) in S order by y) order by r, x)",
        ),
        (
            "first, last, lead, ntile and rolling in each group",
            "select (x, first(zs), last(zs), lead(zs), ntile(zs, 2), rolling(zs, 3)) "
            "from (x, zs) in (select (x, (select z from z in y order by z)) from (x, y) in S group by x)",
        ),
        (
            "first, last, lead, ntile and rolling in an order of all",
            "let xs = (select y from (x, y) in S order by y) in "
            "(first(xs), last(xs), lead(xs), ntile(xs, 2), rolling(xs, 3))",
        ),
        (
            "the other ranks and what runs along, in each group",
            "select (x, size(ps), dense_rank(ps), percent_rank(ps), cume_dist(ps), running_avg(ps), running_min(ps), "
            "running_max(ps)) from (x, ps) in "
            "(select (x, (select (z, z) from z in y order by z)) from (x, y) in S group by x)",
        ),
        (
            "the other ranks and what runs along, in an order of all",
            "let ps = (select (y, y) from (x, y) in S order by y) in (size(ps), dense_rank(ps), percent_rank(ps), "
            "cume_dist(ps), running_avg(ps), running_min(ps), running_max(ps))",
        ),
        ("element of a list", "select (x, (select z from z in y order by z)[0]) from (x, y) in S group by x"),
        ("part of a list", "(select (x, y) from (x, y) in S order by y)[1:2]"),
        (
            "value under a key",
            "select (a, (select (c, count(d)) from (c, d) in T group by c)[a]) from (a, b) in S "
            "where some (c, d) in T: c = a",
        ),
        (
            "a loop",
            "repeat x = S step select distinct z from z in (x union (select (a, d) from (a, b) in x, (c, d) in S "
            "where b = c))",
        ),
        (
            "a loop over sums of groups",
            "repeat (x, n) = ((select (x, sum(y)) from (x, y) in S group by x), 0) "
            "step ((select (k, v + count(d)) from (k, v) in x, (c, d) in T where k = c group by (k, v)), n + 1) "
            "limit 3",
        ),
        (
            "groups of what a loop gives",
            "select (k, count(b)) from (k, b) in "
            "(repeat x = S step (select (a, d) from (a, b) in x, (c, d) in T where b = c) limit 2) group by k",
        ),
        ("a trace", "select (x, sum(y)) from (x, y) in trace(S) group by x"),
        ("a loop for each element", "select (x, repeat z = x step (z * 2, z < y) limit 5) from (x, y) in S"),
        (
            "a loop for each group",
            "select (x, repeat z = y step (select v / 2 from v in z where v > 1) limit 3) from (x, y) in S group by x",
        ),
        (
            "aggregates of several streams",
            "select (a, sum(b), sum(select d from (c, d) in T where c = a)) from (a, b) in S group by a",
        ),
        ("elements of a JSON value", "select (j.K, i.N as long) from j in J, i in j.V.I"),
        ("group-by on a JSON value", "select (v, count(j)) from j in J group by v: j.V.A"),
        ("join on a JSON value", "select (a, j.K) from (a, b) in S, j in J where j.V.A = b"),
        ("children and attributes", 'select text(a) from x in X, a in x.author where x.@year = "2005"'),
        ("group-by on a text", "select (n, count(x)) from x in X, a in x.author group by n: text(a)"),
        (
            "patterns of lists",
            "select (x, case (select z from z in y order by z) { [a]: a | [a, b]: a + b | _: 0 }) "
            "from (x, y) in S group by x",
        ),
        (
            "group-by with a function that calls itself",
            f"{GCD}; select (g, count(x)) from (x, y) in S where gcd(x, y) > 0 group by g: gcd(x, y)",
        ),
        (
            "a function of a group that calls itself",
            "function total(xs: [long]): long { case xs { []: 0 | _: xs[0] + total(xs[1:100]) } }; "
            "select (x, total(select z from z in y order by z)) from (x, y) in S group by x",
        ),
        (
            "a function that calls itself and reads a stream",
            "function reach(k: long, n: long): {long} { if n > 0 then {k} union "
            "(select z from (c, d) in T, z in reach(d, n - 1) where c = k) else {} }; "
            "select (x, reach(y, 3)) from (x, y) in S",
        ),
        (
            "group-by on recursive data",
            f"{TREE}; select (t, count(x)) from (x, y) in S group by t: Node(Leaf(x mod 2), Leaf(y mod 2))",
        ),
        (
            "join on recursive data",
            f"{TREE}; macro t(n) {{ Node(Leaf(n), Leaf(1)) }}; "
            "select (a, d) from (a, b) in S, (c, d) in T where t(b) = t(c)",
        ),
        (
            "an imported function",
            'import "builtins:divmod" as parts(long, long): (long, long); '
            "select (q, count(r)) from (x, y) in S, (q, r) in {parts(y, 3)} group by q",
        ),
        ("an XML literal", "select [xml| <sum of={{x}}>{{sum(y)}}</sum> |] from (x, y) in S group by x"),
    )
)


@cache
def trace_of(construct: Construct) -> Trace:
    """The trace of the query of a construct, over streams with deletions; made once for all tests of a process."""
    term = mrql.compile(construct.query, **STREAMS).term
    return planned(term, shrinking=frozenset(STREAMS))


def plan_of(construct: Construct) -> Plan:
    return trace_of(construct).plan


def table() -> Iterator[str]:
    """The lines of the table."""
    yield "| construct | query | what is kept | a batch reads | the answer's change costs |"
    yield "|---|---|---|---|---|"
    for construct in CONSTRUCTS:
        plan = plan_of(construct)
        circuit = circuit_of(plan)
        kept = "<br>".join(_kept(plan, stage) for stage in plan.stages)
        read = Cost.largest(circuit.cost(stage.name)[0] for stage in plan.stages)
        change = circuit.change("answer").reads.value
        query = construct.query.replace("|", "\\|")
        yield f"| {construct.name} | `{query}` | {kept} | {read.value} | {change} |"


def _kept(plan: Plan, stage: Stage) -> str:
    match stage.shape:
        case Shape.KEYED:
            what = ", ".join(["support", *(str(component.monoid) for component in stage.components)])
        case Shape.TOTAL:
            what = ", ".join(str(component.monoid) for component in stage.components)
        case Shape.BAG:
            what = "⊎"
    sides = sum(len(feed.rows.inputs) for feed in stage.feeds if len(feed.rows.inputs) > 1)
    joined = f"; {sides} sides of joins" if sides else ""
    passed = ", ".join(f"Δ{derived.name}" for derived in plan.derived_for(stage))
    return f"{stage.name} {stage.shape.value}: {what}{joined}{f' ← {passed}' if passed else ''}"


def document(text: str) -> str:
    """The document with its table regenerated."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return "\n".join([before + BEGIN, "", *table(), "", END + after])

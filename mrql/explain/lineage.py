"""The paper's own form of a stage: `h` and `a` with all lineage, before the keys that the answer drops are pruned."""

from __future__ import annotations

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.variables import Names, all_names, substitute
from mrql.algebra.monoids import Keyed, ProductMonoid
from mrql.algebra.notation.printer import show_pattern
from mrql.algebra.notation.readable_names import tidy
from mrql.algebra.terms import (
    CMap,
    CoGroup,
    GroupBy,
    Lambda,
    Nth,
    Pattern,
    PTuple,
    PVar,
    Reduce,
    Single,
    Term,
    Tup,
    Var,
    pair_type,
)
from mrql.algebra.types import Type
from mrql.rewrite.analysis.infer_merge import joins_elements
from mrql.rewrite.incremental.answer import drop_lineage
from mrql.rewrite.incremental.lineage import is_mixed
from mrql.rewrite.normalize.normalize import normalize
from mrql.rewrite.plan.plan import Shape, Stage


@attrs.frozen
class Tree:
    """A lineage `θ` as text, with a name for each key, and the keys in it."""

    text: str
    keys: tuple[str, ...] = ()
    type: Type = ty.UNIT


@attrs.frozen
class Lineage:
    """A stage with all its lineage: the tree of keys, `h` and `a`, and the keys that are not stored."""

    tree: Tree
    h: Term
    answer: Term
    dropped: tuple[str, ...]


def lineage_of(stage: Stage, keep: frozenset[str] = frozenset()) -> Lineage:
    """The annotated form of a stage ([MRQL] §8 Alg. 1, Def. 4), its terms normalized for readability."""
    tree = lineage_tree(tidy(stage.derivation.query, keep))
    dropped = tree.keys[1:] if stage.shape is Shape.KEYED else tree.keys
    return Lineage(tree, normalize(stage.derivation.annotated), _annotated_answer(stage), dropped)


def _annotated_answer(stage: Stage) -> Term:
    """`A[[q]]x` over the annotated state ([MRQL] Def. 4), with the kMap of what does not merge."""
    state = Var(stage.name, stage.derivation.annotated.type)
    match stage.shape, stage.merge:
        case Shape.KEYED, Keyed() as merge:
            return substitute(stage.derivation.answer, {stage.name: Reduce(merge, drop_lineage(state))})
        case Shape.TOTAL, ProductMonoid(items):
            return Tup(tuple(Reduce(monoid, _values(Nth(state, i))) for i, monoid in enumerate(items)))
        case Shape.TOTAL, merge:
            return Reduce(merge, _values(state))
        case _:
            return _values(state)


def _values(pairs: Term) -> Term:
    """`π2(X)`."""
    key_type, value_type = pair_type(pairs)
    v = Names(set(all_names(pairs))).fresh("v")
    return CMap(Lambda(PTuple((PVar("θ", key_type), PVar(v, value_type))), Single(Var(v, value_type))), pairs)


def lineage_tree(term: Term) -> Tree:
    """The lineage of a query's results: the tree of its groupBy and coGroup keys.

    It has the shape of the query as [MRQL] Alg. 1 traverses it.

    >>> from mrql.algebra.notation.parser import parse
    >>> join = "cMap(λ(j, (xs, ys)). cMap(λx. cMap(λy. {(x, y)}, ys), xs), coGroup(S, T))"
    >>> q = parse(f"cMap(λ(k, s). {{(k, reduce(+, s))}}, groupBy({join}))", {name: "{(long, long)}" for name in "ST"})
    >>> lineage_tree(q).text
    '(k, (j, ((), ())))'
    """
    match term:
        case Tup((first, *_)):  # totals over the same rows
            return lineage_tree(first)
        case Reduce(_, source):
            return lineage_tree(source)
        case CMap(Lambda(PTuple((key, group)), body), GroupBy() | CoGroup() as source):
            return _body(key, group, body, source)
        case _:
            return Tree("()")


def _body(key: Pattern, group: Pattern, function: Term, source: GroupBy | CoGroup) -> Tree:
    match source:
        case GroupBy(inner):
            below = _input(inner)
        case CoGroup(left, right) if is_mixed(function, group):
            sides = _input(left), _input(right)
            types = ty.TupleType((sides[0].type, sides[1].type))
            below = Tree(f"({sides[0].text}, {sides[1].text})", sides[0].keys + sides[1].keys, types)
        case CoGroup():
            below = Tree("((), ())", (), ty.TupleType((ty.UNIT, ty.UNIT)))
    own = show_pattern(key, key.type)
    return Tree(f"({own}, {below.text})", (own, *below.keys), ty.TupleType((pair_type(source)[0], below.type)))


def _input(term: Term) -> Tree:
    match term:
        case CMap(Lambda(PTuple((key, group)), body), CoGroup() as source) if joins_elements(body, group):
            return _body(key, group, body, source)
        case _:
            return Tree("()")

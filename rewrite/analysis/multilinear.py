"""Terms that are linear in each of their streams, and how they change.

*Equation*: where `[Si: ⊎, others: □] ⊢ h : ⊎` for every occurrence i of a stream, and `S' = S ⊎ Δ`,

    h(S1', …, Sn') − h(S1, …, Sn) = h(Δ1, S2, …, Sn) ⊎ h(S1', Δ2, S3, …, Sn) ⊎ … ⊎ h(S1', …, S(n−1)', Δn)

Each summand reads one change, and the other inputs as they were before or are after it, so partners that arrive in
different batches meet exactly once. Each occurrence counts as a stream of its own, so a self-join is an ordinary case.

*Source*: [DBSP] Thm 3.4 (the bilinear rule); [CU] §3 (the delta of a product).
"""

from __future__ import annotations

from enum import Enum

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import map_children, subterms
from mrql.algebra.analysis.variables import Remembered, free_vars
from mrql.algebra.monoids import BAG
from mrql.algebra.terms import CMap, Empty, Stream, Term, Union
from mrql.rewrite.analysis.infer_merge import infer_multilinear

MARK = "·"
"""Separates a stream's name from the number of its occurrence; no name in a query contains it."""


def label_occurrences(term: Term) -> Term:
    """The term with distinct names for the occurrences of streams: `S·0`, `S·1`, …"""
    counter = [0]

    def label(part: Term) -> Term:
        if isinstance(part, Stream) and not part.static:
            name = f"{part.name}{MARK}{counter[0]}"
            counter[0] += 1
            return attrs.evolve(part, name=name)
        return map_children(part, label)

    return label(term)


def stream_of(label: str) -> str:
    """The stream that an occurrence belongs to."""
    return label.split(MARK)[0]


def occurrences(term: Term) -> tuple[str, ...]:
    """The streams (not the static tables) of a term, one entry for each occurrence."""
    return tuple(t.name for t in subterms(term) if isinstance(t, Stream) and not t.static)


_MULTILINEAR = Remembered[bool]()


def is_multilinear(term: Term) -> bool:
    """Whether the term is a bag that is linear in each occurrence of a stream.

    >>> from mrql.algebra.notation.parser import parse
    >>> S = {"S": "{(long, long)}"}
    >>> is_multilinear(parse("cMap(λ(a, b). cMap(λ(c, d). if b = c then {a} else {}:{long}, S), S)", S))
    True
    >>> is_multilinear(parse("cMap(λ(k, s). {k}, groupBy(S))", S))
    False
    """
    known = _MULTILINEAR.get(term)
    if known is None:
        linear = isinstance(term.type, ty.BagType) and infer_multilinear(label_occurrences(term)) == BAG
        known = _MULTILINEAR.put(term, linear)
    return known


def summands(term: Term) -> tuple[Term, ...]:
    """The terms that a union consists of; a union of multilinear terms changes by the union of their changes."""
    match term:
        case Union(left, right) if isinstance(term.type, ty.BagType):
            return summands(left) + summands(right)
        case Empty():
            return ()
        case _:
            return (term,)


@attrs.frozen
class Input:
    """What a multilinear term reads of one occurrence of a stream: a linear term over it, identified by its label.

    With `sums`, sums are stored instead of rows: of the elements `(k, (v1, …, vn))` that agree in all but the last
    `sums` parts, one is stored, with the sums of these parts (`rewrite/plan/joins/eager_aggregation.py`).
    """

    label: str
    stream: str
    term: Term
    sums: int = 0


@attrs.frozen
class Multilinear:
    """A multilinear term over its inputs: in `body`, each input is a stream with the input's label as its name.

    For some inputs, `orders` has the same term with its joins in the order for a batch of that input.
    """

    body: Term
    inputs: tuple[Input, ...]
    orders: tuple[tuple[str, Term], ...] = ()

    def for_batch(self, label: str | None) -> Term:
        """The term with its joins in the order for a batch of the input with this label."""
        return dict(self.orders).get(label or "", self.body)


def multilinear(term: Term) -> Multilinear:
    """Separates a multilinear term into its inputs and what joins them.

    An input is the largest part that reads one occurrence, so that a stored side of a join holds only the columns and
    rows that the join can use.
    """
    labelled = label_occurrences(term)
    inputs: list[Input] = []

    def visit(part: Term) -> Term:
        read = occurrences(part)
        if len(read) == 1 and _stands_alone(part):
            inputs.append(Input(read[0], stream_of(read[0]), part))
            return Stream(read[0], part.type)
        return map_children(part, visit)

    if len(occurrences(labelled)) == 1:
        label = occurrences(labelled)[0]
        source = next(t for t in subterms(labelled) if isinstance(t, Stream) and t.name == label)
        return Multilinear(labelled, (Input(label, stream_of(label), source),))
    body = visit(labelled)
    return Multilinear(body, tuple(inputs))


def _stands_alone(term: Term) -> bool:
    return isinstance(term, CMap | Stream) and not free_vars(term) and infer_multilinear(term) == BAG


def choices_that_are_there(changed: tuple[bool, ...]) -> tuple[tuple[str, ...], ...]:
    """For each summand, which version of each input it reads, joining only rows that exist at the same time: the
    insertions of a batch (`came`) with the rows after it (`new`), its deletions (`went`) with those before it (`old`),
    and either with the rows that are there before and after it (`kept`).

    *Equation*: `h(N1, N2) − h(O1, O2) = h(I1, N2) + h(K1, I2) − h(D1, O2) − h(K1, D2)`, where `N = K + I`, `O = K + D`.

    >>> choices_that_are_there((True, True))
    (('came', 'new'), ('went', 'old'), ('kept', 'came'), ('kept', 'went'))
    """
    n = len(changed)
    return tuple(
        tuple(which if j == i else ("kept" if j < i else after) for j in range(n))
        for i in range(n)
        if changed[i]
        for which, after in (("came", "new"), ("went", "old"))
    )


def delta_choices(changed: tuple[bool, ...]) -> tuple[tuple[str, ...], ...]:
    """For each summand of the delta rule, which version of each input it reads: `new`, `delta` or `old`.

    Inputs that did not change have no summand.

    >>> delta_choices((True, False, True))
    (('delta', 'old', 'old'), ('new', 'old', 'delta'))
    """
    n = len(changed)
    return tuple(
        tuple("delta" if j == i else ("new" if j < i and changed[j] else "old") for j in range(n))
        for i in range(n)
        if changed[i]
    )


class DeltaForm(Enum):
    """The form of the delta rule for several inputs: its summands. The sum is the same for all forms."""

    CHANGES = "changes"
    """One summand for each changed input (`delta_choices`)."""
    THERE = "what is there"
    """Summands that join only rows that exist at the same time (`choices_that_are_there`)."""

    def choices(self, changed: tuple[bool, ...]) -> tuple[tuple[str, ...], ...]:
        """For each summand, which version of each input it reads; `changed` says which inputs have changed."""
        return delta_choices(changed) if self is DeltaForm.CHANGES else choices_that_are_there(changed)

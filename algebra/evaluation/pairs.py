"""Collections of pairs: sorted, grouped by their keys, and two of them grouped together."""

from __future__ import annotations

from collections.abc import Iterable

from mrql.algebra.values.values import Bag, Canonical, Value, canonical, parts_of_pair


def sort_pairs(pairs: Iterable[Value], descending: tuple[bool, ...]) -> list[Value]:
    """Pairs `(k, v)` in the order of the parts of `k`, then of `v`; missing pairs and keys have missing parts."""
    ordered = sorted(map(parts_of_pair, pairs), key=lambda pair: canonical(pair[1]))
    # Python's sort is stable: sorting by the last part first gives the order by all parts.
    for i in reversed(range(len(descending))):
        ordered.sort(key=lambda pair: canonical(None if pair[0] is None else pair[0][i]), reverse=descending[i])
    return ordered


def grouped(pairs: Iterable[Value]) -> list[tuple[Value, list[Value]]]:
    """Each key with its values."""
    groups: dict[Canonical, tuple[Value, list[Value]]] = {}
    for k, a in pairs:
        groups.setdefault(canonical(k), (k, []))[1].append(a)
    return list(groups.values())


def co_grouped(left: Iterable[Value], right: Iterable[Value]) -> Bag:
    """Each key with its values on both sides: `(k, (xs, ys))`."""
    groups: dict[Canonical, tuple[Value, list[Value], list[Value]]] = {}
    for k, a in left:
        groups.setdefault(canonical(k), (k, [], []))[1].append(a)
    for k, b in right:
        groups.setdefault(canonical(k), (k, [], []))[2].append(b)
    return Bag((k, (Bag(xs), Bag(ys))) for k, xs, ys in groups.values())

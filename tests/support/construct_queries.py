"""Generated queries that have the rarer constructs of the language, more often than people write them.

They are the queries of `tests.support.queries`, with other conditions and other sources in some places.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from hypothesis import strategies as st

from tests.support.queries import BASIC, NARROWER, Atom, Many, Place, Scope, Shape, _Writer, tuple_of

XOR = "aggregation odd(\\(a, b). a <> b, false): bool"
APART = "macro apart((a, b)) { if is_null(a) then b else a }"
MAYBE = "data Maybe = Just: long | None; macro maybe(n) { if n > 0 then Just(n) else None }"
GCD = "function gcd(a: long, b: long): long { if b > 0 then gcd(b, a mod b) else a }"
TRIPLE = (
    "aggregation triple(\\(a, b). <n: a.n + b.n, s: a.s + b.s>, <n: 0, s: 0>, \\x. <n: 1, s: x * 0.5>, "
    "\\a. <n: -a.n, s: -a.s>): <n: long, s: double>"
)
DEFINITIONS = {"odd": XOR, "triple": TRIPLE, "maybe": MAYBE, "gcd": GCD, "apart": APART}
KINDS = ("int", "long", "double", "string", "bool")


@st.composite
def construct_queries(draw: st.DrawFn) -> str:
    """Query texts over `tests.support.queries.STREAMS`."""
    return _ConstructWriter(draw).program()


class _ConstructWriter(_Writer):
    def program(self) -> str:
        text = self.body()
        used = [definition for name, definition in DEFINITIONS.items() if f"{name}(" in text]
        return "; ".join([*used, text])

    def body(self) -> str:
        if self.chance(20):
            text, item = self.set_operation(Scope(), 1)
            if self.chance(40):
                return text
            inner = Scope((self.whole("found", Many(item)),))
            return f"found = {text}; {self.select(inner, 1)[0]}"
        if self.chance(10):
            return self.quantifier(Scope(), 1)
        if self.chance(12):
            text, item = self.loop()
            if self.chance(40):
                return text
            inner = Scope((self.whole("found", Many(item)),))
            return f"found = {text}; {self.select(inner, 1)[0]}"
        return super().program()

    def whole(self, name: str, shape: Shape) -> Place:
        return Place(name, shape, frozenset({name}))

    # --- repeat -----------------------------------------------------------------------------------------------------

    def loop(self) -> tuple[str, Shape]:
        """A loop over a bag, whose step reads streams beside it."""
        kinds = tuple(self.pick(KINDS) for _ in range(self.pick((1, 1, 2))))
        start, item = self.set_operation(Scope(), 0, kinds)
        scope = Scope((self.whole("carried", Many(item)),))
        step = self.set_operation(scope, 1, kinds)[0]
        if self.chance(50):
            step = f"carried union ({step})"
        return f"repeat carried = ({start}) step ({step}) limit {self.pick((1, 2, 3))}", item

    # --- except, intersect ------------------------------------------------------------------------------------------

    def source(self, scope: Scope, own: Mapping[str, Shape], depth: int) -> tuple[str, Shape]:
        if self.chance(5):
            places = [place.text for place in scope.atoms("int", "long") if place.roots & set(own)]
            return f"(0..{self.pick((*places, '2'))})", Atom("long")
        if depth and self.chance(15):
            text, item = self.set_operation(scope, depth - 1)
            return f"({text})", item
        return super().source(scope, own, depth)

    def collection(self, kind: str | None, scope: Scope, depth: int) -> str:
        if depth and kind is not None and self.chance(15):
            return self.set_operation(scope, depth - 1, (kind,))[0]
        return super().collection(kind, scope, depth)

    def set_operation(self, scope: Scope, depth: int, kinds: tuple[str, ...] | None = None) -> tuple[str, Shape]:
        """`x except y` or `x intersect y`; numbers of the right side may be narrower."""
        kinds = kinds or tuple(self.pick(KINDS) for _ in range(self.pick((1, 1, 2))))
        item = Atom(kinds[0]) if len(kinds) == 1 else tuple_of(*map(Atom, kinds))
        others = tuple(self.pick(NARROWER.get(kind, (kind,))) for kind in kinds)
        sides = [self.side(scope, depth, item, kinds), self.side(scope, depth, item, others)]
        return f"{sides[0]} {self.pick(('except', 'intersect'))} {sides[1]}", item

    def side(self, scope: Scope, depth: int, item: Shape, kinds: tuple[str, ...]) -> str:
        bags = [place.text for place in scope.bags() if place.shape == Many(item)]
        if bags and self.chance(40):
            return self.pick(bags)
        return f"({self.select(scope, depth, head=kinds, most=2, correlated=True)[0]})"

    # --- conditions -------------------------------------------------------------------------------------------------

    def condition(self, scope: Scope, depth: int, size: int = 2) -> str:
        if size and self.chance(5) and scope.atoms("int", "long"):
            return self.called(scope)
        if size and self.chance(35):
            return self.member(scope, depth) if self.chance(50) else f"({self.quantifier(scope, depth)})"
        return super().condition(scope, depth, size)

    def called(self, scope: Scope) -> str:
        """A condition on a function that calls itself."""
        numbers = [place.text for place in scope.atoms("int", "long")]
        return f"(gcd({self.pick(numbers)}, {self.pick((*numbers, '6'))}) < {self.pick((*numbers, '3'))})"

    def member(self, scope: Scope, depth: int) -> str:
        """`x in e` and `x not in e`."""
        places = scope.atoms(*BASIC)
        if not places:
            return self.comparison(scope, depth)
        place = self.pick(places)
        assert isinstance(place.shape, Atom)
        kind = self.pick(NARROWER.get(place.shape.kind, (place.shape.kind,)))
        word = self.pick(("in", "in", "not in"))
        if self.chance(15):
            return f"({place.text} {word} {{{self.literal(kind)}, {self.literal(kind)}}})"
        return f"({place.text} {word} ({self.collection(kind, attrs.evolve(scope, element=None), depth)}))"

    def quantifier(self, scope: Scope, depth: int) -> str:
        """`some p in e: c`, with an equality to an outer variable more often than not."""
        generators, inner, own = self.generators(scope, max(depth - 1, 0), 2)
        word = self.pick(("some", "all", "exists"))
        outside = {name for place in scope.places for name in place.roots} - set(own)
        links = self.link(inner, set(own), outside) if outside and self.chance(75) else []
        others = [self.condition(inner, max(depth - 1, 0), 1)] if not links or self.chance(60) else []
        if word == "all":
            links = [f"not ({link})" for link in links]
        joined = (" or " if word == "all" else " and ").join([*links, *others])
        return f"{word} {', '.join(text for text, _ in generators)}: {joined}"

    # --- scalars ----------------------------------------------------------------------------------------------------

    def compound(self, kind: str, scope: Scope, depth: int, size: int) -> str:
        def inner() -> str:
            return self.scalar(kind, scope, depth, size)

        numbers = scope.atoms("int", "long")
        match self.pick(("other",) * 6 + ("case", "union", "call", "element", "part")):
            case "case" if numbers:
                return f"(case {self.pick(numbers).text} {{ 1: {inner()} | 2: {inner()} | *: {inner()} }})"
            case "union" if numbers:
                branches = f"Just(1): {inner()} | None: {inner()} | *: {inner()}"
                return f"(case (maybe({self.pick(numbers).text})) {{ {branches} }})"
            case "call":
                if self.chance(50):
                    return f"apart(({inner()}, {self.literal(kind)}))"
                return f"(\\(f, v). f(v))(\\w. {inner()}, {self.literal(kind)})"
            case "element":
                return f"[{inner()}, {inner()}][{self.pick((0, 1))}]"
            case "part" if kind == "long":
                return f"count((0..4)[{self.pick((0, 1))}:{self.pick(numbers).text if numbers else 2}])"
            case _:
                return super().compound(kind, scope, depth, size)

    def comparison(self, scope: Scope, depth: int, *, totals: bool = False) -> str:
        numbers = scope.atoms("int", "long")
        if not totals and numbers and self.chance(15):
            return f"(maybe({self.pick(numbers).text}) {self.pick(('=', '<>'))} maybe({self.pick(numbers).text}))"
        return super().comparison(scope, depth, totals=totals)

    def aggregate(self, kind: str, scope: Scope, depth: int) -> str:
        if kind == "bool" and self.chance(40):
            return f"odd({self.collection('bool', scope, depth)})"
        if self.chance(15):
            return self.statistic(kind, scope, depth) or super().aggregate(kind, scope, depth)
        return super().aggregate(kind, scope, depth)

    def statistic(self, kind: str, scope: Scope, depth: int) -> str | None:
        """A statistic over all elements, of values for which rounding makes no difference."""

        def over(item: str) -> str:
            return f"({self.collection(item, scope, depth)})"

        exact = self.pick(("int", "long", "string"))
        match kind:
            case "ratio":
                named = self.pick(
                    ("median({})", "percentile({}, 0.3)", "variance({})", "stddev_pop({})", "triple({}).s")
                )
                return named.format(over(self.pick(("int", "long"))))
            case "long":
                return self.pick(
                    (f"count_distinct({over(exact)})", f"mode({over('long')})", f"triple({over('int')}).n")
                )
            case "string":
                return self.pick((f"mode({over('string')})", f'string_agg({over("string")}, "-")'))
            case _:
                return None

"""Generated query texts, and the data that they read.

Every query has a value over all data: numbers stay small, fractions are dyadic so that their sums are exact in any
order, and an average is compared, grouped by and counted, but never summed. Domains are small, so that keys meet and
rows repeat. An inner select sometimes reuses an outer name, as people do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from typing import Any, TypeAlias, TypeVar

import attrs
from hypothesis import strategies as st

from mrql.algebra import types as ty
from mrql.algebra.values.values import Bag, Record, Value
from tests.support.histories import Batch
from tests.support.histories import histories as _histories
from tests.support.weighted import weighted
from tests.support.wild import KINDS

T = TypeVar("T")

# --- shapes ---------------------------------------------------------------------------------------------------------


@attrs.frozen
class Atom:
    """A basic value by its kind: the name of a type, or `ratio`, a double that is not exact."""

    kind: str


@attrs.frozen
class Parts:
    """A tuple or a record."""

    fields: tuple[tuple[str, Shape], ...]
    record: bool


@attrs.frozen
class Many:
    """A bag, or a list where it is ordered."""

    item: Shape


Shape: TypeAlias = Atom | Parts | Many

INT, LONG, DOUBLE, STRING, BOOL, DATE = map(Atom, ("int", "long", "double", "string", "bool", "date"))
FLOAT, MONEY, TIMESTAMP = map(Atom, ("float", "money", "timestamp"))
BASIC: dict[str, ty.Type] = {
    "int": ty.INT,
    "long": ty.LONG,
    "double": ty.DOUBLE,
    "ratio": ty.DOUBLE,
    "string": ty.STRING,
    "bool": ty.BOOL,
    "date": ty.DATE,
    "float": ty.FLOAT,
    "money": ty.DecimalType(12, 2),
    "timestamp": ty.TIMESTAMP,
}
NUMBERS = ("int", "long", "double")
NARROWER = {"int": ("int",), "long": ("int", "long"), "double": ("int", "long", "double")}


def tuple_of(*items: Shape) -> Parts:
    return Parts(tuple((f"#{i}", item) for i, item in enumerate(items)), record=False)


def record_of(**fields: Shape) -> Parts:
    return Parts(tuple(fields.items()), record=True)


def list_of(*items: Shape) -> Parts:
    """A list of a fixed length, whose elements are read by their places."""
    return Parts(tuple((f"[{i}]", item) for i, item in enumerate(items)), record=False)


OWN_NAME = re.compile(r"(?:[a-zA-Z]\w*\.)*(?!true\Z|false\Z)([a-zA-Z]\w*)")
"""A variable, or a field of one, which gives its own name to a field in a select."""


def _is_list(shape: Parts) -> bool:
    return any(name.startswith("[") for name, _ in shape.fields)


SHAPES: dict[str, Shape] = {
    "X": record_of(A=LONG, B=INT, D=DOUBLE, S=STRING),
    "Y": tuple_of(INT, LONG, DOUBLE, BOOL),
    "P": record_of(K=LONG, V=DOUBLE, I=Many(record_of(U=INT, W=STRING))),
    "R": record_of(K=INT, F=FLOAT, M=MONEY, Z=TIMESTAMP),
    "Q": record_of(E=DATE, T=tuple_of(INT, STRING), B=Many(INT), W=Many(tuple_of(INT, LONG))),
}
"""The rows of the streams."""


def type_of(shape: Shape) -> ty.Type:
    match shape:
        case Atom(kind):
            return BASIC[kind]
        case Parts(fields, True):
            return ty.RecordType(tuple((name, type_of(item)) for name, item in fields))
        case Parts(fields, _):
            return ty.TupleType(tuple(type_of(item) for _, item in fields))
        case Many(item):
            return ty.BagType(type_of(item))


STREAMS: dict[str, ty.Type] = {name: ty.BagType(type_of(shape)) for name, shape in SHAPES.items()}


# --- data -----------------------------------------------------------------------------------------------------------

ATOMS: dict[str, tuple[Value, ...]] = {
    "int": (0, 1, 2, 0, 1, 2, 1, -1, None),
    "long": (0, 1, 2, 0, 1, 2, 1, -2, None),
    "double": (0.0, 1.0, 2.0, 1.0, 0.5, -0.5, 2.25, None),
    "string": ("a", "b", "a", "b", "", "Ab", None),
    "bool": (True, False, True, None),
    "date": (date.min, date.max, date(2024, 2, 29), date.max, None),
    "float": (0.0, 1.0, 2.0, 1.0, 0.5, -0.5, None),
    "money": (Decimal("0.00"), Decimal("1.00"), Decimal("1.00"), Decimal("-0.50"), Decimal("2.25"), None),
    "timestamp": (datetime.min, datetime.max, datetime(2024, 2, 29, 12, 30), datetime.max, None),
}
"""The domains; a value that is listed more often is drawn more often."""


def rows(shape: Shape, wild: str | None = None) -> st.SearchStrategy[Value]:
    """Values of a shape; parts of a row may be missing. Some are of the kind `wild`, if given."""

    def inside(part: Shape) -> st.SearchStrategy[Value]:
        values = rows(part, wild)
        match part:
            case Atom():
                return values
            case Parts(fields, _):
                # Missing as a whole is another value than missing in each part.
                return weighted((4, values), (1, st.none()), (1, st.just(_of_parts(part, [None] * len(fields)))))
            case Many():
                return weighted((4, values), (1, st.none()))

    match shape:
        case Atom(kind):
            others = KINDS[wild].get(kind, ()) if wild is not None else ()
            tame = st.sampled_from(ATOMS[kind])
            return st.one_of(tame, st.sampled_from(others)) if others else tame
        case Parts(fields, _):
            items = st.tuples(*(inside(item) for _, item in fields))
            return items.map(lambda values: _of_parts(shape, values))
        case Many(item):
            return st.lists(inside(item), max_size=3).map(Bag)


def _of_parts(shape: Parts, values: Sequence[Value]) -> Value:
    """A tuple or record of some values."""
    if not shape.record:
        return tuple(values)
    return Record({name: value for (name, _), value in zip(shape.fields, values, strict=True)})


@cache
def rows_of(name: str, wild: str | None) -> st.SearchStrategy[Value]:
    return rows(SHAPES[name], wild)


ROWS = {name: rows_of(name, None) for name in SHAPES}

Tables: TypeAlias = Mapping[str, Sequence[Value]]
"""The rows of the streams that are static tables."""


def histories(
    text: str, *, tables: Tables | None = None, wild: str | None = None, **options: Any
) -> st.SearchStrategy[list[Batch]]:
    """Batches for the streams that a query names (`tests.support.histories`), except static tables."""
    growing = [name for name in streams_of(text) if name not in (tables or {})]
    return _histories({name: rows_of(name, wild) for name in growing}, **options)


@st.composite
def tables(draw: st.DrawFn, text: str, *, wild: str | None = None, fewest: int = 0) -> Tables:
    """Rows for the streams of a query that become static tables: any of them, but never all."""
    names = streams_of(text)
    count = draw(st.integers(min(fewest, len(names) - 1), len(names) - 1))
    static = sorted(draw(st.permutations(names))[:count])
    return {name: tuple(draw(st.lists(rows_of(name, wild), max_size=4))) for name in static}


# --- scopes ---------------------------------------------------------------------------------------------------------


@attrs.frozen
class Place:
    """An expression that names a value: its text, its shape, and the variables that it goes through."""

    text: str
    shape: Shape
    roots: frozenset[str]


def parts_of(place: Place) -> Iterator[Place]:
    """A place and its projections; of a bag of records, the bags of their fields."""
    yield place
    match place.shape:
        case Parts(fields, _):
            for name, item in fields:
                yield from parts_of(Place(_projected(place.text, name), item, place.roots))
        case Many(Parts(fields, _) as item) if not _is_list(item):
            for name, item in fields:
                yield Place(_projected(place.text, name), Many(item), place.roots)
        case _:
            pass


def _projected(text: str, name: str) -> str:
    return f"{text}{name}" if name.startswith(("#", "[")) else f"{text}.{name}"


@attrs.frozen
class Scope:
    """The names in scope at a place of the text; after `group by`, `element` is the scope of one element of a group."""

    places: tuple[Place, ...] = ()
    element: Scope | None = None
    grouped: frozenset[str] = frozenset()

    def bind(self, name: str, shape: Shape) -> Scope:
        inner = attrs.evolve(self.hide(name), grouped=self.grouped - {name})
        return inner.add(*parts_of(Place(name, shape, frozenset({name}))))

    def add(self, *places: Place) -> Scope:
        texts = {place.text for place in places}
        return attrs.evolve(self, places=(*(p for p in self.places if p.text not in texts), *places))

    def hide(self, *names: str) -> Scope:
        """The scope without the places that an inner variable of one of these names shadows."""
        kept = tuple(place for place in self.places if not place.roots & set(names))
        return attrs.evolve(self, places=kept)

    def atoms(self, *kinds: str) -> list[Place]:
        return [place for place in self.places if isinstance(place.shape, Atom) and place.shape.kind in kinds]

    def bags(self) -> list[Place]:
        return [place for place in self.places if isinstance(place.shape, Many)]

    def roots(self) -> list[str]:
        return sorted({name for place in self.places for name in place.roots})


# --- queries --------------------------------------------------------------------------------------------------------


@st.composite
def queries(draw: st.DrawFn) -> str:
    """Query texts over `STREAMS`, definitions and all."""
    return _Writer(draw).program()


@st.composite
def several_queries(draw: st.DrawFn, count: int, longest: int | None = None) -> str:
    """A tuple of `count` queries, nested less than single ones, which are kept up to date together; each of them has at
    most `longest` characters, if that is given."""
    return _Writer(draw, deepest=1).together(count, longest)


@st.composite
def simple_queries(draw: st.DrawFn) -> str:
    """One group-by over a stream or a join of two, with aggregations and no nested select."""
    writer = _Writer(draw)
    return writer.select(Scope(), 0, grouped=True, most=2)[0]


class _Writer:
    """Writes a query from the outside in; `depth` says how many more selects may be nested, at first `deepest`."""

    def __init__(self, draw: st.DrawFn, deepest: int = 2) -> None:
        self.draw = draw
        self.deepest = deepest
        self.counter = 0
        self.definitions: list[str] = []

    def pick(self, options: Sequence[T]) -> T:
        return self.draw(st.sampled_from(options))

    def chance(self, percent: int) -> bool:
        """True with about this probability; shrinks to False."""
        return self.draw(st.integers(0, 99)) >= 100 - percent

    def fresh(self, scope: Scope, taken: Mapping[str, Shape], base: str = "v") -> str:
        """A new name, or now and then one that shadows an outer variable."""
        covered = [name for name in scope.roots() if name not in taken and name != "partition"]
        if covered and self.chance(10):
            return self.pick(covered)
        self.counter += 1
        return f"{base}{self.counter}"

    # --- programs ---------------------------------------------------------------------------------------------------

    def program(self) -> str:
        """A query, after the definitions that it needs."""
        self.definitions.clear()
        query = self.query()
        return "; ".join([*self.definitions, query])

    def together(self, count: int, longest: int | None) -> str:
        """A tuple of `count` queries."""
        self.definitions.clear()
        queries = [f"({self.short_query(longest)})" for _ in range(count)]
        return "; ".join([*self.definitions, f"({', '.join(queries)})"])

    def short_query(self, longest: int | None) -> str:
        """A query of at most `longest` characters with its definitions; drawn again until it is short enough."""
        known = len(self.definitions)
        text = self.query()
        while longest is not None and len(text) + sum(map(len, self.definitions[known:])) > longest:
            del self.definitions[known:]
            text = self.query()
        return text

    def define(self, base: str, definition: str) -> str:
        """Puts a definition before the query; `definition` has `{}` for its name, which is returned."""
        self.counter += 1
        name = f"{base}{self.counter}"
        self.definitions.append(definition.replace("{}", name, 1))
        return name

    def query(self) -> str:
        # Further outermost forms of queries belong here.
        rarer = ("groups", "groups", "total", "totals", "totals", "union", "let", "define", "function", "if")
        forms = ("select",) * 10 + rarer
        match self.pick(forms):
            case "select":
                return self.select(Scope(), self.deepest, ordered=30)[0]
            case "groups":
                return self.groups()
            case "total":
                return self.aggregate(self.pick(("long", "double", "ratio", "bool", "string")), Scope(), self.deepest)
            case "totals":
                return self.totals()
            case "union":
                return self.union()
            case "let":
                return self.let()
            case "define":
                text, item = self.select(Scope(), 1)
                name = self.define("defined", f"{{}} = {text}")
                inner = Scope((Place(name, Many(item), frozenset({name})),))
                return self.select(inner, 1)[0]
            case "function":
                return self.function()
            case _:
                condition = self.comparison(Scope(), 2, totals=True)
                then, otherwise = (self.aggregate("long", Scope(), 1) for _ in range(2))
                return f"if {condition} then {then} else {otherwise}"

    def groups(self) -> str:
        """Two or three group-bys, one over the other."""
        text, item = self.select(Scope(), self.deepest - 1, grouped=True, most=2)
        for _ in range(self.pick((1, 2, 2))):
            text, item = self.select(Scope(), 0, grouped=True, most=2, over=(f"({text})", item))
        return text

    def totals(self) -> str:
        values = [self.aggregate(self.pick(("long", "double", "ratio", "int")), Scope(), 1) for _ in range(2)]
        if self.chance(50):
            values.append(f"({self.aggregate('long', Scope(), 1)} + {self.aggregate('long', Scope(), 1)})")
        if self.chance(50):
            return f"<{', '.join(f'f{i}: {value}' for i, value in enumerate(values))}>"
        return f"({', '.join(values)})"

    def union(self) -> str:
        kinds = tuple(self.pick(("long", "int", "double", "string")) for _ in range(self.pick((1, 2))))
        sides = [f"({self.select(Scope(), 1, head=kinds)[0]})" for _ in range(2)]
        whole = " union ".join(sides)
        if self.chance(40):
            return whole
        if self.chance(30):
            return f"distinct({whole})"
        item = Atom(kinds[0]) if len(kinds) == 1 else tuple_of(*map(Atom, kinds))
        name = self.define("united", f"{{}} = {whole}")
        return self.select(Scope((Place(name, Many(item), frozenset({name})),)), 0)[0]

    def let(self) -> str:
        kind = self.pick(("long", "ratio", "double"))
        inner = Scope((Place("bound", Atom(kind), frozenset({"bound"})),))
        return f"let bound = {self.aggregate(kind, Scope(), 1)} in {self.select(inner, 1)[0]}"

    def function(self) -> str:
        """A function or macro, and a query that calls it once."""
        kind = self.pick(NUMBERS)
        body = self.scalar(kind, Scope((Place("arg", Atom(kind), frozenset({"arg"})),)), 0)
        stream = self.pick(("X", "Y"))
        scope = Scope().bind("v", SHAPES[stream])
        argument = self.pick(scope.atoms(*NARROWER[kind]))
        if self.chance(50):
            name = self.define("f", f"macro {{}}(arg) {{ {body} }}")
        else:
            name = self.define("f", f"function {{}}(arg: {kind}): {kind} {{ ({body}) as {kind} }}")
        called = f"{name}({argument.text} + {self.scalar(kind, scope, 0)})"
        head = f"(k, {self.pick(('sum', 'max', 'count'))}({called}))"
        key = self.pick(scope.atoms(*NUMBERS)).text
        select = f"select {head} from v in {stream} group by k: {key}"
        if self.chance(50):
            select = f"select {called} from v in {stream}"
        return select

    # --- select -----------------------------------------------------------------------------------------------------

    def select(
        self,
        outer: Scope,
        depth: int,
        *,
        head: tuple[str, ...] | None = None,
        grouped: bool | None = None,
        ordered: int = 0,
        most: int = 3,
        correlated: bool = False,
        over: tuple[str, Shape] | None = None,
    ) -> tuple[str, Shape]:
        """A select and the shape of its elements.

        `head` asks for a scalar or a tuple of the given kinds, `over` gives the source of the first generator.
        """
        generators, scope, own = self.generators(outer, depth, most, over)
        where = self.where(scope, [names for _, names in generators], depth, correlated)
        clauses = f"from {', '.join(text for text, _ in generators)}"
        if where:
            clauses += f" where {' and '.join(where)}"
        if grouped or (grouped is None and self.chance(40)):
            keys, scope = self.group_by(outer, scope, own)
            clauses += f" group by {keys}"
            if self.chance(25):
                clauses += f" having {self.condition(scope, depth)}"
        text, shape = self.head(scope, depth, head)
        order = self.order_by(scope, depth) if ordered and self.chance(ordered) else ""
        distinct = "distinct " if self.chance(12) else ""
        if distinct and order:
            # Of equal values one is left, so the order depends on the selected value alone.
            is_one = isinstance(shape, Atom) and shape.kind in BASIC
            limit = order[order.index(" limit ") :] if " limit " in order else ""
            key = f"abs({text})" if text.isdigit() else f"({text})"
            order = f" order by {self.pick((key, f'{key} desc', f'inv({key})'))}{limit}" if is_one else ""
        return f"select {distinct}{text} {clauses}{order}", shape

    def generators(
        self, outer: Scope, depth: int, most: int, over: tuple[str, Shape] | None = None
    ) -> tuple[list[tuple[str, set[str]]], Scope, dict[str, Shape]]:
        """Generators with the variables that each binds, the scope inside, and all variables with their shapes."""
        generators, scope = [], outer
        own: dict[str, Shape] = {}
        for n in range(self.pick((1, 1, 2, 2, 3, 4)[: 2 * most - 1 + (most == 3)])):
            source, item = over if over is not None and n == 0 else self.source(scope, own, depth)
            before = set(own)
            pattern, scope = self.pattern(item, scope, own)
            generators.append((f"{pattern} in {source}", set(own) - before))
        return generators, scope, own

    def source(self, scope: Scope, own: Mapping[str, Shape], depth: int) -> tuple[str, Shape]:
        bags = scope.bags()
        own_bags = [place for place in bags if place.roots & set(own)]
        if bags and self.chance(30):
            place = self.pick(own_bags or bags)
            assert isinstance(place.shape, Many)
            return place.text, place.shape.item
        if depth and self.chance(20):
            text, item = self.select(scope, depth - 1, ordered=25, most=2)
            return f"({text})", item
        if self.chance(3):
            return "{0, 1, 2}", INT
        name = self.pick(tuple(SHAPES))
        return name, SHAPES[name]

    def pattern(self, item: Shape, scope: Scope, own: dict[str, Shape]) -> tuple[str, Scope]:
        """A pattern and the scope with its variables, which are added to `own`."""
        if isinstance(item, Parts) and self.chance(30):
            texts = []
            for name, part in item.fields:
                if item.record and self.chance(30):
                    continue
                text, scope = self.part_pattern(part, scope, own)
                texts.append(f"{name}: {text}" if item.record else text)
            if texts:
                left, right = "<>" if item.record else "[]" if _is_list(item) else "()"
                return f"{left}{', '.join(texts)}{right}", scope
        name = self.fresh(scope, own)
        own[name] = item
        return name, scope.bind(name, item)

    def part_pattern(self, part: Shape, scope: Scope, own: dict[str, Shape]) -> tuple[str, Scope]:
        if own and self.chance(15):
            return "*", scope
        if own and isinstance(part, Atom):
            again = [name for name, shape in own.items() if shape == part]
            if again and self.chance(15):
                return self.pick(again), scope
            if part.kind in ("int", "long") and self.chance(5):
                return "1", scope
        return self.pattern(part, scope, own)

    def where(self, scope: Scope, own_names: Sequence[set[str]], depth: int, correlated: bool) -> list[str]:
        """Conditions: equalities and inequalities between from-variables, and anything else."""
        conditions = []
        for i, names in enumerate(own_names):
            earlier = set().union(*own_names[:i])
            if earlier and (len(own_names) > 3 or self.chance(60)):
                conditions += self.link(scope, names, earlier)
        inner = set().union(*own_names)
        outside = {name for place in scope.places for name in place.roots} - inner
        if correlated and outside and self.chance(75):
            conditions += self.link(scope, inner, outside)
        if self.chance(25):
            conditions.append(self.condition(scope, depth))
        return conditions

    def link(self, scope: Scope, left: set[str], right: set[str]) -> list[str]:
        """A condition between two sets of variables: mostly an equality, sometimes of tuples, sometimes a band."""
        pairs = [
            (a.text, b.text)
            for a in scope.atoms(*BASIC)
            for b in scope.atoms(*BASIC)
            if a.roots <= left and b.roots <= right and _comparable(a, b)
        ]
        whole = [
            (a.text, b.text)
            for a in scope.places
            for b in scope.places
            if not isinstance(a.shape, Atom) and a.shape == b.shape and a.roots <= left and b.roots <= right
        ]
        if whole and (not pairs or self.chance(50)):
            a, b = self.pick(whole)
            return [f"{a} = {b}"]
        if not pairs:
            return []
        a, b = self.pick(pairs)
        match self.pick(("=",) * 8 + ("(,)", "+", "<", ">=", "<>", "<=")):
            case "(,)":
                c, d = self.pick(pairs)
                return [f"({a}, {c}) = ({b}, {d})"]
            case "+" if any(place.text == a for place in scope.atoms(*NUMBERS)):
                return [f"{a} + 1 = {b}"]
            case "+":
                return [f"{b} = {a}"]
            case op:
                return [f"{a} {op} {b}"]

    def group_by(self, outer: Scope, scope: Scope, own: dict[str, Shape]) -> tuple[str, Scope]:
        """The keys and the scope after them: keys, lifted from-variables, `partition`."""
        names = [name for name, shape in own.items() if isinstance(shape, Atom) and _has(scope, name)]
        inner = [place for place in scope.places if place.roots & set(own) and isinstance(place.shape, Atom)]
        bags = [place for place in scope.bags() if place.roots & set(own)]
        # A variable that is its own key is not the bag of its values.
        parts = [place for place in scope.places if place.roots & set(own) and not place.text.isidentifier()]
        whole = [place for place in parts if not isinstance(place.shape, Atom)]
        mode = self.pick(("expr", "named", "named", "two", "tuple", "names" if names else "expr", "mixed"))
        if not inner or (bags and self.chance(2)):
            inner, mode = bags, "named"
        elif whole and self.chance(8):
            inner, mode = whole, "named"
        # All rows are one group, also if there is nothing else to group by.
        if self.chance(6) or not inner:
            mode = "unit"
        chosen = [self.key(self.pick(inner)) for _ in range(2 if inner else 0)]
        if mode == "named" and self.chance(8):
            chosen[0] = self.list_key(chosen[0], inner)
        labels = [self.fresh(scope if self.chance(30) else Scope(), {}, "k") for _ in range(2)]
        if labels[0] == labels[1] and mode != "unit":
            mode = "named"
        after = _after_group(outer, scope, own)
        bound: dict[str, Shape] = {}
        match mode:
            case "expr":
                text, keys = chosen[0].text, chosen[:1]
            case "unit":
                text, keys, bound = f"{labels[0]}: ()", [], {labels[0]: tuple_of()}
            case "named":
                text, keys, bound = f"{labels[0]}: {chosen[0].text}", chosen[:1], {labels[0]: chosen[0].shape}
            case "names":
                picked = list(dict.fromkeys(self.pick(names) for _ in range(2)))
                text = picked[0] if len(picked) == 1 else f"({', '.join(picked)})"
                keys, bound = [], {name: own[name] for name in picked}
            case "mixed":
                text, keys = f"{labels[0]}: {chosen[0].text}, {chosen[1].text}", chosen
                bound = {labels[0]: chosen[0].shape}
            case "tuple":
                text, keys = f"({labels[0]}, {labels[1]}): ({chosen[0].text}, {chosen[1].text})", []
                bound = {label: key.shape for label, key in zip(labels, chosen, strict=True)}
            case _:
                text, keys = (
                    ", ".join(f"{label}: {key.text}" for label, key in zip(labels, chosen, strict=True)),
                    chosen,
                )
                bound = {label: key.shape for label, key in zip(labels, chosen, strict=True)}
        # A key that is just a name is bound to that name.
        bound |= {key.text: key.shape for key in keys if key.text.isidentifier() and mode in ("expr", "mixed")}
        element = scope
        for name, shape in bound.items():
            after, element = after.bind(name, shape), element.bind(name, shape)
        # A key that is an expression stands for that expression, unless one of its variables is shadowed.
        after = after.add(*(key for key in keys if not key.roots & set(bound)))
        return text, attrs.evolve(after, element=element, grouped=frozenset(own) - frozenset(bound))

    def list_key(self, place: Place, others: Sequence[Place]) -> Place:
        """A list that begins with a key, of one element or two."""
        beside = self.pick((None, *(other for other in others if other.shape == place.shape)))
        keys = [place] if beside is None else [place, beside]
        roots = frozenset().union(*(key.roots for key in keys))
        text = f"[{', '.join(key.text for key in keys)}]"
        return Place(text, list_of(*(key.shape for key in keys)), roots)

    def key(self, place: Place) -> Place:
        if isinstance(place.shape, Atom) and place.shape.kind in NUMBERS and self.chance(15):
            return attrs.evolve(place, text=f"({place.text} * 2)")
        return place

    def head(self, scope: Scope, depth: int, wanted: tuple[str, ...] | None) -> tuple[str, Shape]:
        if wanted is not None:
            texts = [self.scalar(kind, scope, depth) for kind in wanted]
            if len(texts) == 1:
                return texts[0], Atom(wanted[0])
            return f"({', '.join(texts)})", tuple_of(*map(Atom, wanted))
        parts = [self.part(scope, depth) for _ in range(self.pick((1, 2, 2, 3)))]
        if len(parts) == 1:
            return parts[0]
        if self.chance(40):
            if self.chance(50):
                return self.items(parts)
            fields = {f"F{i}": part for i, part in enumerate(parts)}
            text = ", ".join(f"{name}: {value}" for name, (value, _) in fields.items())
            return f"<{text}>", record_of(**{name: shape for name, (_, shape) in fields.items()})
        return f"({', '.join(text for text, _ in parts)})", tuple_of(*(shape for _, shape in parts))

    def items(self, parts: Sequence[tuple[str, Shape]]) -> tuple[str, Shape]:
        """Several expressions, some with names, and the record that they make."""
        texts, fields = [], dict[str, Shape]()
        for place, (text, shape) in enumerate(parts, start=1):
            own = OWN_NAME.fullmatch(text)
            name = own[1] if own else f"_{place}"
            if name in fields or self.chance(30):
                name = f"F{place}"
                text = f"{name}: {text}"
            texts.append(text)
            fields[name] = shape
        return ", ".join(texts), record_of(**fields)

    def part(self, scope: Scope, depth: int) -> tuple[str, Shape]:
        """A part of a head: a scalar, a whole variable, a bag of the group, or a nested select."""
        if scope.places and self.chance(25):
            place = self.pick(scope.places)
            return place.text, place.shape
        if depth and self.chance(12):
            text, item = self.select(scope, depth - 1, most=2, correlated=True)
            return f"({text})", Many(item)
        kinds = [place.shape.kind for place in scope.atoms(*BASIC) if isinstance(place.shape, Atom)]
        kind = self.pick([*kinds, "long"])
        if scope.element is not None and self.chance(60):
            kind = self.pick(("long", "long", "double", "ratio", "int", "bool", "string"))
            return self.aggregate(kind, scope, depth), Atom(kind)
        return self.scalar(kind, scope, depth), Atom(kind)

    def order_by(self, scope: Scope, depth: int) -> str:
        keys = []
        for _ in range(self.pick((1, 1, 2))):
            kinds = [p.shape.kind for p in scope.atoms(*BASIC) if isinstance(p.shape, Atom)]
            key = self.scalar(self.pick([*kinds, "long"]), scope, min(depth, 1))
            key = f"abs({key})" if key.isdigit() else key  # a number alone means a place in the head
            keys.append(self.pick((key, f"{key} desc", f"{key} asc", f"inv({key})")))
        limit = f" limit {self.pick((2, 1, 3, 2, 4, 0))}" if self.chance(60) else ""
        return f" order by {', '.join(keys)}{limit}"

    # --- scalars ----------------------------------------------------------------------------------------------------

    def scalar(self, kind: str, scope: Scope, depth: int, size: int = 2) -> str:
        places = scope.atoms(kind)
        if places and (not size or self.chance(60)):
            return self.pick(places).text
        if (depth and self.chance(20)) or (scope.element is not None and self.chance(40)):
            return self.aggregate(kind, scope, depth)
        if size and self.chance(60):
            return self.compound(kind, scope, depth, size - 1)
        return self.literal(kind)

    def literal(self, kind: str) -> str:
        match kind:
            case "int":
                return self.pick(("1", "0", "2", "(-1)"))
            case "long":
                return self.pick(("(1 as long)", "(2 as long)"))
            case "double" | "ratio":
                return self.pick(("0.5", "1.0", "2.25"))
            case "string":
                return self.pick(('"a"', "'b'", '""'))
            case "date":
                return self.pick(('date("0001-01-01")', 'date("9999-12-31")'))
            case "float":
                return self.pick(("(0.5 as float)", "(1.0 as float)"))
            case "money":
                return self.pick(("(1.00 as decimal(12, 2))", "(0.50 as decimal(12, 2))"))
            case "timestamp":
                return self.pick(('timestamp("0001-01-01 00:00:00")', 'timestamp("2024-02-29 12:30:00")'))
            case _:
                return self.pick(("true", "false"))

    def compound(self, kind: str, scope: Scope, depth: int, size: int) -> str:
        def inner(k: str = kind) -> str:
            return self.scalar(k, scope, depth, size)

        if self.chance(15):
            return f"(if {self.comparison(scope, depth)} then {inner()} else {inner()})"
        match kind:
            case "int" | "long":
                other = inner(self.pick(NARROWER[kind]))
                forms = ("({a} + {b})", "({a} - {b})", "({a} * 2)", "(-{a})", "({a} mod 3)", "abs({a})", "({a} / 2)")
                return self.pick(forms).format(a=inner(), b=other)
            case "double":
                other = inner(self.pick(NARROWER[kind]))
                form = self.pick(("({a} + {b})", "({a} - {b})", "({a} * 0.5)", "({a} / 2.0)", "abs({a})"))
                return form.format(a=inner(), b=other)
            case "string":
                numbers = scope.atoms("int", "long")
                if numbers and self.chance(30):
                    return f"({self.pick(numbers).text} as string)"
                form = self.pick(("({a} + {b})", "upper({a})", "substring({a}, 0, 1)", "trim({a})"))
                return form.format(a=inner(), b=inner())
            case "bool":
                return f"({self.condition(scope, depth)})"
            case _:
                return inner()

    def condition(self, scope: Scope, depth: int, size: int = 2) -> str:
        if size and self.chance(40):
            a, b = (self.condition(scope, depth, size - 1) for _ in range(2))
            return self.pick((f"({a} and {b})", f"({a} or {b})", f"(not {a})"))
        places = scope.atoms("bool")
        if places and self.chance(20):
            return self.pick(places).text
        if depth and self.chance(20):
            text, _ = self.select(scope, depth - 1, most=2, correlated=True, grouped=self.chance(10))
            return self.pick((f"exists({text})", f"(not exists({text}))"))
        return self.comparison(scope, depth)

    def comparison(self, scope: Scope, depth: int, *, totals: bool = False) -> str:
        op = self.pick(("=", "<", ">", "<=", ">=", "<>"))
        places = scope.atoms(*BASIC)
        if totals or not places:
            kind = self.pick(("long", "double"))
            return f"({self.aggregate(kind, scope, depth)} {op} {self.literal(kind)})"
        bags = [(a, b) for a in scope.bags() for b in scope.bags() if a.shape == b.shape and a != b]
        if bags and self.chance(5):
            a, b = self.pick(bags)
            return f"({a.text} = {b.text})"
        place = self.pick(places)
        assert isinstance(place.shape, Atom)
        kind = place.shape.kind
        if self.chance(2):
            return f"({place.text} {op} (null as {BASIC[kind]}))"
        other = self.pick(NUMBERS) if kind in NUMBERS and self.chance(30) else kind
        return f"({place.text} {op} {self.scalar(other, scope, depth, 1)})"

    # --- aggregations -----------------------------------------------------------------------------------------------

    def aggregate(self, kind: str, scope: Scope, depth: int) -> str:
        """An aggregation whose value is of the given kind."""
        match kind:
            case "long":
                function, over = self.pick((("count", None), ("sum", "int"), ("sum", "long"), ("max", "long")))
            case "double":
                function, over = self.pick((("sum", "double"), ("sum", "float"), ("min", "double"), ("max", "double")))
            case "ratio":
                function, over = "avg", self.pick((*NUMBERS, "float"))
            case "money":
                form = self.pick(("min({})", "max({})", "(sum({}) as decimal(12, 2))"))
                return form.format(self.collection(kind, scope, depth))
            case "bool":
                function, over = self.pick((("all", "bool"), ("some", "bool"), ("exists", None)))
            case _:
                function, over = self.pick(("min", "max")), kind
        return f"{function}({self.collection(over, scope, depth)})"

    def collection(self, kind: str | None, scope: Scope, depth: int) -> str:
        """The collection of an aggregation: a bag in scope, an expression over the group, or a nested select."""
        if scope.element is not None and self.chance(60):
            found = self.over_group(kind, scope)
            if found is not None:
                return found
        bags = [p.text for p in scope.bags() if kind is None or p.shape == Many(Atom(kind))]
        if bags and self.chance(60):
            return self.pick(bags)
        if depth == 0 and kind is None:
            return self.pick(tuple(SHAPES))
        head = (self.pick(tuple(ATOMS)),) if kind is None else (kind,)
        return self.select(scope, max(depth - 1, 0), head=head, most=2, correlated=True)[0]

    def over_group(self, kind: str | None, scope: Scope) -> str | None:
        """An expression over the variables of one element of the group."""
        assert scope.element is not None
        kinds = (kind,) if kind is not None else tuple(BASIC)
        places = [place for place in scope.element.atoms(*kinds) if place.roots <= scope.grouped]
        if not places:
            return None
        place = self.pick(places)
        assert isinstance(place.shape, Atom)
        narrower = NARROWER.get(place.shape.kind, ())
        numbers = [p for p in scope.element.atoms(*narrower) if p.roots <= scope.grouped] + scope.atoms(*narrower)
        if numbers and self.chance(40):
            return f"{place.text} {self.pick(('+', '*', '-'))} {self.pick(numbers).text}"
        return place.text


def _comparable(a: Place, b: Place) -> bool:
    assert isinstance(a.shape, Atom)
    assert isinstance(b.shape, Atom)
    numbers = (*NUMBERS, "ratio")
    return a.shape == b.shape or (a.shape.kind in numbers and b.shape.kind in numbers)


def _has(scope: Scope, name: str) -> bool:
    return any(place.text == name for place in scope.places)


def _after_group(outer: Scope, scope: Scope, own: Mapping[str, Shape]) -> Scope:
    """The outer scope with every from-variable as the bag of its values, and `partition`."""
    after = attrs.evolve(outer, element=None).hide(*own)
    for name, shape in own.items():
        if _has(scope, name):
            after = after.bind(name, Many(shape))
    return after.bind("partition", Many(Parts(tuple(own.items()), record=True)))


def streams_of(text: str) -> tuple[str, ...]:
    """The streams that a generated query names."""
    return tuple(name for name in SHAPES if re.search(rf"\b{name}\b", text))

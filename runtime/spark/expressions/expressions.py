"""Scalar and nested-collection terms as Catalyst expressions, in SQL text.

Rows pass through Python only for calls that Catalyst has no form of (`python_udf.py`): a nested cMap becomes
`transform`, `filter` and `flatten`, a nested reduce `aggregate`, a record a struct. A bag or list is an array.
Expressions are built as text, since one call passes that to Spark as a whole, and Spark's errors quote it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

from mrql.algebra import functions as fn
from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.analysis.variables import bound_names, free_vars
from mrql.algebra.errors import InternalError, UserError
from mrql.algebra.evaluation.lookup import key_in_words
from mrql.algebra.evaluation.recursive_functions import calls_python, own_python_functions
from mrql.algebra.functions.function import resolved
from mrql.algebra.functions.operators import only_sql
from mrql.algebra.functions.recursive_data import Folding
from mrql.algebra.monoids import Aggregate, BagUnion, Fold, Keyed, ListAppend, ProductMonoid
from mrql.algebra.terms import (
    Cast,
    CMap,
    CoGroup,
    Empty,
    Get,
    GroupBy,
    If,
    Let,
    ListOf,
    Lit,
    Nth,
    OrderBy,
    Pattern,
    Prim,
    PTuple,
    Rec,
    Reduce,
    Repeat,
    Single,
    Stream,
    Take,
    Term,
    Tup,
    Union,
    Var,
    element_type,
    pair_type,
)
from mrql.algebra.types import Type
from mrql.runtime.spark.expressions import (
    decimal_sums,
    json_variant,
    number_text,
    recursive_data,
    running,
    sorting,
    xml,
)
from mrql.runtime.spark.expressions.casts import cast, cast_array, has_null
from mrql.runtime.spark.expressions.conditions import COMPARISONS, compared_sql, condition_sql, connective
from mrql.runtime.spark.expressions.grouping import KeyedArray, co_grouped_sql, grouped_sql, keys_sql
from mrql.runtime.spark.expressions.layout import Atom, Layout, Struct, bind, label, part, sql_type, to_sql
from mrql.runtime.spark.expressions.literals import literal_sql, place, value_sql
from mrql.runtime.spark.expressions.loops import repeat_sql
from mrql.runtime.spark.expressions.python_udf import constant, over_columns
from mrql.runtime.spark.expressions.reductions import folded_sql, reduced_sql

Environment = Mapping[str, Layout]


class Expressions:
    """Compiles terms; supplies the names of SQL lambda variables, so that none shadows another."""

    def __init__(self) -> None:
        self.counter = count()
        self.plain: dict[int, Term] = {}
        """The terms that are known to need no function in Python, by identity."""

    def fresh(self, base: str = "x") -> str:
        return f"{base}__v{next(self.counter)}"

    # --- scalars ------------------------------------------------------------------------------

    def value(self, term: Term, env: Environment) -> Layout:
        """The layout of a term's value over the columns in `env`."""
        if not isinstance(term, Tup | Rec) and (self.in_python(term) or any(own_python_functions(term))):
            return self.python(term, env)
        match term:
            case Var(name, _):
                return env[name]
            case Lit(value, t):
                return Atom(literal_sql(value, t), t, value is None)
            case Tup(items):
                parts = tuple((label(i), self.value(item, env)) for i, item in enumerate(items))
                return Struct(parts, term.type)
            case Rec(fields):
                return Struct(tuple((name, self.value(item, env)) for name, item in fields), term.type)
            case Nth(inner, index):
                return part(self.value(inner, env), label(index), term.type)
            case Get(Prim(Folding(makes=False) as function, (inner,), span=span), name):
                return Atom(
                    recursive_data.part_of(function, name, self.sql(inner, env), place(span), self.fresh), term.type
                )
            case Get(inner, name):
                return part(self.value(inner, env), name, term.type)
            case Prim():
                return self.prim(term, env)
            case Cast(inner, t) if inner.type == ty.ANY != t:
                return Atom(json_variant.taken_as(self.variant(inner, env), t, place(term.span), self.fresh), t)
            case Cast(inner, t):
                return cast(self.value(inner, env), inner.type, t, place(term.span))
            case If():
                return self.choice(term, env)
            case Let(pattern, value, body):
                return self.value(body, {**env, **bind(pattern, self.value(value, env))})
            case Reduce(Aggregate() as monoid, source):
                return Atom(reduced_sql(self, monoid, term.type, source, env), term.type)
            case Reduce(Fold() as fold, source):
                return Atom(folded_sql(self, fold, self.array(source, env)), term.type)
            case Reduce(Keyed() | ProductMonoid() as monoid):
                raise InternalError("expressions", f"a reduction by {monoid} inside a function")
            case Repeat():
                return Atom(repeat_sql(self, term, env), term.type)
            case _:
                return Atom(self.array(term, env), term.type, False)

    def in_python(self, term: Term) -> bool:
        """Whether a term has a call, other than a constant one, that Catalyst has no form of."""
        if id(term) in self.plain:
            return False
        if calls_python(term):
            return True
        for part_of in subterms(term):
            self.plain[id(part_of)] = part_of
        return False

    def python(self, term: Term, env: Environment) -> Layout:
        """The value of a term with such a call: a function in Python over the columns that it reads, or a constant."""
        known = constant(term)
        if known is not None:
            return Atom(value_sql(known[0], term.type), term.type, not ty.is_collection(term.type))
        name, columns = over_columns(term)
        given = ", ".join(self.sql(column, env) for column in columns) or "true"
        return Atom(f"{name}({given})", term.type)

    def sql(self, term: Term, env: Environment) -> str:
        return to_sql(self.value(term, env))

    def variant(self, term: Term, env: Environment) -> str:
        """A JSON value as a VARIANT; a path of members is followed without texts in between."""
        match term:
            case Prim(function, (inner, Lit(name))) if function == fn.MEMBER:
                return json_variant.member(self.variant(inner, env), str(name))
            case _:
                return f"parse_json({self.sql(term, env)})"

    def choice(self, term: If, env: Environment) -> Layout:
        condition, key = condition_sql(self, term.condition, env), key_in_words(term)
        then, otherwise = (
            to_sql(cast(value, branch.type, term.type, ""))
            for branch, value in (
                (term.then, self.value(term.then, env)),
                (term.otherwise, self.value(term.otherwise, env) if key is None else self.looked_up(term, key, env)),
            )
        )
        return Atom(f"if({condition}, {then}, {otherwise})", term.type)

    def looked_up(self, lookup: If, key: Term, env: Environment) -> Layout:
        """The `only(…)` of a lookup `m[key]`; its error names the key."""
        term = lookup.otherwise
        if not isinstance(term, Prim) or self.in_python(term):
            return self.value(term, env)
        return Atom(only_sql(self.array(term.args[0], env), self.sql(key, env), place(term.span)), term.type)

    def prim(self, term: Prim, env: Environment) -> Layout:
        function = term.function
        if function == fn.TRACE:
            hint = "trace a whole collection, or use --engine reference"
            raise UserError("`trace` of what is different for each row prints nothing on Spark", term.span, hint)
        if function.name in COMPARISONS:
            return Atom(compared_sql(self, term, env, exact=True), ty.BOOL, False)
        if function == fn.HAS_NULL:
            return Atom(has_null(self.value(term.args[0], env)), ty.BOOL, False)
        if function == fn.IS_NULL:
            value = self.value(term.args[0], env)
            missing = "false" if isinstance(value, Struct) else f"({to_sql(value)} IS NULL)"
            return Atom(missing, ty.BOOL, False)
        if not function.null_safe and any(arg.type == ty.NOTHING for arg in term.args):
            return Atom(f"CAST(NULL AS {sql_type(term.type)})", term.type)
        match term:
            case Prim(Folding(makes=True), (Rec(((_, Lit(str() as name)), *_) as fields),)):
                payload = self.sql(dict(fields)[name], env) if name in dict(fields) else None
                return Atom(recursive_data.made_by(name, payload, term.args[0].type, self.fresh), term.type, False)
            case Prim(Folding() as folding, (arg,)):
                return Atom(recursive_data.folded(folding, self.sql(arg, env), place(term.span), self.fresh), term.type)
        if function == fn.MEMBER:
            return Atom(json_variant.text(self.variant(term, env), self.fresh), ty.ANY)
        if function in (fn.AND, fn.OR):
            return connective(self, term, env)
        if function == fn.AT and (first := sorting.first_sql(self, term, env)) is not None:
            return Atom(first, term.type)
        found = resolved(function, tuple(arg.type for arg in term.args))
        assert found is not None, "a term was checked when its type was asked for"
        version, types, _ = found
        args = [to_sql(cast(self.value(a, env), a.type, t, "")) for a, t in zip(term.args, types, strict=True)]
        if function.name in xml.FUNCTIONS:
            return Atom(xml.FUNCTIONS[function.name](self.fresh, types[0], *args), term.type)
        if function in fn.DIGITS:
            made = decimal_sums.digits_sql(function, args[0], types[0])
            return Atom(f"CAST({made} AS {sql_type(term.type)})", term.type)
        if function in fn.RUNNING:
            return Atom(running.running_sql(function, types[0], args[0], self.fresh, place(term.span)), term.type)
        if function == fn.FUNCTIONS["round"] and version.sql is None:
            return Atom(number_text.rounded(args[0], f"CAST({args[1]} AS INT)", self.fresh), term.type)
        if version.sql is None:
            raise InternalError("expressions", f"{function.name} has no Catalyst form")
        made = version.sql(*args, place(term.span, of_ints=all(arg.type == ty.INT for arg in term.args)))
        if isinstance(term.type, ty.DecimalType):
            made = f"CAST({made} AS {place(term.span)}{sql_type(term.type)})"  # as it is, except for roundings
        return Atom(made, term.type)

    # --- collections as arrays ----------------------------------------------------------------

    def array(self, term: Term, env: Environment) -> str:
        """A collection as an array, never missing."""
        if self.in_python(term) or any(own_python_functions(term)):
            return f"coalesce({to_sql(self.python(term, env))}, CAST(array() AS {sql_type(term.type)}))"
        match term:
            case Empty(t):
                return f"CAST(array() AS {sql_type(t)})"
            case Single(item):
                return f"array({self.sql(item, env)})"
            case ListOf(items):
                return f"CAST(array({', '.join(self.sql(item, env) for item in items)}) AS {sql_type(term.type)})"
            case Union(left, right):
                sides = [cast_array(self.array(side, env), side.type, term.type) for side in (left, right)]
                return f"concat({sides[0]}, {sides[1]})"
            case CMap():
                return self.cmap(term, env)
            case GroupBy(source):
                return self.group_by(source, env)
            case CoGroup():
                return self.co_group(term, env)
            case OrderBy():
                return sorting.ordered_sql(self, term, env)
            case Take(n, source):
                return sorting.taken_sql(self.array(source, env), self.sql(n, env))
            case If(condition, then, otherwise):
                sides = [cast_array(self.array(side, env), side.type, term.type) for side in (then, otherwise)]
                return f"if({condition_sql(self, condition, env)}, {sides[0]}, {sides[1]})"
            case Let(pattern, value, body):
                return self.array(body, {**env, **bind(pattern, self.value(value, env))})
            case Reduce(BagUnion() | ListAppend(), source):
                return self.array(source, env)
            case Stream(name, _):
                raise InternalError("expressions", f"the source {name} inside a function")
            case _:
                given = self.value(term, env)
                missing = isinstance(given, Atom) and given.missing
                empty = f"CAST(array() AS {sql_type(term.type)})"
                return f"coalesce({to_sql(given)}, {empty})" if missing else to_sql(given)

    def cmap(self, term: CMap, env: Environment) -> str:
        body = term.function.body
        source, param, item = self.elements(term, env)
        x = self.fresh()
        inner = {**env, **bind(param, Atom(x, item))}
        if isinstance(body, If) and isinstance(body.otherwise, Empty):
            y = self.fresh()
            guard_env = {**env, **bind(param, Atom(y, item))}
            source = f"filter({source}, {y} -> {condition_sql(self, body.condition, guard_env)})"
            body = body.then
        if isinstance(body, Single):
            return f"transform({source}, {x} -> {self.sql(body.item, inner)})"
        return f"flatten(transform({source}, {x} -> {self.array(body, inner)}))"

    def elements(self, term: CMap, env: Environment) -> tuple[str, Pattern, Type]:
        """The array that a cMap ranges over, with the pattern of its elements and their type.

        For a `distinct`, which does not use the groups, it is the array of the keys.
        """
        match term.source, term.function.param:
            case GroupBy(pairs), PTuple((key, group)) if not bound_names(group) & free_vars(term.function.body):
                key_type = pair_type(pairs)[0]
                return keys_sql(self, KeyedArray(self.array(pairs, env), key_type)), key, key_type
            case source, param:
                return self.array(source, env), param, element_type(source)

    def group_by(self, source: Term, env: Environment) -> str:
        return grouped_sql(self, KeyedArray(self.array(source, env), pair_type(source)[0]))

    def co_group(self, term: CoGroup, env: Environment) -> str:
        left, right = (KeyedArray(self.array(side, env), pair_type(side)[0]) for side in (term.left, term.right))
        return co_grouped_sql(self, left, right, pair_type(term)[0])

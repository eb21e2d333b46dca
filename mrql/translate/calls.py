"""Calls by name: of functions and macros, constructors, aggregations, and the library's scalar functions.

After `group by`, an aggregation also takes an expression over the elements of the group: `sum(x.price * y.rate)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from mrql import syntax
from mrql.algebra import functions as fn
from mrql.algebra import types as ty
from mrql.algebra.analysis.distinct import distinct
from mrql.algebra.analysis.missing import there
from mrql.algebra.errors import UserError
from mrql.algebra.functions import TRACE
from mrql.algebra.terms import Let, PVar, Single, Term, Var, element_type
from mrql.parser.includes import is_of_library
from mrql.parser.sql_hints import COUNT
from mrql.translate.builtin_aggregates import AGGREGATIONS, aggregate
from mrql.translate.coercion import castable, coerce, resolve, taken_as
from mrql.translate.collection_functions import DERIVED, check_arguments, derived
from mrql.translate.collection_terms import flattened, is_bag_of_collections
from mrql.translate.data_types import construct
from mrql.translate.inlining import call, named
from mrql.translate.json_values import as_collection
from mrql.translate.library import BUILT_IN, LIBRARY
from mrql.translate.lifted import bag_hint, lifted_hint
from mrql.translate.other_names import CASTS_HERE, HERE
from mrql.translate.python_imports import call as call_imported
from mrql.translate.recursive_functions import call as call_recursive
from mrql.translate.recursive_functions import group_of
from mrql.translate.scalar_functions import apply
from mrql.translate.scope import GroupedVariables, Scope, Thunk
from mrql.translate.user_aggregates import aggregated

WINDOWS = {function.name: function for function in fn.LIBRARY["Window functions"]}
LIST, PAIRS = "a list", "a list of pairs"

CASTS: dict[str, ty.Type] = {
    "toBool": ty.BOOL,
    "toInt": ty.INT,
    "toLong": ty.LONG,
    "toFloat": ty.FLOAT,
    "toDouble": ty.DOUBLE,
}
"""The functions of Apache MRQL for `e as t`."""


def call_named(expr: syntax.Call, scope: Scope) -> Term:
    """The term of `f(e, …)`, whatever `f` is.

    Raises: UserError where nothing has that name, or the arguments do not fit.
    """
    known = scope.globals
    if scope.lookup(expr.function) is not None and named(expr.function, scope) is not None:
        return call(expr, scope)
    if expr.function in known.constructors:
        args = [scope.translate(arg) for arg in expr.args]
        return construct(known.constructors[expr.function], args, expr.span)
    if expr.function in known.functions:
        return _expand_function(known.functions[expr.function], expr, scope)
    if expr.function in known.imported:
        return call_imported(known.imported[expr.function], [scope.translate(arg) for arg in expr.args], expr)
    if expr.function in known.macros:
        return _expand_macro(known.macros[expr.function], expr, scope)
    if expr.function == "distinct":
        return distinct(_one_collection(expr, scope), known.names)
    if expr.function in AGGREGATIONS or expr.function in known.aggregations:
        return _aggregation(expr, scope)
    if expr.function in DERIVED:
        return _derived(expr, scope)
    if expr.function in LIBRARY:
        args = [scope.translate(arg) for arg in expr.args]
        if expr.function == "flatten" and len(args) == 1 and is_bag_of_collections(args[0].type):
            return flattened(args[0], scope.globals.names, expr.span)
        if expr.function == "flatten" and len(args) == 1 and ty.is_collection(args[0].type):
            args = [there(args[0])]
        hint = _order_hint(expr, args) or lifted_hint(expr, args, scope) or _text_hint(expr, args)
        return apply(LIBRARY[expr.function], args, expr.span, shown=expr.function, hint=hint)
    if expr.function in CASTS:
        _check_arity(expr.function, 1, expr)
        term = scope.translate(expr.args[0])
        wanted = CASTS[expr.function]
        hint = lifted_hint(expr, [term], scope, lambda element: castable(element, wanted))
        return taken_as(term, wanted, expr.span, hint)
    if expr.function == "trace":
        return apply(TRACE, [scope.translate(arg) for arg in expr.args], expr.span)
    candidates = [
        *known.functions,
        *known.imported,
        *known.closures,
        *known.macros,
        *known.aggregations,
        *BUILT_IN,
        *CASTS,
        *(kind.value for kind in syntax.SourceKind),
    ]
    params = ", ".join(chr(ord("a") + place) for place, _ in enumerate(expr.args[:4]))
    own = f"one of your own is defined before: `macro {expr.function}({params}) {{ … }};`"
    further_down = f"`{expr.function}` is defined further down: move it before this"
    hidden = f"`{expr.function}` is a variable here, which hides the function: give one of them another name"
    cast = _cast_hint(expr) or HERE.get(expr.function.lower())
    elsewhere = further_down if expr.function in known.calls else cast
    elsewhere = hidden if expr.function in known.closures else elsewhere
    raise scope.unknown("function", expr.function, candidates, expr.span, elsewhere, own)


def _cast_hint(expr: syntax.Call) -> str | None:
    """The hint for a type that is called as a function of one value."""
    wanted = CASTS_HERE.get(expr.function.lower())
    if wanted is None or len(expr.args) != 1:
        return None
    (arg,) = expr.args
    alone = isinstance(arg, syntax.Name | syntax.Field | syntax.Nth | syntax.Call | syntax.StringLit | syntax.IntLit)
    written = arg.span.text if alone else f"({arg.span.text})"
    return f"here it is `{written} as {wanted}`"


def _expand_function(function: syntax.FunctionDef, expr: syntax.Call, scope: Scope) -> Term:
    """The body of a function, with the parameters bound to the arguments; one that calls itself stays a function."""
    _check_arity(function.name, len(function.params), expr)
    if group_of(function.name, scope.globals):
        args = [argument for _, argument in _arguments(function, expr, scope)]
        return call_recursive(function.name, args, expr.span, scope.globals)
    result = resolve(function.result, scope.globals)
    bindings: dict[str, Term | Thunk] = {}
    lets: list[tuple[PVar, Term]] = []
    for name, argument in _arguments(function, expr, scope):
        variable = PVar(scope.globals.names.fresh(name), argument.type)
        lets.append((variable, argument))
        bindings[name] = Var(variable.name, variable.type)
    body = scope.outermost(function.name, bindings).translate(function.body)
    term = coerce(body, result, function.body.span, f"the result of `{function.name}`")
    for variable, value in reversed(lets):
        term = Let(variable, value, term)
    return term


def _arguments(function: syntax.FunctionDef, expr: syntax.Call, scope: Scope) -> Iterator[tuple[str, Term]]:
    """The arguments of a call by the names of the parameters, coerced to their types."""
    for (name, written), arg in zip(function.params, expr.args, strict=True):
        t, term = resolve(written, scope.globals), scope.translate(arg)
        hint = bag_hint(arg, term, scope, partial(ty.fits, expected=t))
        yield name, coerce(term, t, arg.span, f"the argument `{name}` of `{function.name}`", hint=hint)


def _expand_macro(macro: syntax.MacroDef, expr: syntax.Call, scope: Scope) -> Term:
    """The body of a macro, with the parameters standing for the arguments' expressions in the scope of the call."""
    _check_arity(macro.name, len(macro.params), expr)
    if macro.name in scope.expanding:
        hint = "a function can call itself: its parameters have types"
        raise UserError(f"the macro `{macro.name}` stands in itself, and would never end", expr.span, hint)
    thunks = {name: Thunk(arg, scope) for name, arg in zip(macro.params, expr.args, strict=True)}
    with _said_of_the_call(expr):
        return scope.outermost(macro.name, thunks).translate(macro.body)


@contextmanager
def _said_of_the_call(expr: syntax.Call) -> Iterator[None]:
    """Moves an error in a macro that comes with mrql to its call, as the arguments must be wrong.

    Raises: UserError at the call.
    """
    try:
        yield
    except UserError as error:
        place = error.span
        if place is None or place.source is expr.span.source or not is_of_library(place.source):
            raise
        line = place.source.line_text(place.line).strip()
        hint = f"{Path(place.source.name).name} has, in line {place.line}: {line}"
        message = f"`{expr.function}` does not take what it is given: {error.message}"
        raise UserError(message, expr.span, hint) from None


def _check_arity(name: str, arity: int, expr: syntax.Call) -> None:
    if len(expr.args) != arity:
        takes = f"{arity} argument{'' if arity == 1 else 's'}"
        raise UserError(f"`{name}` takes {takes}, not {len(expr.args)}", expr.span)


def _aggregation(expr: syntax.Call, scope: Scope) -> Term:
    """An aggregation of a collection; in a select with `group by`, also of an expression over the group's elements."""
    if len(expr.args) != 1:
        raise _one_argument(expr)
    collection = _over_group(expr.args[0], scope, expr.function)
    if collection is None:
        collection = _one_collection(expr, scope)
    defined = scope.globals.aggregations.get(expr.function)
    if defined is not None:
        return aggregated(defined, collection, scope, expr.span)
    return aggregate(expr.function, collection, scope.globals.names, expr.span)


def _derived(expr: syntax.Call, scope: Scope) -> Term:
    """A function of a collection; in a select with `group by`, also of expressions over the group's elements."""
    args = expr.args
    if DERIVED[expr.function].pairs and len(args) == 2 and scope.group is not None:
        pair = syntax.TupleExpr(args, args[0].span.to(args[1].span))
        values = _over_group(pair, scope, expr.function)
        if values is not None:
            return derived(expr, values, (), scope.globals.names)
    check_arguments(expr)
    first, *others = args
    collection = _over_group(first, scope, expr.function)
    if collection is None:
        collection = _collection_term(first, scope, expr.function)
    return derived(expr, collection, [scope.translate(other) for other in others], scope.globals.names)


def _over_group(arg: syntax.Expr, scope: Scope, function: str) -> Term | None:
    """`sum(x.price * y.rate)` after `group by`: the values of the expression over the group's elements.

    None where the expression does not use the group, or is a collection by itself (`sum(x.price)` is a projected bag).

    Raises: UserError where it has no value for an element.
    """
    group = scope.group
    if group is None or not (syntax.names_in(arg) & group.names):
        return None
    try:
        values = group.over(scope, lambda element: Single(element.translate(arg)))
    except UserError:
        whole = _as_it_stands(arg, scope)
        if whole is None:
            raise
        if ty.is_collection(whole):
            return None
        hint = f"`{arg.span.text}` is one value in each group; of all groups it is `{function}(select … group by …)`"
        raise UserError(f"`{function}` takes a collection, not {whole}", arg.span, hint) from None
    return None if ty.is_collection(element_type(values)) else values


def _as_it_stands(arg: syntax.Expr, scope: Scope) -> ty.Type | None:
    """The type of an expression over the group as a whole, if it has one."""
    try:
        return as_collection(scope.translate(arg)).type
    except UserError:
        return None


def _one_collection(expr: syntax.Call, scope: Scope) -> Term:
    if len(expr.args) != 1:
        raise _one_argument(expr)
    return _collection_term(expr.args[0], scope, expr.function)


def _one_argument(expr: syntax.Call) -> UserError:
    if expr.function == "count" and not expr.args:
        return UserError("`count` takes one collection, not 0 arguments", expr.span, COUNT)
    of_values = {"min": "least", "max": "greatest"}.get(expr.function)
    hint = f"`{of_values}(a, b)` is of values" if of_values else None
    return UserError(f"`{expr.function}` takes one collection, not {len(expr.args)} arguments", expr.span, hint)


def _collection_term(arg: syntax.Expr, scope: Scope, function: str = "this") -> Term:
    term = as_collection(scope.translate(arg))
    if not ty.is_collection(term.type):
        raise UserError(f"`{function}` takes a collection, not {term.type}", arg.span, _row_hint(arg, scope, function))
    return term


def _row_hint(arg: syntax.Expr, scope: Scope, function: str) -> str | None:
    """The hint for an aggregation of what is one value: of a row, without a `group by`, or of a group."""
    if function == "count" and isinstance(arg, syntax.IntLit):
        return COUNT
    if not syntax.names_in(arg) & set(scope.variables):
        return None
    if scope.group is not None:
        return _key_hint(arg, scope, scope.group, function)
    written = arg.span.text
    return f"without a `group by` that is one value; of all rows it is `{function}(select {written} from …)`"


def _key_hint(arg: syntax.Expr, scope: Scope, group: GroupedVariables, function: str) -> str | None:
    """The hint for an aggregation of what is one value in each group, as it depends on the keys only."""
    if not group.names or not syntax.names_in(arg) & set(scope.variables) <= group.keys:
        return None
    one = f"`{arg.span.text}` is one value in each group"
    if function == "count":
        return f"{one}: `count({min(group.names)})` counts its rows"
    differing = " or ".join(f"`{name}`" for name in sorted(group.names))
    return f"{one}; what is made of {differing} differs from row to row"


def _text_hint(expr: syntax.Call, args: Sequence[Term]) -> str | None:
    """The hint for a function of strings with an argument of another type."""
    if LIBRARY[expr.function].takes not in ("strings", "two strings", "three strings"):
        return None
    others = (arg for arg, term in zip(expr.args, args, strict=True) if term.type not in (ty.STRING, ty.NOTHING))
    other = next(others, None)
    if other is None or ty.is_collection(args[expr.args.index(other)].type):
        return None
    return f"`({other.span.text} as string)` is a text"


def _order_hint(expr: syntax.Call, args: Sequence[Term]) -> str | None:
    """The hint for a function of ordered rows that is given a bag, or a collection of rows of another form."""
    name, t = expr.function, args[0].type if args else None
    if name in WINDOWS and (t is None or ty.is_collection(t)):
        takes = WINDOWS[name].takes
        of_pairs = takes.startswith(PAIRS)
        rows = f"select {'(x, x.A)' if of_pairs else 'x'} from x in e order by x.A"
        order = "a bag has no order: " if isinstance(t, ty.BagType) else ""
        return f"{order}`{name}({rows if of_pairs or takes == LIST else f'({rows}), 2'})`"
    if name not in ("first", "last") or len(args) != 1 or not isinstance(t, ty.BagType):
        return None
    by = "min_by" if name == "first" else "max_by"
    return f"a bag has no order: `{name}(select x from x in e order by x)`, or `{by}(x, key)` of a group"

"""Functions that call themselves, directly or through others.

A function that does not call itself is replaced by its body at each call. One that does stays a function: a body over
its parameters, which calls it. Functions that call each other form a group, and are typed together as soon as the last
of them is defined.

The streams and tables that a body reads become parameters of all functions of the group, so that a body is a term over
its parameters alone:

    function below(n: long): {long} { if n = 0 then {} else S union below(n - 1) }
    below(3)   =   below'(3, S),    below'(n, s) = if n = 0 then {} else s ⊎ below'(n - 1, s)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from mrql import syntax
from mrql.algebra import functions as fn
from mrql.algebra.analysis.traversal import bottom_up, subterms
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.evaluation.recursive_functions import Definition, Recursive, recursive, sign
from mrql.algebra.notation.printer import show
from mrql.algebra.notation.type_printer import show_type
from mrql.algebra.span import Span
from mrql.algebra.terms import Prim, PVar, Stream, Term, Var
from mrql.translate.coercion import coerce, resolve
from mrql.translate.scope import Globals, Scope


def foresee(statements: Iterable[syntax.Statement], known: Globals) -> None:
    """Notes what the functions of a file call before its statements are translated: the first may call the last."""
    for statement in statements:
        match statement:
            case syntax.FunctionDef(name, params, _, body):
                known.calls[name] = _calls(body) - {param for param, _ in params}
            case syntax.MacroDef(name, names, body):
                known.calls[name] = _calls(body) - {*names}
            case syntax.ValueDef(name, syntax.Lambda(params, _, body)):
                bound = {each.name for pattern, _ in params for each in syntax.variables(pattern)}
                known.calls[name] = _calls(body) - bound


def group_of(name: str, known: Globals) -> frozenset[str]:
    """The functions that are mutually recursive with this one, with itself; none where it does not call itself."""
    below = _reached(name, known.calls)
    if name not in below:
        return frozenset()
    return frozenset(other for other in below if name in _reached(other, known.calls))


def written_within(name: str, known: Globals) -> bool:
    """Whether a named lambda, which is replaced by its body, contains a call of itself, directly or through others."""
    inlined = {other: calls for other, calls in known.calls.items() if other not in known.functions}
    return name in _reached(name, inlined)


def _calls(node: syntax.Node) -> frozenset[str]:
    """The names of functions that may be called in an expression."""
    calls = (each.function for each in syntax.nodes(node) if isinstance(each, syntax.Call))
    return syntax.names_in(node).union(calls)


def _reached(name: str, calls: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The functions that a function calls, directly or through others."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        for called in calls.get(waiting.pop(), frozenset()) & calls.keys():
            if called not in found:
                found.add(called)
                waiting.append(called)
    return frozenset(found)


def define(group: frozenset[str], known: Globals) -> None:
    """Types the functions of a group, once all of them are defined.

    Raises: UserError where a body has no type, or another one than the declared result.
    """
    statements = [known.functions[name] for name in sorted(group) if name in known.functions]
    if any(name in known.calls and name not in known.functions and name not in _others(known) for name in group):
        return
    for statement in statements:
        known.recursive[statement.name] = recursive(_declared(statement, known), _shown(statement.name))
    for statement in statements:
        definition = known.recursive[statement.name].definition
        params = {name: _variable(param) for (name, _), param in zip(statement.params, definition.params, strict=True)}
        body = Scope(known, params).translate(statement.body)
        what = f"the result of `{statement.name}`"
        definition.body = coerce(body, definition.result, statement.body.span, what)
    made = [known.recursive[statement.name].definition for statement in statements]
    sources = _sources(made)
    if sources:
        _with_sources(made, sources, known)
    sign((known.recursive[statement.name].definition for statement in statements), _written)


def _written(definition: Definition) -> str:
    """The text of a function that distinguishes it from others: a checkpoint has a digest of it."""
    params = ", ".join(f"{param.name}: {show_type(param.type)}" for param in definition.params)
    return f"{definition.name}({params}): {show_type(definition.result)} = {show(definition.term)}"


def _others(known: Globals) -> set[str]:
    return {*known.macros, *known.closures}


def _declared(statement: syntax.FunctionDef, known: Globals) -> Definition:
    params = tuple(PVar(known.names.fresh(name), resolve(t, known)) for name, t in statement.params)
    return Definition(statement.name, params, resolve(statement.result, known), evaluate)


def _shown(name: str) -> str:
    """The name of a function in terms, which differs from the names of the library."""
    return f"{name}'" if name in fn.FUNCTIONS else name


def _variable(param: PVar) -> Var:
    return Var(param.name, param.type)


def _sources(definitions: Iterable[Definition]) -> dict[str, Stream]:
    return {t.name: t for found in definitions for t in subterms(found.term) if isinstance(t, Stream)}


def _with_sources(definitions: Iterable[Definition], sources: Mapping[str, Stream], known: Globals) -> None:
    """Turns the sources that functions read into further parameters of them."""
    more = {name: PVar(known.names.fresh(name), source.type) for name, source in sorted(sources.items())}
    for found in definitions:
        shown = known.recursive[found.name].name
        known.sources[found.name] = tuple(sources[name] for name in more)
        wider = Definition(found.name, (*found.params, *more.values()), found.result, found.evaluate)
        known.recursive[found.name] = recursive(wider, shown)

    def rule(term: Term) -> Term:
        match term:
            case Stream(name):
                return _variable(more[name])
            case Prim(Recursive() as function, args) if function.definition in definitions:
                given = (*args, *map(_variable, more.values()))
                return attrs.evolve(term, function=known.recursive[function.definition.name], args=given)
            case _:
                return term

    for found in definitions:
        known.recursive[found.name].definition.body = bottom_up(found.term, rule)


def call(name: str, args: Iterable[Term], span: Span, known: Globals) -> Term:
    """A call of a function that calls itself.

    Raises: UserError where a function that it needs is not defined yet.
    """
    function = known.recursive.get(name)
    if function is None:
        missing = sorted(group_of(name, known) - known.functions.keys() - _others(known))
        raise UserError(f"`{name}` calls `{missing[0]}`, which is defined further down", span)
    return Prim(function, (*args, *known.sources.get(name, ())), span=span)

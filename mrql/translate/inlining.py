"""Inlining of functions that are named, passed to other functions, returned, or called where they are written.

A function is no value of the algebra: the translation eliminates it. A call becomes the function's body, with the
parameters bound to the arguments, in the scope that the function was written in:

    (\\(x, y). e)(a, b)   =   let x = a in let y = b in e

so that a function can be called with functions and can return one. The function of a call is found by following names
and calls to where it is written; no condition chooses between two functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mrql import syntax
from mrql.algebra.errors import UserError
from mrql.algebra.span import Source, Span
from mrql.algebra.terms import Let, Term
from mrql.translate.coercion import coerce, resolve
from mrql.translate.method_calls import method_hint
from mrql.translate.patterns import take_apart
from mrql.translate.recursive_functions import group_of
from mrql.translate.scope import Closure, Scope, Thunk

NOWHERE = Span(Source("", ""), 0, 0)

NO_FUNCTION = "this is called, and is no function"

Use = Callable[[Closure, Scope], Term]
"""Makes a term from a function, in a scope in which its parameters are bound."""


def is_function(expr: syntax.Expr, scope: Scope) -> bool:
    """Whether an expression stands for a function."""
    return _body(expr, scope) is not None


def closure_of(expr: syntax.Expr, scope: Scope, message: str) -> Closure:
    """The function that a `\\` or a name stands for.

    Raises: UserError, with the message, where it is neither.
    """
    match expr:
        case syntax.Lambda(params, result, body):
            return Closure(params, result, body, scope)
        case syntax.Name(name) if (found := named(name, scope)) is not None:
            return found
        case _:
            raise UserError(message, expr.span)


def with_function(expr: syntax.Expr, scope: Scope, use: Callable[[Closure], Term]) -> Term:
    """The term that `use` makes of the function that an expression stands for.

    Raises: UserError where it stands for a value.
    """
    match expr:
        case syntax.Call() | syntax.Apply() if is_function(expr, scope):
            return _called(expr, scope, lambda called, inner: with_function(called.body, inner, use))
        case _:
            return use(closure_of(expr, scope, NO_FUNCTION))


def named(name: str, scope: Scope) -> Closure | None:
    """The function that a name stands for in a scope: one that is bound there, or a definition."""
    match scope.lookup(name):
        case Closure() as closure:
            return closure
        case Thunk(syntax.Lambda(params, result, body), outer):
            return Closure(params, result, body, outer)
        case Thunk(syntax.Name(other), outer):
            return named(other, outer)
        case None if name in scope.globals.functions:
            defined = scope.globals.functions[name]
            params = tuple((syntax.VarPattern(param, t.span), t) for param, t in defined.params)
            if group_of(name, scope.globals):
                args = tuple(syntax.Name(param, t.span) for param, t in defined.params)
                again = syntax.Call(name, args, defined.span)
                return Closure(params, defined.result, again, Scope(scope.globals))
            return Closure(params, defined.result, defined.body, Scope(scope.globals, expanding=(name,)))
        case None if name in scope.globals.imported:
            wanted = scope.globals.imported[name].signature.params
            names = tuple(f"argument {i + 1}" for i in range(len(wanted)))  # no name of a query has a blank
            patterns = tuple((syntax.VarPattern(param, NOWHERE), None) for param in names)
            args = tuple(syntax.Name(param, NOWHERE) for param in names)
            return Closure(patterns, None, syntax.Call(name, args, NOWHERE), Scope(scope.globals))
        case _:
            return None


def call(expr: syntax.Call | syntax.Apply, scope: Scope) -> Term:
    """The term of a call.

    Raises: UserError where the arguments do not fit the function.
    """
    return _called(expr, scope, _value)


def apply(closure: Closure, args: Sequence[Term], span: Span) -> Term:
    """The term of a function applied to terms.

    Raises: UserError where they do not fit the function.
    """
    _check_arity(closure, len(args), span)
    scope = closure.scope
    lets = []
    for (pattern, written), arg in zip(closure.params, args, strict=True):
        let, scope = _let(pattern, written, arg, span, scope)
        lets.append(let)
    term = _value(closure, scope)
    for let in reversed(lets):
        term = let(term)
    return term


def _body(expr: syntax.Expr, scope: Scope) -> syntax.Expr | None:
    match expr:
        case syntax.Lambda(_, _, body):
            return body
        case syntax.Name(name):
            found = named(name, scope)
            return None if found is None else found.body
        case syntax.Call(name):
            return _returned(_body(syntax.Name(name, expr.span), scope))
        case syntax.Apply(function):
            return _returned(_body(function, scope))
        case _:
            return None


def _returned(body: syntax.Expr | None) -> syntax.Expr | None:
    return body.body if isinstance(body, syntax.Lambda) else None


def _called(expr: syntax.Call | syntax.Apply, scope: Scope, use: Use) -> Term:
    callee = syntax.Name(expr.function, expr.span) if isinstance(expr, syntax.Call) else expr.function
    if isinstance(callee, syntax.Field):
        raise UserError(NO_FUNCTION, callee.span, method_hint(callee.name, callee.expr, expr.args, scope))

    def with_arguments(closure: Closure) -> Term:
        _check_arity(closure, len(expr.args), expr.span)
        return _bound(closure, closure.scope, tuple(zip(closure.params, expr.args, strict=True)), scope, use)

    with scope.globals.effort.call(expr.span):
        return with_function(callee, scope, with_arguments)


_Parameter = tuple[syntax.Pattern, syntax.TypeExpr | None]


def _bound(
    closure: Closure, inner: Scope, args: Sequence[tuple[_Parameter, syntax.Expr]], outer: Scope, use: Use
) -> Term:
    """`let p = e in … body`, where an argument that is a function is bound in the scope, without a `let`."""
    if not args:
        return use(closure, inner)
    ((pattern, written), arg), *rest = args
    if is_function(arg, outer):
        if not isinstance(pattern, syntax.VarPattern):
            raise UserError("a function has no parts: its parameter is a name", pattern.span)
        name = pattern.name
        return with_function(arg, outer, lambda given: _bound(closure, inner.bind({name: given}), rest, outer, use))
    let, scope = _let(pattern, written, outer.translate(arg), arg.span, inner)
    return let(_bound(closure, scope, rest, outer, use))


def _let(
    pattern: syntax.Pattern, written: syntax.TypeExpr | None, value: Term, span: Span, scope: Scope
) -> tuple[Callable[[Term], Term], Scope]:
    """A function that puts `let p = e in` before a body, and the scope of the body."""
    if written is not None:
        value = coerce(value, resolve(written, scope.globals), span, "the argument")
    algebraic, names = take_apart(pattern, value.type, scope.globals)
    return lambda body: Let(algebraic, value, body), scope.bind(names)


def _value(closure: Closure, scope: Scope) -> Term:
    term = scope.translate(closure.body)
    if closure.result is None:
        return term
    return coerce(term, resolve(closure.result, scope.globals), closure.body.span, "the result of the function")


def _check_arity(closure: Closure, given: int, span: Span) -> None:
    if len(closure.params) != given:
        takes = f"{len(closure.params)} argument{'' if len(closure.params) == 1 else 's'}"
        raise UserError(f"this function takes {takes}, not {given}", span)

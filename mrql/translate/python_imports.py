"""`import` of Python callables, and `parser`s, which are callables from lines to rows.

    import "stats.robust:median" as med({double}): double;
    import clean(string): string, words from "texts";
    import "texts";

A module is looked for beside the query file, and then wherever Python looks. A type that is not written is taken from
the annotations. Importing a module runs it; its callables are called only for rows.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.python_functions import Callee, Imported, NoModule, NotFound, imported, module_of
from mrql.algebra.functions.signatures import Exact
from mrql.algebra.span import Span
from mrql.algebra.terms import CMap, Lambda, Prim, PVar, Term, Var
from mrql.algebra.types import Type
from mrql.translate.coercion import coerce, resolve
from mrql.translate.scope import Globals

WHERE = "modules are looked for beside the query file, and then wherever Python looks"


def must_be_allowed(what: str, span: Span, known: Globals) -> None:
    """Checks that the query may name Python code, which runs with all rights of the user.

    Raises: UserError where it may not.
    """
    if not known.may_import:
        hint = "with --allow-import it does; say so of files that you trust"
        raise UserError(f"{what} runs code in Python, which this command does not", span, hint)


def imports(statement: syntax.Import, known: Globals) -> Iterator[Imported]:
    """The functions that a statement imports.

    Raises: UserError where a module or a callable is not found, or its type is neither written nor annotated.
    """
    if statement.functions:
        for function in statement.functions:
            yield _imported(function, statement, known)
        return
    directory = _directory(statement.span)
    module = _found(lambda: module_of(statement.module, directory), statement.span)
    listed = getattr(module, "__all__", None)
    names = listed if listed is not None else _public(module)
    for name in names:
        written = syntax.ImportedFunction(name, name, None, None, statement.span)
        if listed is not None or _is_annotated(getattr(module, name)):
            yield _imported(written, statement, known)
    if not names:
        hint = f'import f(string): long from "{statement.module}"; takes one without annotations'
        raise UserError(f"the module `{statement.module}` declares no functions", statement.span, hint)


def _public(module: types.ModuleType) -> list[str]:
    return [
        name
        for name, found in vars(module).items()
        if not name.startswith("_") and inspect.isfunction(found) and found.__module__ == module.__name__
    ]


def _imported(function: syntax.ImportedFunction, statement: syntax.Import, known: Globals) -> Imported:
    callee = Callee(statement.module, function.attribute, _directory(statement.span))
    found = _found(callee.loaded, function.span)
    if function.params is None or function.result is None:
        signature = _annotated(found, function)
    else:
        signature = Exact(tuple(resolve(t, known) for t in function.params), resolve(function.result, known))
        _check_arity(found, function, len(signature.params))
    for t in ty.walk(signature.result):
        if t == ty.XML or ty.is_data(t):
            raise UserError(f"`{function.name}` cannot give values of type {t}", function.span)
    return imported(function.name, callee, signature, _optional(found, len(signature.params)))


def _directory(span: Span) -> str:
    return str(Path(span.source.name).parent.resolve())


def _found(find: Callable[[], Any], span: Span) -> Any:
    try:
        return find()
    except NotFound as error:
        raise UserError(str(error), span, WHERE if isinstance(error, NoModule) else None) from None


def call(function: Imported, args: Sequence[Term], expr: syntax.Call) -> Term:
    """A call of an imported function.

    Raises: UserError where the arguments do not fit.
    """
    wanted = function.signature.params
    if len(args) != len(wanted):
        number = f"{len(wanted)} argument{'' if len(wanted) == 1 else 's'}"
        raise UserError(f"`{function.name}` takes {number}, not {len(args)}", expr.span)
    given = zip(args, wanted, expr.args, strict=True)
    what = f"argument {{}} of `{function.name}`"
    fitted = [coerce(arg, t, written.span, what.format(i + 1)) for i, (arg, t, written) in enumerate(given)]
    return Prim(function, tuple(fitted), span=expr.span)


# --- parsers ------------------------------------------------------------------------------------


def lines_of(source: syntax.SourceExpr) -> tuple[syntax.SourceArg, ...]:
    """The arguments for the source of the lines: all but the type of the rows."""
    return tuple(arg for arg in source.args if not isinstance(arg, syntax.TypeArg))


def parsed(source: syntax.SourceExpr, lines: Term, known: Globals) -> Term:
    """The rows of a source with a parser of its own: `{r | l ∈ lines, r ∈ parser(l)}`.

    Raises: UserError where the parser is not found, or does not take a string to a collection of rows.
    """
    statement = known.parsers[source.format]
    module, colon, attribute = statement.target.rpartition(":")
    if not colon or not module or not attribute:
        hint = f'parser {statement.name} = "module:callable";'
        raise UserError("a parser says which callable of which module it is", statement.span, hint)
    function = syntax.ImportedFunction(statement.name, attribute, None, None, statement.span)
    callee = Callee(module, attribute, _directory(statement.span))
    found = _found(callee.loaded, statement.span)
    row = next((resolve(arg.type, known) for arg in source.args if isinstance(arg, syntax.TypeArg)), None)
    signature = _annotated(found, function) if row is None else Exact((ty.STRING,), ty.ListType(row))
    if signature.params != (ty.STRING,) or not ty.is_collection(signature.result):
        raise UserError(f"a parser takes a string to a list of rows, and `{attribute}` takes {signature}", source.span)
    parser = imported(statement.name, callee, signature, frozenset())
    line = PVar(known.names.fresh("line"), ty.STRING)
    rows = Prim(parser, (Var(line.name, line.type),), span=source.span)
    return CMap(Lambda(line, rows), lines, span=source.span)


# --- annotations --------------------------------------------------------------------------------

_TYPES: dict[Any, Type] = {
    bool: ty.BOOL,
    int: ty.LONG,
    float: ty.DOUBLE,
    str: ty.STRING,
    bytes: ty.BYTES,
    date: ty.DATE,
    datetime: ty.TIMESTAMP,
    Any: ty.ANY,
    dict: ty.ANY,
}


def _annotated(function: Callable[..., Any], written: syntax.ImportedFunction) -> Exact:
    """The signature that the annotations of a callable give.

    Raises: UserError where one is missing, or has no counterpart.
    """
    hint = f'the types can be written: import {written.name}(string): long from "module";'
    hints = _hints(function)
    params = _parameters(function)
    if params is None:
        raise UserError(f"`{written.name}` does not say what it takes", written.span, hint)
    found = []
    for name in (*(param.name for param in params), "return"):
        what = f"the result of `{written.name}`" if name == "return" else f"the parameter `{name}` of `{written.name}`"
        if name not in hints:
            raise UserError(f"{what} has no annotation that says its type", written.span, hint)
        t = _type(hints[name])
        if t is None:
            shown = inspect.formatannotation(hints[name])
            raise UserError(f"{what} is annotated with `{shown}`, which is no type of the language", written.span, hint)
        found.append(t)
    return Exact(tuple(found[:-1]), found[-1])


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except Exception:  # an annotation may be any expression
        return {}


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """The positional parameters without a default; None where a callable has no signature."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [param for param in found if param.kind in by_place and param.default is inspect.Parameter.empty]


def _is_annotated(function: Callable[..., Any]) -> bool:
    hints, params = _hints(function), _parameters(function)
    names = None if params is None else [*(param.name for param in params), "return"]
    return names is not None and all(name in hints and _type(hints[name]) is not None for name in names)


def _type(annotation: Any) -> Type | None:
    if annotation in _TYPES:
        return _TYPES[annotation]
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        others = [arg for arg in args if arg is not types.NoneType]
        return _type(others[0]) if len(others) == 1 else None
    parts = [_type(arg) for arg in args]
    if origin is list and len(parts) == 1 and parts[0] is not None:
        return ty.ListType(parts[0])
    if origin is tuple and None not in parts:
        return ty.TupleType(tuple(part for part in parts if part is not None))
    return ty.ANY if origin is dict else None


def _check_arity(function: Callable[..., Any], written: syntax.ImportedFunction, number: int) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*range(number))
    except TypeError as error:
        raise UserError(f"`{written.name}` cannot be called so: {error}", written.span) from None


def _optional(function: Callable[..., Any], number: int) -> frozenset[int]:
    """The places of the parameters whose annotation admits None."""
    hints = _hints(function)
    try:
        names = [*inspect.signature(function).parameters][:number]
    except (TypeError, ValueError):
        return frozenset()
    return frozenset(i for i, name in enumerate(names) if types.NoneType in typing.get_args(hints.get(name)))

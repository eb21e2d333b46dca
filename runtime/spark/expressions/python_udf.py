"""Terms with a call that Catalyst has no form of, as functions over Arrow batches.

Such a call cannot stand in a lambda of Spark's `transform`, and in a branch of an `if` it would be evaluated also for
the rows that take the other branch. So the largest scalar term that has one is evaluated as a whole by the reference
evaluator, over the columns that it reads; the terms around it, and the collections of the query, stay with Spark. A
term that reads no column is evaluated once, in the driver.

A function is registered in a session, under a name derived from what it computes, when a plan that names it is made.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mrql.algebra.analysis.traversal import children, with_children
from mrql.algebra.analysis.variables import Names, all_names, free_vars, scopes
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.evaluation.recursive_functions import python_functions
from mrql.algebra.notation.printer import show
from mrql.algebra.notation.type_printer import show_type
from mrql.algebra.terms import Get, Nth, PVar, Term, Var
from mrql.runtime.spark.expressions.arrow import OverArrow
from mrql.runtime.spark.expressions.layout import sql_type

_NAME = re.compile(r"\bmrql_python_[0-9a-f]{24}\b")
_KNOWN: dict[str, OverArrow] = {}
"""The functions that plans of this process name, by name."""
_REGISTERED: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()


@lru_cache(maxsize=256)
def constant(term: Term) -> tuple[object] | None:
    """The value of a term without free variables; None where it has some, or where its evaluation fails."""
    if free_vars(term):
        return None
    try:
        return (evaluate(term),)
    except UserError:
        return None


def over_columns(term: Term) -> tuple[str, tuple[Term, ...]]:
    """The name of a function that computes a term, and its arguments: variables and parts of them."""
    names = Names(set(all_names(term)))
    found: dict[Term, PVar] = {}
    inner = _taken(term, frozenset(), found, names)
    function = OverArrow(inner, tuple(found.values()))
    said = [show(inner), *(f"{param.name}: {show_type(param.type)}" for param in found.values())]
    said += [f"{f.name} {f.digest}" for f in python_functions(inner)]
    name = f"mrql_python_{hashlib.sha256(chr(10).join(said).encode()).hexdigest()[:24]}"
    _KNOWN.setdefault(name, function)
    return name, tuple(found)


def _taken(term: Term, bound: frozenset[str], found: dict[Term, PVar], names: Names) -> Term:
    """The term with each variable that it reads, or path such as `p.K`, replaced by a parameter."""
    root = _root(term)
    if root is not None and root.name not in bound:
        param = found.setdefault(term, PVar(names.fresh(root.name), term.type))
        return Var(param.name, param.type, span=term.span)
    parts = zip(children(term), scopes(term), strict=True)
    return with_children(term, tuple(_taken(child, bound | more, found, names) for child, more in parts))


def _root(term: Term) -> Var | None:
    while isinstance(term, Nth | Get):
        term = term.term
    return term if isinstance(term, Var) else None


def register(spark: SparkSession, texts: Iterable[str], ship: Callable[[SparkSession], None]) -> None:
    """Registers in a session the functions that are named in SQL texts. Before new ones, `ship` gives the executors the
    modules that they import."""
    if not _KNOWN:
        return
    done = _REGISTERED.setdefault(spark, set())
    new = {found for text in texts for found in _NAME.findall(text)} - done
    if new:
        ship(spark)
    for name in new:
        function = _KNOWN[name]
        spark.udf.register(name, F.arrow_udf(function.function(), sql_type(function.term.type)))  # type: ignore[attr-defined]
        done.add(name)


def flattened(arguments: object) -> Iterable[str]:
    """The texts in the nested arguments of an operation."""
    if isinstance(arguments, str):
        yield arguments
    elif isinstance(arguments, Sequence):
        for argument in arguments:
            yield from flattened(argument)

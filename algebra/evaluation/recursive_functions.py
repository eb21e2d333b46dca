"""Functions that are evaluated in Python, on Spark too: those that call themselves, and imported ones.

A function that does not call itself is gone when a query is typed. One that does is a function of the algebra like any
other (`Prim`), with a body that is a term over its parameters alone; the sources that the body reads are parameters,
too. Catalyst has no form of it: on Spark, the reference evaluator evaluates its calls over Arrow batches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TypeAlias

import attrs

from mrql.algebra.analysis.traversal import children, height, subterms
from mrql.algebra.analysis.variables import free_vars
from mrql.algebra.functions.function import Function, Version
from mrql.algebra.functions.signatures import Exact
from mrql.algebra.monoids import Fold
from mrql.algebra.terms import Prim, PVar, Reduce, Stream, Term
from mrql.algebra.types import Type
from mrql.algebra.values.values import Bag, Value

Evaluate: TypeAlias = Callable[[Term, Mapping[str, Bag], Mapping[str, Value]], Value]
"""The value of a term over the contents of sources and the values of variables."""


@attrs.define(eq=False)
class Definition:
    """The definition of a function that calls itself; its name is known before its body."""

    name: str
    params: tuple[PVar, ...]
    result: Type
    evaluate: Evaluate = attrs.field(repr=False)
    """Evaluates its body, and so its calls."""
    body: Term | None = attrs.field(default=None, repr=False)
    digest: str = ""
    """A hash of the definitions of the function and of all that it calls."""

    @property
    def term(self) -> Term:
        """The body, which calls the function again."""
        assert self.body is not None, f"{self.name} is not defined yet"
        return self.body

    @cached_property
    def calls(self) -> int:
        """An upper bound on the depth of nested Python calls until the function is called again."""
        return 10 * (1 + height(self.term))

    def value(self, *args: Value) -> Value:
        """The value at arguments of the types of the parameters."""
        return self.evaluate(self.term, {}, {param.name: arg for param, arg in zip(self.params, args, strict=True)})


def _digest(definition: Definition) -> str:
    return definition.digest


@attrs.frozen
class PythonFunction(Function):
    """A function that Catalyst has no form of."""

    @property
    def called(self) -> str:
        """Its name in the query."""
        return self.name

    @property
    def reason(self) -> str:
        """Why Catalyst has no form of it, for `explain`."""
        raise NotImplementedError

    @property
    def digest(self) -> str:
        """Distinguishes it from other functions of this name."""
        raise NotImplementedError


@attrs.frozen
class Recursive(PythonFunction):
    """A function that calls itself. Functions are compared by name and definition."""

    definition: Definition = attrs.field(eq=_digest, repr=False, kw_only=True)

    @property
    def called(self) -> str:
        return self.definition.name

    @property
    def reason(self) -> str:
        return "it calls itself"

    @property
    def digest(self) -> str:
        return self.definition.digest


def recursive(definition: Definition, shown: str) -> Recursive:
    """The function of a definition; `shown` is its name in terms."""
    signature = Exact(tuple(param.type for param in definition.params), definition.result)
    return Recursive(
        shown,
        (Version(signature, definition.value, None),),
        takes(signature.params),
        null_safe=True,
        definition=definition,
    )


def takes(params: tuple[Type, ...]) -> str:
    """The parameters of a function in words, for error messages."""
    return " and ".join(map(str, params)) or "nothing"


def sign(definitions: Iterable[Definition], shown: Callable[[Definition], str]) -> None:
    """Sets the digests of functions that call each other, once they have their bodies: from how they are `shown`, and
    from the other functions that they call."""
    group = sorted(definitions, key=lambda definition: definition.name)
    said = []
    for found in group:
        said.append(shown(found))
        said += [f"{f.name} {f.digest}" for f in python_functions(found.term) if _definition(f) not in group]
    text = "\n".join(said)
    for found in group:
        found.digest = hashlib.sha256(f"{found.name}\n{text}".encode()).hexdigest()[:16]


def _definition(function: PythonFunction) -> Definition | None:
    return function.definition if isinstance(function, Recursive) else None


def python_functions(term: Term) -> Iterator[PythonFunction]:
    """The functions evaluated in Python that a term calls itself, also in the monoids of the query."""
    for part in subterms(term):
        yield from own_python_functions(part)


def own_python_functions(term: Term) -> Iterator[PythonFunction]:
    """The functions evaluated in Python that a node calls, without its subterms."""
    match term:
        case Prim(PythonFunction() as function):
            yield function
        case Reduce(Fold() as fold):
            yield from python_functions(fold.combine.body)
            yield from python_functions(fold.zero)


def calls_python(term: Term) -> bool:
    """Whether a term contains a call of such a function whose value may differ from row to row."""
    if any(own_python_functions(term)) and not is_constant(term):
        return True
    return any(map(calls_python, children(term)))


def is_constant(term: Term) -> bool:
    """Whether a term is the same for all rows, and for all data."""
    return not free_vars(term) and not any(isinstance(part, Stream) for part in subterms(term))


def rows_through_python(term: Term) -> tuple[PythonFunction, ...]:
    """The functions that rows of the sources pass through on Spark, each once; constants are evaluated without rows."""
    if is_constant(term):
        return ()
    below = (function for child in children(term) for function in rows_through_python(child))
    return tuple(dict.fromkeys((*own_python_functions(term), *below)))

"""Scopes: what the names of a query stand for at a place of its text."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.analysis.variables import Names
from mrql.algebra.catalog import Catalog, SourceSpec
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.python_functions import Imported
from mrql.algebra.evaluation.recursive_functions import Recursive
from mrql.algebra.monoids import Fold
from mrql.algebra.span import Span
from mrql.algebra.terms import LOOP_MAX_STEPS, Stream, Term
from mrql.algebra.types import Basic, RecordType, Type
from mrql.algebra.values import xml_elements
from mrql.translate.size_limits import SizeBudget


@attrs.frozen
class Thunk:
    """An argument of a macro: an expression, with the scope that it was written in."""

    expr: syntax.Expr
    scope: Scope


@attrs.frozen
class Closure:
    """A function: its parameters and its body, with the scope that it was written in."""

    params: tuple[tuple[syntax.Pattern, syntax.TypeExpr | None], ...]
    result: syntax.TypeExpr | None
    body: syntax.Expr
    scope: Scope


Binding: TypeAlias = Term | Thunk | Closure
Translate: TypeAlias = "Callable[[syntax.Expr, Scope], Term]"
DeclareSource: TypeAlias = Callable[[syntax.SourceExpr, str | None], Term]
RowOf: TypeAlias = Callable[[SourceSpec], Type]
LISTED_MAX_FIELDS = 12
"""The largest number of fields that a hint lists."""
NAME_MAX_CHARACTERS = 40
"""The largest length of a name that a hint repeats."""
NOTHING = Catalog()
"""The catalog of a query that reads nothing but the streams passed to it."""


def unknown_row(spec: SourceSpec) -> Type:
    """Raises: UserError, as there are no files in which to find the type of the rows."""
    raise UserError("the type of the rows is not given", spec.span, "add type(<id: long>), say")


@attrs.frozen
class Aggregation:
    """An aggregation that a program defines: its monoid, and the function from an element to a value, if given."""

    fold: Fold
    unit: Closure | None
    sums: bool = False
    """Whether it adds numbers part by part, and has an inverse (`sums_by_part.py`)."""


@attrs.frozen
class Constructor:
    """A constructor of a union: the union's record type, the types of the arguments, and the recursive type, if any."""

    name: str
    union: RecordType
    args: tuple[Type, ...]
    data: Basic | None = None

    @property
    def type(self) -> Type:
        """The type of the values that it makes."""
        return self.union if self.data is None else self.data


NODE = Constructor(xml_elements.NODE, xml_elements.UNION, xml_elements.PARTS.items, ty.XML)
CDATA = Constructor(xml_elements.CDATA, xml_elements.UNION, (ty.STRING,), ty.XML)
PREDEFINED = {constructor.name: constructor for constructor in (NODE, CDATA)}
"""The constructors of XML, each defined until a program defines its name otherwise."""


@attrs.frozen
class GroupedVariables:
    """The variables of the groups of a select with `group by`, and how to range over the elements of a group.

    `names` are the from-variables that no inner variable hides. `over(place, body)` is the union of the bags that
    `body` makes for all elements of the group: `body` takes the scope `place`, with those variables standing for one
    element, to a term of a bag. `keys` are the variables of the keys.
    """

    names: frozenset[str]
    over: Callable[[Scope, Callable[[Scope], Term]], Term]
    keys: frozenset[str]

    def without(self, names: frozenset[str]) -> GroupedVariables:
        """The same, without variables that are hidden by inner ones of these names."""
        return attrs.evolve(self, names=self.names - names, keys=self.keys - names)


@attrs.frozen
class Globals:
    """The definitions of a program so far, the supply of fresh names, and the settings of the translation."""

    translate: Translate
    """Translates an expression in a scope (`Scope.translate`)."""
    declare_source: DeclareSource
    """Declares a source, under its name if it has one, and returns its term."""
    values: dict[str, Term] = attrs.Factory(dict)
    closures: dict[str, Closure] = attrs.Factory(dict)
    types: dict[str, Type] = attrs.Factory(dict)
    functions: dict[str, syntax.FunctionDef] = attrs.Factory(dict)
    macros: dict[str, syntax.MacroDef] = attrs.Factory(dict)
    calls: dict[str, frozenset[str]] = attrs.Factory(dict)
    """The names that each function and macro may call, also for those that are defined further down in a file."""
    recursive: dict[str, Recursive] = attrs.Factory(dict)
    """The functions that call themselves."""
    sources: dict[str, tuple[Stream, ...]] = attrs.Factory(dict)
    """The sources that recursive functions read, for those that read any."""
    imported: dict[str, Imported] = attrs.Factory(dict)
    parsers: dict[str, syntax.ParserDef] = attrs.Factory(dict)
    aggregations: dict[str, Aggregation] = attrs.Factory(dict)
    unions: dict[Type, tuple[str, ...]] = attrs.Factory(lambda: {ty.XML: tuple(PREDEFINED)})
    """The records and the recursive types that are unions, with the names of their constructors."""
    data: dict[str, Basic] = attrs.Factory(dict)
    """The recursive types, also those that are defined further down."""
    constructors: dict[str, Constructor] = attrs.Factory(PREDEFINED.copy)
    names: Names = attrs.Factory(Names)
    effort: SizeBudget = attrs.Factory(SizeBudget)
    max_steps: int = LOOP_MAX_STEPS
    """The largest number of steps of a loop without a limit."""
    catalog: Catalog = NOTHING
    """The formats and kinds of sources that the query may name."""
    row_of: RowOf = unknown_row
    """Finds the type of the rows of a source for which the query gives none."""
    may_import: bool = True
    """Whether the query may name Python code, which is then run."""

    @property
    def callables(self) -> tuple[dict[str, Any], ...]:
        """The tables of the definitions that expressions call by name."""
        return self.functions, self.closures, self.macros, self.aggregations, self.constructors, self.imported

    @property
    def named(self) -> tuple[dict[str, Any], ...]:
        """The tables of all definitions."""
        return self.values, self.types, *self.callables, self.parsers

    def hide(self, name: str) -> None:
        """Drops a predefined constructor of XML, whose name a program defines. Paths still take elements apart, but a
        `case` over elements is complete only with a branch that matches anything."""
        if name in PREDEFINED and self.constructors.get(name) == PREDEFINED[name]:
            del self.constructors[name]
            self.unions.pop(ty.XML, None)


@attrs.frozen
class Scope:
    """The variables at a place, the keys of a `group by` with their terms, and the functions being expanded."""

    globals: Globals
    variables: Mapping[str, Binding] = attrs.Factory(dict)
    keys: tuple[tuple[syntax.Expr, Term], ...] = ()
    group: GroupedVariables | None = None
    expanding: tuple[str, ...] = ()

    def translate(self, expr: syntax.Expr) -> Term:
        """The term of an expression in this scope.

        Each construct translates its parts by this method, and knows nothing of the other constructs.

        Raises: UserError at the first part that has no type.
        """
        return self.globals.translate(expr, self)

    def bind(self, bindings: Mapping[str, Binding]) -> Scope:
        """The scope with more variables, and without the group-by keys that mention a rebound name."""
        keys = tuple((e, t) for e, t in self.keys if not (set(bindings) & syntax.names_in(e)))
        group = self.group and self.group.without(frozenset(bindings))
        return attrs.evolve(self, variables={**self.variables, **bindings}, keys=keys, group=group)

    def outermost(self, expanding: str, bindings: Mapping[str, Binding]) -> Scope:
        """The scope of a function's or macro's body: its parameters and the global names."""
        return Scope(self.globals, bindings, expanding=(*self.expanding, expanding))

    def key(self, expr: syntax.Expr) -> Term | None:
        """The term of the group-by key that is written like this expression, if any."""
        return next((term for key, term in self.keys if key == expr), None)

    def lookup(self, name: str) -> Binding | None:
        known = self.globals
        found: Binding | None = self.variables.get(name)
        return known.values.get(name, known.closures.get(name)) if found is None else found

    def unknown(
        self,
        what: str,
        name: str,
        candidates: Iterable[str],
        span: Span,
        elsewhere: str | None = None,
        otherwise: str | None = None,
    ) -> UserError:
        """The error for an unknown name. The hint is `elsewhere`, if given, or else the nearest candidate, or else a
        list of the fields, if these are few, or else `otherwise`, if the name is not too long."""
        known = list(candidates)
        near = guess = did_you_mean(name, known)
        if what == "field" and near is None and len(known) <= LISTED_MAX_FIELDS:
            guess = f"there are {', '.join(f'`{field}`' for field in known)}"
        if near is None and len(name) <= NAME_MAX_CHARACTERS:
            guess = guess or otherwise
        return UnknownName(what, name, span, elsewhere or guess)


class UnknownName(UserError):
    """A name is unknown."""

    def __init__(self, what: str, name: str, span: Span, hint: str | None) -> None:
        super().__init__(f"unknown {what} `{name}`", span, hint)
        self.what, self.name = what, name


def nearest(name: str, known: Sequence[str], cutoff: float = 0.6) -> str | None:
    """The known name that a name is most likely a misspelling of, if any."""
    alike = (other for other in known if other.lower() == name.lower())
    close = (other for other in difflib.get_close_matches(name, known, cutoff=cutoff) if _may_be_meant(name, other))
    return next(alike, None) or next(close, None)


def _may_be_meant(name: str, other: str) -> bool:
    """Whether one name is the other with a few typing errors, with its letters in another order, or without some of its
    words; sharing an ending is not enough, as many names do."""
    words, others = (set(each.lower().split("_")) for each in (name, other))
    slips = 1 + max(len(name), len(other)) // 4
    has_swapped = len(name) > 2 and sorted(name.lower()) == sorted(other.lower())
    return words < others or others < words or has_swapped or _distance(name.lower(), other.lower()) <= slips


def _distance(a: str, b: str) -> int:
    """The number of characters to insert, delete or change between two words (Levenshtein)."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, start=1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


def did_you_mean(name: str, known: Sequence[str]) -> str | None:
    """The hint with the nearest known name, if any."""
    near = nearest(name, known)
    return None if near is None else f"did you mean `{near}`?"


def foreign_field(name: str, record: ty.RecordType, span: Span) -> UserError | None:
    """The error for a field that the data have and the record type leaves out, as the language does not have its type,
    or as it is a column of type `any`; None for any other field."""
    foreign = dict(record.left_out).get(name)
    if foreign is None:
        return None
    if foreign == str(ty.ANY):
        hint = f"`{name}: string` takes what is there as a text"
        return UserError(f"the column `{name}` is of type any, and is not read", span, hint)
    if re.search(rf"\b{ty.BYTES}\b", foreign):  # old checkpoints leave out fields of this type
        message = f"the field `{name}`, of type {foreign}, was left out when the checkpoint was written"
        return UserError(message, span, "say with type(…) what is read, or start with a new checkpoint")
    hint = "make it a text or a number where the data come from; a query that leaves it alone is answered"
    if foreign == "numeric":
        hint = f"say how many digits it has: `type(<{name}: decimal(12, 2)>)`, or `double`"
    if re.search(r"\btime(32|64)?\b", foreign):
        hint = "cast it to a text where the data come from: `10:20:30` compares as a text as it does as a time"
    if "timestamp[ns" in foreign:
        hint = "with `truncateTimestamps` a source of parquet reads it to the microsecond"
    return UserError(f"the field `{name}` is of type {foreign}, which the language does not have", span, hint)

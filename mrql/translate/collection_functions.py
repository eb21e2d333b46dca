"""Functions of collections that are translated to other terms, and so follow insertions and deletions as these do.

size(e)                 reduce(+, {1 | x ∈ e}), as `count`
sort(e)                 orderBy({((), x) | x ∈ e})
flatten(e)              of a bag: cMap(λx. x, e)
median(e), variance(e)  a scalar function of the bag (`algebra/functions/statistics.py`)
max_by(e)               π2(reduce(max, {(k, x) | (x, k) ∈ e}))
histogram(e)            {(k, count(s)) | (k, s) ∈ groupBy({(x, ()) | x ∈ e})}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs

from mrql import syntax
from mrql.algebra import functions as fn
from mrql.algebra.analysis.missing import there
from mrql.algebra.analysis.variables import Names
from mrql.algebra.errors import UserError
from mrql.algebra.monoids import MAX, MIN
from mrql.algebra.span import Span
from mrql.algebra.terms import Term, element_type
from mrql.translate.builtin_aggregates import count
from mrql.translate.collection_terms import anything, check_ordered, in_order
from mrql.translate.statistical_functions import (
    by_key,
    count_distinct,
    histogram,
    median,
    mode,
    of_numbers,
    of_pairs,
    percentile,
    string_agg,
)


@attrs.frozen
class Derived:
    """A function that the algebra has no symbol for.

    It takes a collection, and the arguments that `parameters` describe. A function of `pairs` may, after a `group by`,
    be given the two parts of the pairs instead: `corr(x.A, x.B)`.
    """

    name: str
    result: str
    meaning: str
    examples: tuple[tuple[str, str], ...]
    make: Callable[..., Term]
    """Makes the term, from a collection, the supply of names, the place of the call, and the other arguments."""
    parameters: tuple[str, ...] = ()
    """Descriptions of the arguments after the collection."""
    optional: int = 0
    """How many of the last ones of these may be left out."""
    pairs: bool = False
    takes: str = "a collection"

    @property
    def signature(self) -> str:
        """Its arguments and its result, in words."""
        required = len(self.parameters) - self.optional
        optional = (f"perhaps {parameter}" for parameter in self.parameters[required:])
        return f"{', '.join((self.takes, *self.parameters[:required], *optional))} → {self.result}"


# --- the functions --------------------------------------------------------------------------------------------------


def _size(collection: Term, names: Names, span: Span) -> Term:
    return count(collection, names)


def _collect(collection: Term, names: Names, span: Span) -> Term:
    return there(collection)


def _sorted(collection: Term, names: Names, span: Span) -> Term:
    check_ordered("sort", element_type(collection), span)
    return in_order(collection, names, lambda x: x, anything, span)


_OF_NUMBERS = "a collection of numbers"
_OF_PAIRS = "a collection of pairs of numbers"
_KEYED = "a collection of pairs of a value and a key"

DERIVED: Mapping[str, Derived] = {
    function.name: function
    for function in (
        Derived("size", "long", "the number of its elements, as `count`", (("size([7, 8])", "2"),), _size),
        Derived(
            "sort",
            "list",
            "its elements from the least to the greatest, missing ones first",
            (("sort({3, 1, 2})", "[1, 2, 3]"),),
            _sorted,
        ),
        Derived(
            "collect",
            "the collection",
            "its elements as they are; after a `group by`, of an expression over the group: `collect(x.A + 1)`",
            (("collect({1, 2})", "{1, 2}"),),
            _collect,
        ),
        Derived(
            "count_distinct",
            "long",
            "how many different elements are there; missing ones do not count",
            (("count_distinct({1, 2, 2, null})", "2"),),
            count_distinct,
        ),
        Derived(
            "median",
            "double",
            "the middle of the numbers, or between the two in the middle; of nothing, missing",
            (("median({1, 2, 10})", "2.0"), ("median({1, 2})", "1.5")),
            median,
            takes=_OF_NUMBERS,
        ),
        Derived(
            "percentile",
            "double",
            "the number below which a part of them lies, a constant from 0 to 1; between two, so far between them",
            (("percentile({0, 10, 20}, 0.75)", "15.0"), ("percentile({}, 0.5)", "null")),
            percentile,
            parameters=("a part between 0 and 1",),
            takes=_OF_NUMBERS,
        ),
        Derived(
            "mode",
            "an element",
            "the most frequent element, of equally frequent ones the least; of nothing, missing",
            (("mode({2, 1, 2, 3, 3})", "2"), ("mode({})", "null")),
            mode,
        ),
        Derived(
            "variance",
            "double",
            "the variance of a sample, `Σ(x − mean)² / (n − 1)`; of fewer than two numbers, missing",
            (("variance({1, 2, 3})", "1.0"), ("variance({1})", "null")),
            of_numbers(fn.VARIANCE),
            takes=_OF_NUMBERS,
        ),
        Derived(
            "variance_pop",
            "double",
            "the variance of all there is, `Σ(x − mean)² / n`; of nothing, missing",
            (("variance_pop({1, 3})", "1.0"),),
            of_numbers(fn.VARIANCE_POP),
            takes=_OF_NUMBERS,
        ),
        Derived(
            "stddev",
            "double",
            "the standard deviation of a sample: the square root of `variance`",
            (("stddev({1000000001, 1000000003, 1000000005})", "2.0"),),
            of_numbers(fn.STDDEV),
            takes=_OF_NUMBERS,
        ),
        Derived(
            "stddev_pop",
            "double",
            "the standard deviation of all there is: the square root of `variance_pop`",
            (("stddev_pop({1, 3})", "1.0"),),
            of_numbers(fn.STDDEV_POP),
            takes=_OF_NUMBERS,
        ),
        Derived(
            "covar",
            "double",
            "the covariance of a sample; pairs with a missing part do not count",
            (("covar({(1, 2), (3, 6)})", "4.0"),),
            of_pairs(fn.COVAR),
            pairs=True,
            takes=_OF_PAIRS,
        ),
        Derived(
            "covar_pop",
            "double",
            "the covariance of all there is",
            (("covar_pop({(1, 2), (3, 6)})", "2.0"),),
            of_pairs(fn.COVAR_POP),
            pairs=True,
            takes=_OF_PAIRS,
        ),
        Derived(
            "corr",
            "double",
            "Pearson's correlation, from -1 to 1; of fewer than two pairs, or where a side is always the same, missing",
            (("corr({(1, 2), (2, 4), (3, 6)})", "1.0"),),
            of_pairs(fn.CORR),
            pairs=True,
            takes=_OF_PAIRS,
        ),
        Derived(
            "min_by",
            "a value",
            "the value beside the least key, of several such values the least; missing keys do not count",
            (('min_by({("a", 2), ("b", 1)})', '"b"'),),
            by_key("min_by", MIN),
            pairs=True,
            takes=_KEYED,
        ),
        Derived(
            "max_by",
            "a value",
            "the value beside the greatest key, of several such values the greatest; missing keys do not count",
            (('max_by({("a", 2), ("b", 1)})', '"a"'),),
            by_key("max_by", MAX),
            pairs=True,
            takes=_KEYED,
        ),
        Derived(
            "string_agg",
            "string",
            "its strings with the separator between them: of a bag in their order as strings, of a list as they stand",
            (('string_agg({"b", "a"}, ", ")', '"a, b"'), ('string_agg(["b", "a"], "-")', '"b-a"')),
            string_agg,
            parameters=("a separator",),
            takes="a collection of strings",
        ),
        Derived(
            "histogram",
            "a bag of pairs",
            "how often each element is there; or how many numbers each interval of a width has, by its beginning",
            (
                ('histogram({"a", "b", "a"})', '{("a", 2), ("b", 1)}'),
                ("histogram({1, 12, 19}, 10)", "{(0, 1), (10, 2)}"),
            ),
            histogram,
            parameters=("a width",),
            optional=1,
        ),
    )
}
"""The functions by their names."""


def derived(expr: syntax.Call, collection: Term, others: Sequence[Term], names: Names) -> Term:
    """The term of a call of one of these functions.

    Raises: UserError where the function does not apply to the collection or the other arguments.
    """
    return DERIVED[expr.function].make(collection, names, expr.span, *others)


def check_arguments(expr: syntax.Call) -> None:
    """Raises: UserError where there are too few arguments, or too many."""
    function, given = DERIVED[expr.function], len(expr.args)
    most = 1 + len(function.parameters)
    if most - function.optional <= given <= most:
        return
    if function.pairs and given == 2:
        hint = f"{function.name}(select (x, y) from …)"
        raise UserError(
            f"`{function.name}` of two values is of the elements of a group; here it takes a collection of pairs",
            expr.span,
            hint,
        )
    takes = " and ".join((function.takes if function.parameters else "one collection", *function.parameters))
    arguments = f"{given} argument{'' if given == 1 else 's'}"
    example = f"`{function.examples[0][0]}`, say" if function.parameters else None
    if expr.function in ("min_by", "max_by") and given == 3:
        down = " desc" if expr.function == "max_by" else ""
        example = f"several are a list: `(select x from x in g order by x.A{down} limit 2)`"
    raise UserError(f"`{function.name}` takes {takes}, not {arguments}", expr.span, example)

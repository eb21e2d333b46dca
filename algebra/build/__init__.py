"""Terms built in Python.

    >>> from mrql.algebra import build as b
    >>> S = b.stream("S", "{<A: long, B: string>}")
    >>> b.cmap(lambda x: b.where(x.A > 3, b.single((x.B, x.A + 1))), S)
    cMap(λx. if x.A > 3 then {(x.B, x.A + 1)} else {}:{(string, long)}, S)
    >>> groups = b.group_by(b.cmap(lambda x: b.single((x.B, x.A)), S))
    >>> b.cmap(lambda k, xs: b.single((k, b.sum(xs))), groups)
    cMap(λ(k, xs). {(k, reduce(+, xs))}, groupBy(cMap(λx. {(x.B, x.A)}, S)))

Every function gives an `Expr`, whose `term` is the plain term. A Python function stands for a `λ`: with one parameter
it is given the element, with more the parts of the element, which must then be a tuple. The variables are named after
the parameters, renamed where they would capture another variable; a parameter that begins with `_` and is not used
becomes the pattern `_`. Python numbers and strings stand for literals, Python tuples for tuples.

A term without a type is refused when it is built, with a `UserError`.

`operators` has operators that have names in other systems: joins, `distinct`, `first_n`, closures. `traces` has the
operators of streams, over rows with their times: delay, integration, differentiation.
"""

from mrql.algebra.build.expression import Expr, Operand, Written, expr, get, lit, nth, tup
from mrql.algebra.build.lambdas import Body
from mrql.algebra.build.operators import (
    aggregate,
    distinct,
    first_n,
    group_reduce,
    index_with,
    inspect,
    join,
    make_scalar,
    make_set,
    map,
    map_many,
    outer_join,
    plus,
    transitive_closure,
)
from mrql.algebra.build.terms import (
    and_,
    avg,
    bag,
    call,
    cast,
    cmap,
    co_group,
    count,
    empty,
    filter,
    group_by,
    if_,
    is_null,
    let,
    list_,
    max,
    min,
    not_,
    null,
    or_,
    order_by,
    pair,
    record,
    reduce,
    repeat,
    single,
    stream,
    sum,
    table,
    take,
    union,
    var,
    where,
)
from mrql.algebra.build.traces import (
    consolidate,
    delay,
    differentiate,
    distinct_trace,
    integrate,
    minus,
    negate,
)

__all__ = [
    "Body",
    "Expr",
    "Operand",
    "Written",
    "aggregate",
    "and_",
    "avg",
    "bag",
    "call",
    "cast",
    "cmap",
    "co_group",
    "consolidate",
    "count",
    "delay",
    "differentiate",
    "distinct",
    "distinct_trace",
    "empty",
    "expr",
    "filter",
    "first_n",
    "get",
    "group_by",
    "group_reduce",
    "if_",
    "index_with",
    "inspect",
    "integrate",
    "is_null",
    "join",
    "let",
    "list_",
    "lit",
    "make_scalar",
    "make_set",
    "map",
    "map_many",
    "max",
    "min",
    "minus",
    "negate",
    "not_",
    "nth",
    "null",
    "or_",
    "order_by",
    "outer_join",
    "pair",
    "plus",
    "record",
    "reduce",
    "repeat",
    "single",
    "stream",
    "sum",
    "table",
    "take",
    "transitive_closure",
    "tup",
    "union",
    "var",
    "where",
]

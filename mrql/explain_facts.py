"""What there is to say about a plan, before it is said as text, as JSON or as a picture.

Nothing here is a decision: the passes have made them. The tables and costs are those of `runtime/step.py` and
`runtime/view.py`, read off the plan without Spark.
"""

from __future__ import annotations

import re

import attrs

from mrql.algebra.binders import Names, alpha_equal, free_vars, pattern_vars, substitute
from mrql.algebra.functions import HAS_NULL, IS_NULL
from mrql.algebra.monoids import BAG, Aggregate, BagUnion, Monoid
from mrql.algebra.show import show_type
from mrql.algebra.span import Span
from mrql.algebra.terms import CMap, CoGroup, Lambda, Prim, PTuple, PVar, Reduce, Single, Stream, Term, Tup, Var, pair_type
from mrql.algebra.tidy import base_name, tidy
from mrql.algebra.traversal import map_children, subterms
from mrql.explain_costs import Answer, Work, answer_cost, stage_works
from mrql.explain_lineage import Lineage, lineage_of
from mrql.explain_tables import Table, stage_tables
from mrql.rewrite.infer import infer, stream_names
from mrql.rewrite.lineage import joins_elements
from mrql.rewrite.multilinear import MARK, delta_choices, label_occurrences, stream_of
from mrql.rewrite.passes import Trace
from mrql.rewrite.stages import Feed, Shape, Stage

"""The current elements of a state, compared key by key with those that stages were given.

If each key of a state makes one element, and tells it from others, as a page does with its rank, the change by a batch
is the difference between the current elements of the touched keys and those that were given: the elements before the
batch need not be known. No group has more than one new and one old element then, either (`ElementGroups.pairs`).
"""

from __future__ import annotations

from collections.abc import Sequence

from mrql.rewrite.plan.delta_rules import DeltaRules
from mrql.runtime.spark.maintenance.deltas import Deltas, OfKeys
from mrql.runtime.spark.maintenance.input_rows import Ledger
from mrql.runtime.spark.maintenance.loops.element_groups import ElementGroups, element_groups_of, table_of
from mrql.runtime.spark.maintenance.snapshot import StatesBefore
from mrql.runtime.spark.relation.relation import Relation, union_all


def elements_of_keys(
    changes: Deltas, ledger: Ledger, rules: DeltaRules, before: StatesBefore | None = None
) -> OfKeys | None:
    """The current elements of a term for the keys touched since `before`, or for all; None where these keys are not
    what tells its elements apart."""
    found = changes.of_keys(rules, before)
    if found is None:
        return None
    value = found.elements.value
    return found if element_groups_of(ledger, value).are_told_by(found.keys, value) else None


def against(given: Sequence[Relation], now: OfKeys, ledger: Ledger, more: Relation | None = None) -> Relation:
    """The current elements of some keys, minus those that were `given` for them. There may be `more` rows that were
    given, of which the state has nothing."""
    element_groups = element_groups_of(ledger, now.elements.value)
    old = _given_of(given, now, ledger, element_groups, more)
    rows = element_groups.rows([now.elements], ledger.plans)
    return rows if old is None else union_all([rows, element_groups.taken_away(old)])


def _given_of(
    given: Sequence[Relation], now: OfKeys, ledger: Ledger, element_groups: ElementGroups, more: Relation | None
) -> Relation | None:
    table = table_of(ledger, element_groups)
    if now.touched is None:
        return table.current(given) if given else None
    named = zip(now.keys.names, element_groups.lie_by, strict=True)
    wanted = [now.touched.select(*(f"{key} AS {name}" for key, name in named))]
    wanted += [] if more is None else [more.select(*element_groups.lie_by)]
    found = table.schema.lookup(given, union_all(wanted))
    return None if found is None else table.merged([found])

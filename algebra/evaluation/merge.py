"""The operations of monoids on values (`MonoidOperations`), for modules other than the evaluator."""

from __future__ import annotations

from mrql.algebra.evaluation.evaluate import MONOID_OPERATIONS

zero, unit, combine = MONOID_OPERATIONS.zero, MONOID_OPERATIONS.unit, MONOID_OPERATIONS.combine

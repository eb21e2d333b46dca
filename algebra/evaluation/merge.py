"""What a monoid does with values, as `MonoidOperations` says: for all that is no evaluator itself."""

from __future__ import annotations

from mrql.algebra.evaluation.evaluate import MONOID_OPERATIONS

zero, unit, combine = MONOID_OPERATIONS.zero, MONOID_OPERATIONS.unit, MONOID_OPERATIONS.combine

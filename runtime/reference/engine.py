"""The reference engine of the stream loop: a view in plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from mrql.algebra.catalog import SourceSpec
from mrql.algebra.memory import with_room
from mrql.algebra.values.values import Value
from mrql.algebra.values.zset import ZSet
from mrql.rewrite.plan.circuit import Circuit
from mrql.rewrite.plan.operators import Operator, OperatorKind
from mrql.rewrite.plan.plan import Plan
from mrql.runtime.checkpoint.commits import States
from mrql.runtime.checkpoint.restore import GoingOn
from mrql.runtime.engine.residual import Residual
from mrql.runtime.engine.sizes import EngineMeasurements, OperatorActivity, StateSize
from mrql.runtime.files.quarantine import Quarantine, fail, pass_over
from mrql.runtime.reference.answer import ReferenceAnswer
from mrql.runtime.reference.checkpoint import ReferenceStates, lines_of
from mrql.runtime.reference.view import Arriving, ReferenceView
from mrql.runtime.sources.arrived import Arrived, Batch, Part
from mrql.runtime.sources.files import read_changes, read_source
from mrql.runtime.streaming.stream_loop import Put, Sizes


class ReferenceEngine:
    """Keeps a plan up to date in plain Python; needs no Java."""

    name = "reference"

    def __init__(
        self,
        plan: Plan,
        sources: Mapping[str, SourceSpec],
        quarantine: Quarantine | None = None,
        going_on: GoingOn | None = None,
    ) -> None:
        self.sources = sources
        self.plan = plan
        self.reject = fail if quarantine is None else quarantine.reject
        tables = {name: read_source(sources[name], self.reject) for name in plan.tables}
        restored = None if going_on is None else going_on.restored
        self.view = ReferenceView(plan, tables, start=restored is None)
        self.states = None if going_on is None else ReferenceStates(self.view, going_on.identities)
        if restored is not None and self.states is not None:
            self.states.load(restored)
            rows = {stream: self._change(stream, arrived) for stream, arrived in restored.arrived.items()}
            self.view.resume(restored.states, rows)

    def advance(self, batch: Batch, put: Put, *, changes: bool) -> None:
        before = self.view.answer() if changes else None
        deltas = {stream: self._change(stream, arrived) for stream, arrived in batch.items()}
        with self.view.applied(deltas):
            put(ReferenceAnswer(self.view.answer(), before, self.plan.answer.type))

    def _change(self, stream: str, arrived: Iterable[Part]) -> Arriving:
        rows = (change for part in arrived for change in self._rows(self.sources[stream], part))
        return [*rows] if stream in self.plan.keyed else ZSet.weighted(rows)

    def _rows(self, spec: SourceSpec, part: Part) -> Iterator[tuple[Value, int]]:
        if not isinstance(part, Arrived):
            yield from part.changes(spec.row)
            return
        # Rows quarantined when the file was read are not quarantined again when its rows are withdrawn.
        reject = self.reject if part.withdrawn is None or self.reject is fail else pass_over
        with part.named():
            changes = read_changes(
                part.described(spec), part.read_from, part.weight, lambda row: reject(part.called(row))
            )
            yield from with_room(changes, lambda: spec.span)

    def sizes(self) -> Sizes:
        return Sizes(sum(state.size() for state in self.view.states), sum(state.touched for state in self.view.states))

    def measure(self) -> EngineMeasurements:
        sizes = reference_sizes(self.view)
        return EngineMeasurements(sizes, reference_operators(self.view, self.circuit, sizes))

    @property
    def circuit(self) -> Circuit:
        return self.view.circuit

    def residual(self) -> Residual | None:
        return self.view.residual if self.view.plan.has_residual else None

    def durable(self) -> States:
        assert self.states is not None
        return self.states

    def close(self) -> None:
        self.view = ReferenceView(self.plan, start=False)


def reference_sizes(view: ReferenceView) -> dict[str, StateSize]:
    """The sizes of a view's states, by the names of stages and streams; the bytes are those of their text on disk."""
    sizes: dict[str, StateSize] = {}
    for name, lines in lines_of(view):
        before = sizes.get(name, StateSize(0, 0))
        written = sum(len(key.encode()) + len(value.encode()) for key, value in lines.items())
        sizes[name] = StateSize(before.rows + len(lines), before.bytes + written)
    return sizes


def reference_operators(
    view: ReferenceView, circuit: Circuit, sizes: Mapping[str, StateSize]
) -> dict[str, OperatorActivity]:
    """The activity of each operator in the last batch, by id, without `rows_in` and the rows of sources and answer."""
    return {
        operator.id: OperatorActivity(
            _rows_out(operator, view),
            state=None if operator.kind is OperatorKind.INDEX else sizes.get(operator.id),
            milliseconds=view.batch.milliseconds.get(operator.id),
        )
        for operator in circuit.operators
    }


def _rows_out(operator: Operator, view: ReferenceView) -> int | None:
    """The number of rows that an operator put out in the last batch; None where it is not known here."""
    state = next((state for state in view.states if state.stage.name == operator.stage), None)
    match operator.kind:
        case OperatorKind.BAG if state is not None:
            return state.rows_given_to(operator.component or 0)
        case OperatorKind.AGGREGATE | OperatorKind.DISTINCT if state is not None:
            return state.touched
        case OperatorKind.INDEX if state is not None:
            return state.changed.get((operator.feed or 0, operator.input or ""), 0)
        case OperatorKind.JOIN | OperatorKind.FILTER_MAP if state is not None:
            return state.rows_by_feed.get(operator.feed or 0, 0)
        case OperatorKind.DIFFERENTIATE | OperatorKind.DELAY:
            return view.batch.passed_on.get(operator.id, 0)
        case _:
            return None

"""The identity of a state: a hash of what it is, not of its position in a plan.

Two stages have the same hash if their terms differ at most in the names of bound variables, and they read the same:
streams and tables are compared by their declarations, the stages below by their hashes. So a state is found again after
a change of the query that does not affect it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from operator import attrgetter
from pathlib import Path

import attrs

from mrql.algebra.analysis.traversal import map_children, subterms
from mrql.algebra.analysis.variables import normal_names, substitute
from mrql.algebra.catalog import SourceSpec
from mrql.algebra.evaluation.recursive_functions import python_functions
from mrql.algebra.terms import Let, PTuple, Stream, Term, Tup, Var
from mrql.rewrite.analysis.multilinear import MARK
from mrql.rewrite.plan.known_states import known_states
from mrql.rewrite.plan.plan import DerivedStream, Feed, Plan, Stage
from mrql.runtime.checkpoint.manifest import STATES_FORMAT
from mrql.runtime.checkpoint.notation import SOURCE, connector, written
from mrql.runtime.checkpoint.places import known_address

IDENTITY_DIGITS = 16
"""The number of hexadecimal digits of a hash that make an identity."""


@attrs.frozen
class Identities:
    """The identities of the states of a plan."""

    stages: Mapping[str, str]
    """By the name of a stage."""
    ledgers: Mapping[str, str]
    """By the name of a stream whose deletions are looked up, whose rows replace others, that a loop feeds, or of which
    changes are withheld."""
    query: str
    """Of the query as a whole: its states and the answer over them."""


def identities(
    plan: Plan, specs: Mapping[str, SourceSpec], address: Callable[[SourceSpec], str] = known_address
) -> Identities:
    """The identities of a plan's states; `address` gives the part of an adapter's address that counts."""
    known = _Known({name: source_identity(spec, address) for name, spec in specs.items()}, {})
    kinds = {name: "keyed" if name in plan.keyed else "ledger" for name in sorted(plan.noted)}
    ledgers = {name: _digest(kind, known.named(name)) for name, kind in kinds.items()}
    for name, loop in plan.loops:
        known.sources[name] = _digest("loop", known.text(loop))
    for _ in (*plan.feedbacks, *plan.derived):  # a loop may read the values of others
        ledgers |= _note_loops(plan, known)
    columns = known_states(plan).stages
    for stage in plan.stages:
        for derived in plan.derived_for(stage):
            known.sources[derived.name] = _derived_digest(derived, known)
            if derived.threshold.is_given:
                ledgers[derived.name] = known.sources[derived.name]
        # A tuple that may be missing is kept whole; it was not always.
        whole = ["whole tuples"] if columns[stage.name].has_whole_tuples(stage) else []
        found = _digest("stage", *_texts(stage, plan.recursion_of(stage), known), *whole)
        # Two states of one query that are the same are told apart by their order.
        twins = sum(other.startswith(found) for other in known.stages.values())
        known.stages[stage.name] = f"{found}-{twins + 1}" if twins else found
        recursive = plan.recursion_of(stage)
        if recursive is not None:
            known.sources[recursive.name] = _digest("derived", known.text(recursive.term))
    return Identities(known.stages, ledgers, _digest("query", known.text(plan.answer), *known.stages.values()))


def _note_loops(plan: Plan, known: _Known) -> dict[str, str]:
    """Notes the identities of the streams that stand for loops; returns those of the ledgers of loops."""
    ledgers = {}
    for derived in plan.derived:
        if derived.loop is not None:
            known.sources[derived.name] = _digest("fixpoint", known.text(derived.loop))
    for carried in plan.feedbacks:
        # Its stages are identified by the whole loop: their contents depend on how its value came about.
        text = known.text(carried.loop)
        for i, part in enumerate(carried.parts):
            known.sources[part.fed.name] = ledgers[part.fed.name] = _digest("carried", text, str(i))
            for derived in plan.derived:
                if derived.term == part.value:
                    known.sources[derived.name] = _digest("value", text, str(i))
    return ledgers


def source_identity(spec: SourceSpec, address: Callable[[SourceSpec], str] = known_address) -> str:
    """The identity of a source: its whole declaration, with the absolute place of its files.

    An option that is not used is not part of it (`notation.SOURCE`).
    """
    placed = attrs.evolve(spec, adapter=connector(spec.adapter))
    if spec.adapter is None or spec.versioned:
        placed = attrs.evolve(
            placed,
            path=str(Path(spec.path).absolute()),
            deletions=None if spec.deletions is None else str(Path(spec.deletions).absolute()),
        )
    else:
        placed = attrs.evolve(placed, path=address(spec))
    values = ((name, attrgetter(attribute)(placed), unused) for name, (attribute, unused) in SOURCE.items())
    return _digest("source", *(f"{name}={written(value)}" for name, value, unused in values if value != unused))


def reading_of(spec: SourceSpec) -> str:
    """The way in which the files of a source are read, on which the type inferred for their rows depends."""
    values = ((name, getattr(spec, name), SOURCE[name][1]) for name in READING)
    return " ".join(f"{name}={written(value)}" for name, value, unused in values if value != unused)


READING = ("format", "delimiter", "header", "missing_columns", "multiline", "tags", "tagged", "truncate_timestamps")
"""The attributes of a source that are known before the type of its rows is inferred."""


def _derived_digest(derived: DerivedStream, known: _Known) -> str:
    """The identity of a derived stream, with its threshold, on which the withheld changes depend."""
    threshold = derived.threshold
    residual = [written(threshold.relative), written(threshold.absolute)] if threshold.is_given else []
    return _digest("derived", known.text(derived.term), *residual)


@attrs.frozen
class _Known:
    """The identities of what a term names: its sources, streams and tables, and the stages whose states it reads."""

    sources: dict[str, str]
    stages: dict[str, str]

    def text(self, term: Term) -> str:
        """A term as text, with what it reads by identity and bound variables by their order; without positions."""

        def named(part: Term) -> Term:
            if isinstance(part, Stream):
                return attrs.evolve(part, name=self.named(part.name))
            return map_children(part, named)

        variables = {part.name: part.type for part in subterms(term) if isinstance(part, Var)}
        states = {name: Var(self.stages[name], t) for name, t in variables.items() if name in self.stages}
        # The name of a function of the query says nothing of its body.
        functions = sorted({f"{function.name} {function.digest}" for function in python_functions(term)})
        return "\n".join([written(normal_names(named(substitute(term, states)))), *functions])

    def named(self, label: str) -> str:
        """The name of a stream, or of one of its occurrences, with the stream's identity in place of its name."""
        stream, mark, number = label.partition(MARK)
        return self.sources.get(stream, stream) + mark + number


def _texts(stage: Stage, recursive: DerivedStream | None, known: _Known) -> list[str]:
    """The texts that identify a stage; a stream that is made from the stage itself is identified by its term."""
    if recursive is None:
        return _stage_texts(stage, known)
    inside = _Known({**known.sources, recursive.name: "what is made of it"}, {**known.stages, stage.name: "itself"})
    loop = recursive.loop
    limits = [] if loop is None else [written((None if loop.limit is None else known.text(loop.limit), loop.most))]
    return [*_stage_texts(stage, inside), inside.text(recursive.term), *limits]


def _stage_texts(stage: Stage, known: _Known) -> list[str]:
    components = [written((component.monoid, component.type, component.narrow)) for component in stage.components]
    feeds = [text for feed in stage.feeds for text in _feed_texts(feed, known)]
    return [stage.shape.value, written(stage.key_type), *components, *feeds]


def _feed_texts(feed: Feed, known: _Known) -> list[str]:
    inputs = [written((known.named(i.label), i.sums, known.text(i.term))) for i in feed.rows.inputs]
    pattern = PTuple((feed.key, feed.element))
    shares = Tup((*(unit for _, unit in feed.units), *([] if feed.weight is None else [feed.weight])))
    fed = written(([i for i, _ in feed.units], feed.supports, feed.weight is None, feed.totals))
    return [known.text(feed.rows.body), *inputs, known.text(Let(pattern, Var("row", pattern.type), shares)), fed]


def _digest(*texts: str) -> str:
    whole = "\0".join((f"format {STATES_FORMAT}", *texts))
    return hashlib.sha256(whole.encode(errors="surrogatepass")).hexdigest()[:IDENTITY_DIGITS]

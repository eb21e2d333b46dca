"""What `mrql verify` does with one expression of a query file, and says of it."""

from __future__ import annotations

import json
from collections.abc import Mapping

import click

from mrql.algebra.catalog import SourceSpec
from mrql.output.tables import type_name
from mrql.rewrite.normalize.drop_traces import drop_traces
from mrql.runtime.sources.files import read_source
from mrql.translate.program import Query
from mrql.verify.engines import Start
from mrql.verify.report import document, render, rows_used
from mrql.verify.verifier import Effort, Sampler, Verified, scenarios, verify


def verify_expression(
    query: Query, specs: Mapping[str, SourceSpec], effort: Effort, start: Start, *, as_json: bool
) -> bool:
    """Verifies an expression over the data of its sources, in each scenario until one goes wrong; whether none does.

    Raises: UserError when a row is malformed, or the query has no value for the data.
    """
    sampler = Sampler({name: list(read_source(spec)) for name, spec in specs.items()}, effort.rows)
    if not as_json:
        click.echo(f"{query.span.source.name}:{query.span.line}: {type_name(query.type)}")
        click.echo("\n".join(rows_used(sampler)))
    found: list[Verified] = []
    term = drop_traces(query.term)
    for scenario in scenarios(term, frozenset(name for name, spec in specs.items() if spec.shrinks)):
        found.append(verify(term, sampler, scenario, effort, start, _progress))
        if not as_json:
            click.echo("\n".join(render(found[-1], query.type)))
        if found[-1].counterexample is not None:
            break
    if as_json:
        click.echo(json.dumps(_document(query, sampler, effort, found), ensure_ascii=False))
    return found[-1].counterexample is None


def _progress(line: str) -> None:
    click.echo(line, err=True)


def _document(query: Query, sampler: Sampler, effort: Effort, found: list[Verified]) -> dict[str, object]:
    rows = {name: {"used": sampler.wanted[name], "of": len(rows)} for name, rows in sampler.data.items()}
    head = {"line": query.span.line, "type": type_name(query.type), "seed": effort.seed, "rows": rows}
    return {**head, "verified": list(map(document, found))}

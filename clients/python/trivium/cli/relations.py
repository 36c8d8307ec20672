"""Prints the facts about the entity that a segment represents."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import click

from trivium.cli.output import day, plain
from trivium.client import Client
from trivium.values import Fact, FactClosing, Segment


@dataclass(frozen=True, slots=True)
class Related:
    """The facts about the entity that a segment represents; empty if it represents none."""

    id: str
    entity: str
    facts: list[Fact]


def related_to(client: Client, segment: Segment) -> Related:
    """Reads all facts about the entity of a segment, in the order of the output."""
    entity = segment.entity
    facts = sorted(client.list_facts(entities=[entity]), key=_line) if entity else []
    return Related(segment.id, entity, facts)


def print_relations(related: Related) -> None:
    """Prints one fact per line to stdout, or to stderr that there are none."""
    for fact in related.facts:
        click.echo(plain(_line(fact)))
    if not related.entity:
        click.echo(f"{plain(related.id)}: represents no entity", err=True)
    elif not related.facts:
        click.echo(f"{plain(related.id)}: has no relations", err=True)


def _line(fact: Fact) -> str:
    closing = _closing(fact)
    times = [
        _when("from", fact.valid_from),
        _when("until", fact.valid_to) if closing is None else _until(closing),
        _when("retracted", fact.retracted_at),
    ]
    when = ", ".join(filter(None, times))
    line = f"{fact.subject} -[{fact.relation}]-> {fact.object}"
    return f"{line}  ({when})" if when else line


def _closing(fact: Fact) -> FactClosing | None:
    """The closing that ended the fact; None if its own `valid_to` is earlier."""
    lasting = (closing for closing in fact.closings if closing.retracted_at is None)
    first = min(lasting, key=lambda closing: closing.at, default=None)
    ended_before = first is not None and fact.valid_to is not None and fact.valid_to <= first.at
    return None if ended_before else first


def _until(closing: FactClosing) -> str:
    return f"until {day(closing.at)}, closed by {closing.fact_id}"


def _when(name: str, instant: datetime | None) -> str:
    return f"{name} {day(instant)}" if instant else ""

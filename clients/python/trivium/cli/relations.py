"""Shows the relations of what a segment stands for."""

from __future__ import annotations

from dataclasses import dataclass

import click

from trivium.cli.output import day, plain
from trivium.client import Client
from trivium.values import Fact, Segment


@dataclass(frozen=True, slots=True)
class Related:
    """The facts about the entity that a segment stands for; empty if it stands for none."""

    id: str
    entity: str
    facts: list[Fact]


def related_to(client: Client, segment: Segment) -> Related:
    """Reads all facts about what the segment stands for, in the order they are shown in."""
    entity = segment.entity
    facts = sorted(client.list_facts(entities=[entity]), key=_line) if entity else []
    return Related(segment.id, entity, facts)


def print_relations(related: Related) -> None:
    """Shows one relation a line on stdout, and on stderr that there is none."""
    for fact in related.facts:
        click.echo(plain(_line(fact)))
    if not related.entity:
        click.echo(f"{plain(related.id)}: stands for no entity", err=True)
    elif not related.facts:
        click.echo(f"{plain(related.id)}: has no relations", err=True)


def _line(fact: Fact) -> str:
    times = {"from": fact.valid_from, "until": fact.valid_to, "retracted": fact.retracted_at}
    when = ", ".join(f"{name} {day(instant)}" for name, instant in times.items() if instant)
    line = f"{fact.subject} -[{fact.relation}]-> {fact.object}"
    return f"{line}  ({when})" if when else line

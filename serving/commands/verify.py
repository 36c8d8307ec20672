"""`trivium-server verify`: compares what is derived from PostgreSQL with it, and repairs it."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

import click

from serving.adapters.neo4j.contents import open_contents
from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.log.verification import PostgresTruth
from serving.commands.database import brief_errors, in_database
from serving.composition.stores import graph_settings
from serving.config.settings import Settings
from serving.desk.embedded_neo4j import EmbeddedNeo4j, running_address
from serving.pipeline.writes.verification import Verification, Verifier
from serving.ports.verification import Finding

MAX_NAMED = 10
"""The most items that are named for each difference."""

Result = TypeVar("Result")


def run(settings: Settings, *, repair: bool) -> bool:
    """Compares the stores, and repairs what differs if asked; whether nothing differs any more."""

    async def compare(verifier: Verifier) -> tuple[Verification, Verification]:
        found = await verifier.verify()
        return found, await verifier.repair(found) if repair and found.findings else found

    found, left = _with_verifier(settings, compare)
    _say(found)
    if left is found:
        return not found.findings
    if not left.followed:
        click.echo("repairs are logged; the projections follow when the service runs")
        return False
    click.echo(f"{len(found.findings) - len(left.findings)} differences repaired")
    for line in lines_of(left.findings):
        click.echo(f"still {line}")
    return not left.findings


def rebuild_graph(settings: Settings) -> bool:
    """Writes the whole graph anew; prints how it compares then, and returns whether it agrees."""
    left = _with_verifier(settings, lambda verifier: verifier.rebuild_graph())
    _say(left)
    return not left.findings


def rebuild_index(settings: Settings) -> None:
    """Begins a new epoch of the log, in which each index is filled anew."""
    in_database(settings, lambda database: PostgresTruth(database).begin_epoch())
    click.echo(
        "each index is filled anew, which `trivium stats` shows; until then its legs say that "
        "they are not ready. Tokens of earlier writes are no longer valid."
    )


def lines_of(findings: Sequence[Finding]) -> list[str]:
    """A line for each tenant, store and difference, with the first of the items."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for each in findings:
        of_tenant = f"tenant {each.tenant!r}" if each.tenant else "no tenant"
        subject = each.subject
        name = subject if isinstance(subject, str) else f"{subject.kind} {subject.id}"
        # Callers choose ids: what would control the terminal is shown as an escape.
        groups[f"{of_tenant}, {each.store}: {each.difference}"].append(repr(name)[1:-1])
    lines = []
    for group, names in groups.items():
        more = ", ..." if len(names) > MAX_NAMED else ""
        lines.append(f"{group}: {len(names)} ({', '.join(names[:MAX_NAMED])}{more})")
    return lines


def _say(found: Verification) -> None:
    for tenant, count in found.items.items():
        differing = sum(finding.tenant == tenant for finding in found.findings)
        click.echo(f"tenant {tenant!r}: {count} items, {differing} differences")
    if not found.items:
        click.echo("nothing is stored")
    for line in lines_of(found.findings):
        click.echo(line)
    if not found.followed:
        click.echo(
            "the projections are behind the log, so some of this may not be projected yet; "
            "`trivium stats` shows how far they are"
        )


def _with_verifier(settings: Settings, work: Callable[[Verifier], Awaitable[Result]]) -> Result:
    with brief_errors(), _with_graph(settings) as connected:

        async def compare(database: Database) -> Result:
            async with open_contents(graph_settings(connected)) as graph:
                return await work(Verifier(PostgresTruth(database), graph))

        return in_database(settings, compare)


@contextlib.contextmanager
def _with_graph(settings: Settings) -> Iterator[Settings]:
    """The settings with the address of Neo4j; that of the desk is started if it does not run."""
    if settings.neo4j.uri is not None:
        yield settings
        return
    root = settings.data_dir / "neo4j"
    uri = running_address(root)
    with contextlib.ExitStack() as stack:
        uri = uri or stack.enter_context(EmbeddedNeo4j(root, settings.cache_dir))
        neo4j = settings.neo4j.model_copy(update={"uri": uri})
        yield settings.model_copy(update={"neo4j": neo4j})

"""`trivium show`, `describe`, `watch`, `stats` and `forget`: reads and erases stored items."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import click
from rich.console import Group
from rich.table import Table
from rich.text import Text

from trivium.cli.answer import styled_block
from trivium.cli.connection import Connection, pass_connection
from trivium.cli.exits import Exit
from trivium.cli.output import (
    day,
    json_option,
    plain,
    print_json,
    stdout,
    styled,
    table,
)
from trivium.cli.ranking import Time, as_of_option, filter_option, known_at_option
from trivium.cli.relations import Related, print_relations, related_to
from trivium.values import (
    Filter,
    ForgetResult,
    IndexTier,
    Segment,
    Stats,
    TenantStats,
    TimeRange,
)


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option(
    "--neighbours",
    is_flag=True,
    help="Show the facts about the entity that each ID represents, such as a file.",
)
@json_option
@pass_connection
@click.pass_context
def show(
    ctx: click.Context,
    connection: Connection,
    ids: Sequence[str],
    neighbours: bool,
    as_json: bool,
) -> None:
    """Shows segments by id, or the facts about the entities they represent.

    Exits with 1 if a segment does not exist or, with --neighbours, represents no
    entity.
    """
    with connection.open() as client:
        found = client.get_segments(ids)
        related = [related_to(client, each) for each in found.segments] if neighbours else []
    if not as_json:
        _print_found([] if neighbours else found.segments, related, found.missing_ids)
    elif neighbours:
        print_json({"neighbours": related, "missing_ids": found.missing_ids})
    else:
        print_json(found)
    lacking = found.missing_ids or not all(each.entity for each in related)
    ctx.exit(Exit.UNSATISFIED if lacking else Exit.OK)


@click.command()
@click.option("--speaker", default="", metavar="NAME", help="A speaker, and their statements.")
@click.option("--entity", default="", metavar="NAME", help="A person or a thing, instead.")
@as_of_option
@known_at_option
@click.option(
    "--max-chars", default=0, metavar="N", help="The length of the block.  [default: 2000]"
)
@json_option
@pass_connection
@click.pass_context
def describe(
    ctx: click.Context,
    connection: Connection,
    /,
    speaker: str,
    entity: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Shows what holds now about somebody: facts, and the newest statements.

    Exits with 1 if nothing is known.
    """
    if bool(speaker) == bool(entity):
        raise click.UsageError("give either --speaker or --entity")
    with connection.open() as client:
        found = client.describe(speaker=speaker, entity=entity, **options)
    if as_json:
        print_json(found)
    else:
        stdout().print(styled_block(found.briefing) or Text("nothing is known", "dim"))
    ctx.exit(Exit.OK if found.briefing else Exit.UNSATISFIED)


@click.command()
@click.option(
    "--after-token", default="", metavar="TOKEN", help="Go on from there.  [default: now]"
)
@json_option
@pass_connection
def watch(connection: Connection, after_token: str, as_json: bool) -> None:
    """Shows which items change, until it is interrupted: a line for each.

    The end of a line is the token to go on from.
    """
    with connection.open() as client:
        for changed in client.watch_changes(after_token):
            for each in changed.changes:
                if as_json:
                    print_json(each, indent=None)
                else:
                    item = f"{each.item.kind.value} {plain(each.item.id)}"
                    click.echo(f"{each.change.value} {item} {each.token}")


@click.command()
@json_option
@pass_connection
def stats(connection: Connection, as_json: bool) -> None:
    """Shows item counts, the lag of each projection, and the state of the service."""
    with connection.open() as client:
        result = client.stats()
    if as_json:
        print_json(result)
    else:
        stdout().print(_stats(result))


def _to_labels(
    ctx: click.Context, parameter: click.Parameter, given: Sequence[str]
) -> Mapping[str, Sequence[str]]:
    """Parses `KEY=VALUE`; the first `=` ends the key.

    Raises:
        click.BadParameter: A label has no key or no `=`.
    """
    labels: defaultdict[str, list[str]] = defaultdict(list)
    for label in given:
        key, equals, value = label.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"expected KEY=VALUE, got {label!r}", ctx, parameter)
        labels[key].append(value)
    return labels


def _to_filter(
    labels: Mapping[str, Sequence[str]],
    start: datetime | None,
    end: datetime | None,
    given: Filter | None,
) -> Filter | None:
    """The filter of an erasure; None if nothing restricts it."""
    times = None if start is None and end is None else TimeRange(start, end)
    if not labels and times is None:
        return given
    return Filter(labels=labels, event_time=times, all_of=[given] if given else [])


@click.command()
@click.option("--segment-id", default="", metavar="ID", help="The segment to change.")
@click.option("--fact-id", default="", metavar="ID", help="The fact to change.")
@click.option("--text", help="The text, or the sentence of a fact.")
@click.option("--title", help="The title.")
@click.option("--importance", type=float, help="The importance, 0 to 1.")
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_to_labels,
    help="Add a label, or give it another value.",
)
@click.option("--remove-label", "remove_labels", multiple=True, metavar="KEY", help="Remove it.")
@click.option("--expires-at", type=Time(), help="When it expires.")
@click.option("--never-expires", is_flag=True, help="Remove its expiry.")
@click.option("--if-version", type=int, help="Only if it has this version.")
@json_option
@pass_connection
def patch(
    connection: Connection,
    /,
    segment_id: str,
    fact_id: str,
    labels: Mapping[str, Sequence[str]],
    as_json: bool,
    **changes: Any,
) -> None:
    """Changes some fields of a stored item, and leaves the others as they are.

    A new text is embedded, and read for entities and times, as by ingest.
    """
    if bool(segment_id) == bool(fact_id):
        raise click.UsageError("exactly one of --segment-id and --fact-id is required")
    with connection.open() as client:
        result = client.patch(
            segment_id=segment_id,
            fact_id=fact_id,
            set_labels={key: values[-1] for key, values in labels.items()},
            **changes,
        )
    if as_json:
        print_json(result)
        return
    if isinstance(result.item, Segment):
        stdout().print(_segment(result.item))
    elif result.item is not None:
        stdout().print(styled(result.item.statement))
    click.echo(f"consistency token {plain(result.consistency_token)}")


@click.command()
@click.option("--segment-id", "segment_ids", multiple=True, metavar="ID", help="A segment.")
@click.option("--fact-id", "fact_ids", multiple=True, metavar="ID", help="A fact.")
@click.option("--session", default="", metavar="NAME", help="All items of a session.")
@click.option("--speaker", default="", metavar="NAME", help="All items of a speaker.")
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_to_labels,
    help="All segments with a label; several of one key are alternatives.",
)
@click.option("--from", "start", type=Time(), help="All segments of this time or later.")
@click.option("--until", "end", type=Time(), help="All segments of before this time.")
@filter_option
@click.option("--everything", is_flag=True, help="All items of the tenant.")
@click.option("--dry-run", is_flag=True, help="Erase nothing; count what would be erased.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
@pass_connection
@click.pass_context
def forget(
    ctx: click.Context,
    connection: Connection,
    /,
    labels: Mapping[str, Sequence[str]],
    start: datetime | None,
    end: datetime | None,
    filter: Filter | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    **selected: Any,
) -> None:
    """Erases items from every store, and verifies each store.

    --label, --from, --until and --filter are combined: all must hold. Facts are erased
    with the last segment that supports them. A speaker is meant by its exact
    name, whatever its case and white space: --dry-run counts the segments of
    each name.

    Exits with 1 if a store could not be verified or still has erased items.
    """
    selection = _to_filter(labels, start, end, filter)
    by_ids = selected["segment_ids"] or selected["fact_ids"]
    by_name = (selected["session"], selected["speaker"], selected["everything"])
    if sum(map(bool, (by_ids, *by_name, selection))) != 1:
        raise click.UsageError(
            "exactly one of ids, --session, --speaker, --label, --from, --until and --filter, "
            "and --everything is required"
        )
    with connection.open() as client:
        if not (yes or dry_run):
            segments = _described_filter(labels, selection, filter) if selection else ""
            what = _described(segments, **selected)
            click.confirm(f"Erase {what} of {plain(client.tenant)!r}?", abort=True, err=True)
        result = client.forget(filter=selection, dry_run=dry_run, **selected)
    if as_json:
        print_json(result)
    elif dry_run:
        stdout().print(_counted(result))
    else:
        stdout().print(_receipt(result))
        click.echo(f"consistency token {plain(result.consistency_token)}")
    ctx.exit(Exit.OK if result.verified else Exit.UNSATISFIED)


def _print_found(
    segments: Sequence[Segment], related: Sequence[Related], missing_ids: Sequence[str]
) -> None:
    for segment in segments:
        stdout().print(_segment(segment))
    for each in related:
        print_relations(each)
    for id_ in missing_ids:
        click.echo(f"{plain(id_)}: not found", err=True)


def _segment(segment: Segment) -> Group:
    fields = {
        "title": segment.title,
        "kind": segment.kind,
        "speaker": segment.speaker,
        "session": segment.session,
        "said": segment.event_time.isoformat() if segment.event_time else "",
        "importance": "" if segment.importance is None else f"{segment.importance:g}",
        "sensitive": "yes" if segment.sensitive else "",
        "labels": ", ".join(f"{key}={value}" for key, value in segment.labels.items()),
        "entities": ", ".join(segment.entities),
        "entity": segment.entity,
        "keywords": ", ".join(segment.keywords),
        "changed": segment.updated_at.isoformat() if segment.updated_at else "",
        "expires": segment.expires_at.isoformat() if segment.expires_at else "",
        "version": str(segment.version or ""),
    }
    about = Table.grid(padding=(0, 2))
    for name, value in fields.items():
        if value:
            about.add_row(Text(name, style="dim"), styled(value))
    return Group(styled(segment.id, "bold"), styled(segment.text), about, Text())


def _stats(stats: Stats) -> Group:
    index, service = stats.index, stats.service
    about = Table.grid(padding=(0, 2))
    for name, value in {
        **_counts(stats.tenant),
        "vector index": f"{index.vector_count} vectors, epoch {index.epoch}"
        if index.ready
        else f"not ready: {index.reason}",
        **{f"vectors of {tier.kind}s": _tier(tier) for tier in index.tiers},
        "service": f"{service.version}, {service.placement}, by {service.ingress}",
        "model": f"{service.model_fingerprint}, {service.dimension} dimensions",
        "since": service.started_at.isoformat() if service.started_at else "",
        "degraded": "; ".join(service.degraded) or "nothing",
    }.items():
        about.add_row(Text(name, style="dim"), styled(str(value)))
    parts = [_projections(stats), *_legs(stats), *_dead_letters(stats)]
    return Group(about, Text(), *parts)


def _counts(tenant: TenantStats | None) -> dict[str, object]:
    if tenant is None:
        return {"stored": "unknown: not counted in time"}
    unreachable = tenant.entity_count is None
    return {
        "segments": f"{tenant.segment_count} ({tenant.sensitive_segment_count} sensitive)",
        "facts": tenant.fact_count,
        "entities": "unknown: the graph is unreachable" if unreachable else tenant.entity_count,
        "embedded": f"{tenant.embedded_count} of {tenant.embeddable_count}",
        "text search": tenant.text_search_config or "no such tenant",
        "time zone": tenant.time_zone or "unknown",
    }


def _tier(tier: IndexTier) -> str:
    how = f"{tier.vector_count}, searched {'approximately' if tier.approximate else 'exactly'}"
    notes = [f"rebuild: {note}" for note in (tier.rebuilding, tier.failure) if note]
    return "; ".join([how, *notes])


def _projections(stats: Stats) -> Table:
    rows = table("projection", "pending", "oldest", "dead letters")
    for each in stats.projections:
        oldest = f"{each.lag.total_seconds():.1f} s"
        rows.add_row(each.projection, str(each.pending_count), oldest, str(each.dead_letter_count))
    return rows


def _legs(stats: Stats) -> list[Table]:
    if not stats.legs:
        return []
    rows = table("leg, last 5 minutes", "answers", "timed out", "failed", "skipped", "p50", "p95")
    for each in stats.legs:
        counts = (each.answer_count, each.timed_out_count, each.failed_count, each.skipped_count)
        latencies = [f"{1e3 * of.total_seconds():.1f} ms" for of in (each.p50, each.p95)]
        rows.add_row(each.leg, *map(str, counts), *latencies)
    return [rows]


def _dead_letters(stats: Stats) -> list[Table]:
    if not stats.dead_letters:
        return []
    rows = table("dead letters", "id", "on", "why")
    for each in stats.dead_letters:
        rows.add_row(
            each.projection, styled(each.item.id), day(each.dead_lettered_at), styled(each.reason)
        )
    return [rows]


def _described(
    filter_: str,
    *,
    segment_ids: Sequence[str],
    fact_ids: Sequence[str],
    session: str,
    speaker: str,
    everything: bool,
) -> str:
    if everything:
        return "EVERYTHING"
    if session:
        return f"the session {plain(session)!r}"
    if speaker:
        return f"all items of the speaker {plain(speaker)!r}"
    return filter_ or f"{len(segment_ids)} segments and {len(fact_ids)} facts"


def _described_filter(
    labels: Mapping[str, Sequence[str]], selection: Filter, given: Filter | None
) -> str:
    times = TimeRange() if selection is given else selection.event_time or TimeRange()
    parts = [
        "that pass --filter" if given else "",
        *(f"with {key}={' or '.join(values)}" for key, values in labels.items()),
        f"from {times.start.isoformat()}" if times.start else "",
        f"until {times.end.isoformat()}" if times.end else "",
    ]
    return plain(" ".join(["all segments", *filter(None, parts)]))


def _counted(result: ForgetResult) -> Group:
    """A preview of an erasure; names in quotes, since they may differ by a space or a sign."""
    rows = table("speaker", "segments")
    for speaker, count in result.segments_by_speaker.items():
        rows.add_row(styled(f'"{speaker}"' if speaker else "none"), str(count))
    total = f"Would erase {result.segment_count} segments and {result.fact_count} facts."
    return Group(Text(total), *([rows] if result.segments_by_speaker else []))


def _receipt(result: ForgetResult) -> Group:
    rows = table("store", "verified", "removed", "remaining", "asked for", "reason")
    for each in result.receipts:
        verified = "yes" if each.verified else "not yet"
        counts = map(str, (each.removed_count, each.remaining_count))
        asked = ", ".join(f"{lookup.asked_count} by {lookup.key}" for lookup in each.lookups)
        rows.add_row(each.store, verified, *counts, asked, styled(each.reason))
    erased = f"Erased {result.segment_count} segments and {result.fact_count} facts."
    return Group(Text(erased), rows)

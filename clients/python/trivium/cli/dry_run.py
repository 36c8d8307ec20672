"""What `trivium forget` would erase, counted without erasing anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Group
from rich.text import Text

from trivium.cli.output import styled, table
from trivium.client import Client
from trivium.values import Filter


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """The items that would be erased; `segments_by_speaker` has each name as it is written."""

    segment_count: int
    fact_count: int
    segments_by_speaker: Mapping[str, int]


def count_items(
    client: Client,
    *,
    segment_ids: Sequence[str],
    fact_ids: Sequence[str],
    session: str,
    speaker: str,
    filter_: Filter | None,
) -> DryRun:
    """Counts the items that an erasure with the same selection would erase now.

    It reads them, which the service allows to whoever may read: a service of an earlier version
    would ignore a request not to erase. Without a selection it counts all items.
    """
    if session:
        filter_ = Filter(sessions=[session])
    elif speaker:
        filter_ = Filter(speakers=[speaker])
    by_ids = bool(segment_ids or fact_ids)
    selected = (
        client.get_segments(segment_ids).segments
        if segment_ids
        else ()
        if by_ids
        else client.list_segments(filter=filter_)
    )
    speakers: Counter[str] = Counter()
    gone = set(segment_ids)  # an id that is not stored withdraws its evidence too
    for segment in selected:
        speakers[segment.speaker] += 1
        gone.add(segment.id)
    everything = not by_ids and filter_ is None
    facts = sum(
        everything
        or fact.id in fact_ids
        or (bool(fact.evidence) and gone.issuperset(fact.evidence))
        for fact in client.list_facts()
    )
    return DryRun(
        segment_count=speakers.total(),
        fact_count=facts,
        segments_by_speaker=dict(speakers.most_common()),
    )


def shown(found: DryRun) -> Group:
    """The counts as a table; names in quotes, since they may differ by a space or a sign."""
    rows = table("speaker", "segments")
    for speaker, count in found.segments_by_speaker.items():
        rows.add_row(styled(f'"{speaker}"' if speaker else "none"), str(count))
    total = f"Would erase {found.segment_count} segments and {found.fact_count} facts."
    return Group(Text(total), *([rows] if found.segments_by_speaker else []))

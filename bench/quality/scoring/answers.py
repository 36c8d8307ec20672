"""Converts an answer into the segments to score, and those in the prompt block."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from serving.domain.briefing import inert
from trivium.values import BriefingOptions, Fact, Hit, Retrieval

DEPTH = 10
"""The depth of a ranked list for the metrics."""

BRIEFING_CHARS = 2000
"""The length of the block for a prompt within which evidence is looked for."""

BRIEFING = BriefingOptions(max_chars=BRIEFING_CHARS)


def ranked_segments(hits: Iterable[Hit], depth: int = DEPTH) -> list[str]:
    """The ids of segments in the order of hits, each fact as its evidence; at most `depth`."""
    ids = (id_ for hit in hits for id_ in _segments_of(hit))
    return list(dict.fromkeys(ids))[:depth]


def briefed_segments(retrieval: Retrieval) -> frozenset[str]:
    """The segments whose whole text is in the block for a prompt; a fact stands for its evidence.

    A text that is cut does not count: what is left out may be what was asked.
    """
    lines = retrieval.briefing.split("\n")
    return frozenset(
        id_ for hit in retrieval.hits if _is_in(lines, hit) for id_ in _segments_of(hit)
    )


def _is_in(lines: Sequence[str], hit: Hit) -> bool:
    if isinstance(hit.item, Fact):
        shown = f" {inert(hit.item.sentence or hit.item.relation)}"
    elif hit.item.speaker:
        shown = f'"{inert(hit.item.text)}"'
    else:
        shown = f" {inert(hit.item.text)}"
    return any(line.startswith("- ") and shown in line for line in lines)


def _segments_of(hit: Hit) -> Sequence[str]:
    return hit.item.evidence if isinstance(hit.item, Fact) else (hit.id,)

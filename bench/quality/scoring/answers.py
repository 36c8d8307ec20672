"""Converts an answer into the segments to score, and those in the prompt block."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trivium.values import BriefingOptions, Fact, Hit, Retrieval

DEPTH = 10
"""How much of a ranked list the metrics look at."""

BRIEFING_CHARS = 2000
"""The length of the block for a prompt within which evidence is looked for."""

BRIEFING = BriefingOptions(max_chars=BRIEFING_CHARS)

_LINE = "- "
"""How a line of the block begins that shows a hit; none of its first and last lines does."""


def ranked_segments(hits: Iterable[Hit], depth: int = DEPTH) -> list[str]:
    """The ids of segments in the order of hits, each fact as its evidence; at most `depth`."""
    ids = (id_ for hit in hits for id_ in _segments_of(hit))
    return list(dict.fromkeys(ids))[:depth]


def briefed_segments(retrieval: Retrieval) -> frozenset[str]:
    """The segments whose line is in the block for a prompt; a fact's line is its evidence's.

    The service writes a line for each hit, in their order, until the next would not fit. So the
    block shows as many hits as it has lines, and these are the first. A long text's line is cut at
    its end, and counts.

    Raises:
        ValueError: The block has more lines than there are hits, and was not written so.
    """
    shown = sum(line.startswith(_LINE) for line in retrieval.briefing.split("\n"))
    if shown > len(retrieval.hits):
        raise ValueError(f"a block of {shown} lines shows {len(retrieval.hits)} hits")
    return frozenset(id_ for hit in retrieval.hits[:shown] for id_ in _segments_of(hit))


def _segments_of(hit: Hit) -> Sequence[str]:
    return hit.item.evidence if isinstance(hit.item, Fact) else (hit.id,)

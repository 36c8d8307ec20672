from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bench.quality.scoring.answers import briefed_segments, ranked_segments
from serving.domain.briefing import BriefingLimits, briefing
from serving.domain.items.records import Segment as StoredSegment
from tests.unit.bench.quality.scoring.answers import fact_of, hit, retrieval, segment_of


def stored_segment(place: int, text: str) -> StoredSegment:
    return StoredSegment(id=f"s{place}", text=text, event_time=datetime(2026, 3, 1, tzinfo=UTC))


def test_fact_counts_as_its_evidence() -> None:
    hits = [hit(1, segment_of("s1")), hit(2, fact_of("s9", "s3")), hit(3, segment_of("s2"))]

    assert ranked_segments(hits) == ["s1", "s9", "s3", "s2"]


def test_repeated_segment_keeps_its_best_rank() -> None:
    hits = [hit(1, fact_of("s2", "s1")), hit(2, segment_of("s1")), hit(3, segment_of("s3"))]

    assert ranked_segments(hits) == ["s2", "s1", "s3"]


def test_ranked_list_is_cut_at_segments() -> None:
    hits = [hit(1, fact_of("s1", "s2", "s3")), hit(2, segment_of("s4"))]

    assert ranked_segments(hits, depth=2) == ["s1", "s2"]


@pytest.mark.parametrize(
    "text",
    [
        "Short.",
        "Two\nlines\r\nand\u2028more\x85here.",
        "- like a line\n- of the block",
        "Long. " * 100,
        "</memory>\n- ",
        " \n",
    ],
)
def test_briefed_segments_match_the_briefing(text: str) -> None:
    texts = ["First.", text, "Third. " * 30, "Fourth."]
    stored = [stored_segment(place, each) for place, each in enumerate(texts)]
    hits = [hit(place + 1, segment_of(each.id)) for place, each in enumerate(stored)]

    for fitting in range(len(texts) + 1):
        block = briefing(stored[:fitting], BriefingLimits())
        found = briefed_segments(retrieval(hits, briefing=block))
        assert found == {f"s{place}" for place in range(fitting)}


def test_hit_beyond_the_briefing_is_not_briefed() -> None:
    stored = [stored_segment(place, "word " * 40) for place in range(4)]
    hits = [hit(place + 1, segment_of(each.id)) for place, each in enumerate(stored)]

    block = briefing(stored, BriefingLimits(max_chars=600))

    assert 0 < block.count("\n- ") < 4
    assert briefed_segments(retrieval(hits, briefing=block)) == {
        f"s{place}" for place in range(block.count("\n- "))
    }


def test_line_of_a_fact_briefs_its_evidence() -> None:
    hits = [hit(1, fact_of("s9", "s3")), hit(2, segment_of("s1"))]

    assert briefed_segments(retrieval(hits, briefing="<memory>\n- a fact\n</memory>")) == {
        "s9",
        "s3",
    }


def test_missing_briefing_shows_nothing() -> None:
    assert briefed_segments(retrieval([hit(1, segment_of("s1"))])) == frozenset()


def test_briefing_longer_than_the_hits_is_refused() -> None:
    with pytest.raises(ValueError, match="a block of 2 lines shows 1 hits"):
        briefed_segments(retrieval([hit(1, segment_of("s1"))], briefing="- a\n- b"))

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bench.quality.scoring.answers import briefed_segments, ranked_segments
from serving.domain.briefing import BriefingLimits, briefing
from serving.domain.items.records import Segment as StoredSegment
from tests.unit.bench.quality.scoring.answers import hit, known, retrieval, said


def stored_segment(place: int, text: str) -> StoredSegment:
    return StoredSegment(id=f"s{place}", text=text, event_time=datetime(2026, 3, 1, tzinfo=UTC))


def test_a_fact_counts_as_its_evidence_in_stored_order() -> None:
    hits = [hit(1, said("s1")), hit(2, known("s9", "s3")), hit(3, said("s2"))]

    assert ranked_segments(hits) == ["s1", "s9", "s3", "s2"]


def test_a_segment_keeps_its_best_place() -> None:
    hits = [hit(1, known("s2", "s1")), hit(2, said("s1")), hit(3, said("s3"))]

    assert ranked_segments(hits) == ["s2", "s1", "s3"]


def test_the_list_is_cut_at_segments_and_not_at_hits() -> None:
    hits = [hit(1, known("s1", "s2", "s3")), hit(2, said("s4"))]

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
def test_what_is_in_the_block_is_found_in_the_block_that_the_service_writes(text: str) -> None:
    texts = ["First.", text, "Third. " * 30, "Fourth."]
    stored = [stored_segment(place, each) for place, each in enumerate(texts)]
    hits = [hit(place + 1, said(each.id)) for place, each in enumerate(stored)]

    for fitting in range(len(texts) + 1):
        block = briefing(stored[:fitting], BriefingLimits())
        found = briefed_segments(retrieval(hits, briefing=block))
        assert found == {f"s{place}" for place in range(fitting)}


def test_a_hit_beyond_the_end_of_the_block_is_not_in_it() -> None:
    stored = [stored_segment(place, "word " * 40) for place in range(4)]
    hits = [hit(place + 1, said(each.id)) for place, each in enumerate(stored)]

    block = briefing(stored, BriefingLimits(max_chars=600))

    assert 0 < block.count("\n- ") < 4
    assert briefed_segments(retrieval(hits, briefing=block)) == {
        f"s{place}" for place in range(block.count("\n- "))
    }


def test_the_line_of_a_fact_is_that_of_all_its_evidence() -> None:
    hits = [hit(1, known("s9", "s3")), hit(2, said("s1"))]

    assert briefed_segments(retrieval(hits, briefing="<memory>\n- a fact\n</memory>")) == {
        "s9",
        "s3",
    }


def test_no_block_shows_nothing() -> None:
    assert briefed_segments(retrieval([hit(1, said("s1"))])) == frozenset()


def test_a_block_with_more_lines_than_hits_is_refused() -> None:
    with pytest.raises(ValueError, match="a block of 2 lines shows 1 hits"):
        briefed_segments(retrieval([hit(1, said("s1"))], briefing="- a\n- b"))

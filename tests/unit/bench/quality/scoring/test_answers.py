from __future__ import annotations

import pytest

from bench.quality.scoring.answers import briefed_segments, ranked_segments
from serving.domain.briefing import BlockForm, BriefingLimits, briefing
from serving.domain.items.records import Segment as StoredSegment
from tests.fakes.retrievals import retrieval
from tests.support.builders import NOON, query
from trivium.values import Fact, Segment


def segment_of(id_: str) -> Segment:
    return Segment(id=id_, text="...")


def fact_of(*evidence: str) -> Fact:
    return Fact(id="f", subject="a", relation="knows", object="b", evidence=evidence)


def test_fact_counts_as_its_evidence() -> None:
    found = retrieval(segment_of("s1"), fact_of("s9", "s3"), segment_of("s2"))

    assert ranked_segments(found.hits) == ["s1", "s9", "s3", "s2"]


@pytest.mark.parametrize(
    "text",
    [
        "Short.",
        "Two\nlines\r\nand\u2028more\x85here.",
        "- like a line\n- of the block",
        "</memory>\n- ",
        'She said "no".',
    ],
)
@pytest.mark.parametrize("speaker", ["Mia", ""])
@pytest.mark.parametrize("form", list(BlockForm))
def test_whole_text_in_the_block_is_briefed(text: str, speaker: str, form: BlockForm) -> None:
    texts = {"s1": "First.", "s2": text, "s3": "Third. " * 30}
    hits = [Segment(id=id_, text=each, speaker=speaker) for id_, each in texts.items()]
    stored = [
        StoredSegment(id=id_, text=each, speaker=speaker, event_time=NOON)
        for id_, each in texts.items()
    ]
    limits = BriefingLimits(max_line_chars=200)

    for fitting in range(len(texts) + 1):
        block = briefing(stored[:fitting], query(""), limits, form)
        found = briefed_segments(retrieval(*hits, briefing=block))
        assert found == {"s1", "s2"} & {each.id for each in stored[:fitting]}


def test_line_of_a_fact_briefs_its_evidence() -> None:
    hits = (fact_of("s9", "s3"), segment_of("s1"))

    block = "<memory>\n- Since Sun 1 March 2026: a knows b\n</memory>"
    assert briefed_segments(retrieval(*hits, briefing=block)) == {"s9", "s3"}

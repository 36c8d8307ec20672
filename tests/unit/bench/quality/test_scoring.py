"""Measures of answers, and their intervals."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from bench.harness.collection import Query, read_collection
from bench.harness.results import Record
from bench.quality import blocks, slices
from bench.quality.scoring import metrics
from bench.quality.scoring.evaluate import score
from bench.quality.scoring.gate import Row, StoredError, compare, read_rows, verdict, write_rows
from bench.quality.scoring.intervals import Estimate, mean_interval, paired_difference
from bench.quality.scoring.summary import overview
from serving.domain.briefing import BlockForm, BriefingLimits, briefing
from serving.domain.items.records import Segment as StoredSegment
from tests.fakes.retrievals import retrieval
from tests.support.builders import NOON, query
from trivium.values import Fact, ItemKind, ItemRef, Segment


def segment_of(id_: str) -> Segment:
    return Segment(id=id_, text="...")


def fact_of(*evidence: str) -> Fact:
    return Fact(id="f", subject="a", relation="knows", object="b", evidence=evidence)


def test_fact_counts_as_its_evidence() -> None:
    found = retrieval(segment_of("s1"), fact_of("s9", "s3"), segment_of("s2"))

    assert metrics.ranked_segments(found.hits) == ["s1", "s9", "s3", "s2"]


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
        found = metrics.briefed_segments(retrieval(*hits, briefing=block))
        assert found == {"s1", "s2"} & {each.id for each in stored[:fitting]}


def test_line_of_a_fact_briefs_its_evidence() -> None:
    hits = (fact_of("s9", "s3"), segment_of("s1"))

    block = "<memory>\n- Since Sun 1 March 2026: a knows b\n</memory>"
    assert metrics.briefed_segments(retrieval(*hits, briefing=block)) == {"s9", "s3"}


TEN_CHATS = [f"chat-{number}" for number in range(10) for _ in range(20)]
"""The chat of each of 200 questions."""
BY_CHAT = [float(number < 5) for number in range(10) for _ in range(20)]
"""All questions to five chats are answered, and none to the other five."""


def of_one_chat(values: list[float]) -> Estimate:
    return mean_interval(values, ["chat"] * len(values))


def test_interval_draws_whole_conversations() -> None:
    by_question, by_chat = of_one_chat(BY_CHAT), mean_interval(BY_CHAT, TEN_CHATS)

    assert by_question.mean == by_chat.mean == 0.5
    # As of 200 and as of 10 coins: 1.96 * 0.5 / sqrt(n).
    assert by_question.high - by_question.low == pytest.approx(2 * 0.069, abs=0.02)
    assert by_chat.high - by_chat.low == pytest.approx(2 * 0.31, abs=0.1)


def test_five_questions_have_no_interval() -> None:
    few = of_one_chat([-1.0] * 5)

    assert few.mean == -1
    assert math.isnan(few.low)
    assert math.isnan(few.high)
    assert few.as_record() == {"mean": -1, "low": None, "high": None}
    assert of_one_chat([-1.0] * 6).high < 0


def test_paired_difference_is_more_sensitive_than_intervals() -> None:
    old = [number / 100 for number in range(100)]
    new = [value - 0.01 * (number % 2) for number, value in enumerate(old)]
    chats = ["chat"] * len(old)

    assert of_one_chat(new).high > of_one_chat(old).low
    assert paired_difference(new, old, chats).high < 0
    assert paired_difference(old, new, chats).low > 0
    assert paired_difference(new, old, chats).mean == pytest.approx(-0.005)


RANKED = list("abcdef")
RELEVANT = frozenset("bez")


def test_scores_are_as_worked_by_hand() -> None:
    found = metrics.scores(RANKED, RELEVANT, frozenset("bx"))

    assert tuple(found) == metrics.METRICS
    recalls = {"recall@5": 2 / 3, "recall@10": 2 / 3, "all-gold@10": 0, metrics.EVIDENCE: 1 / 3}
    assert found == pytest.approx({**recalls, "ndcg@10": 0.47762, "mrr@10": 0.5}, abs=1e-5)


@pytest.mark.parametrize(
    ("ranked", "first"),
    [("xno", 1), ("xon", 0), ("o", 0), ("xyz", 0), ("xn", 1), ("abcdefghijn", 0)],
)
def test_current_segment_must_precede_outdated_ones(ranked: str, first: float) -> None:
    assert metrics.current_first(ranked, frozenset("n"), frozenset("o")) == first


@pytest.mark.parametrize(
    ("ranked", "whole"),
    [("hkt", 1), ("hxk", 1), ("htk", 0), ("th", 0), ("hx", 0), ("abcdefghijhk", 0)],
)
def test_all_that_holds_must_precede_traps(ranked: str, whole: float) -> None:
    assert metrics.kept(ranked, frozenset("hk"), frozenset("t")) == whole


def test_marks_count_by_their_text() -> None:
    asked = Query(
        id="q",
        tenant="t",
        text="?",
        grades={"a": 2, "b": 1},
        outdated=frozenset("o"),
        holds=frozenset("h"),
    )
    newer = ItemRef(ItemKind.SEGMENT, "n")
    found = retrieval(*map(segment_of, "aohx"))
    hits = tuple(replace(hit, outdated_by=newer) for hit in found.hits)

    scored = score(asked, replace(found, hits=hits))

    assert (scored.marks, scored.scores[metrics.KEPT]) == ((1, 2), 1.0)


def test_overview_has_a_row_for_each_set() -> None:
    records: list[Record] = [
        {
            "n": 8,
            "collection": {"name": name},
            "measured": {
                "recall@10": {"mean": mean, "low": None, "high": None},
                "marks": {"right": 3, "wrong": 0},
                "cpu_ms": 10 * mean,
                "difference": {"recall@10": {"mean": 0.25, "low": 0.125, "high": 0.5}},
            },
        }
        for name in ("boat", "choir")
        for mean in (0.5, 0.75)
    ]

    rows = overview(records).splitlines()[2:]

    gain = "0.750, **+0.250 [+0.125, +0.500]**"
    assert rows == [
        f"| {name} | 8 | {gain} |  |  |  | 3, 0 | 5 -> 7.5 |" for name in ("boat", "choir")
    ]


# ---------------------------------------------------------------- the gate


METRIC = "recall@10"


def rows(values: Iterable[float], way: str = "default", scope: str = "c") -> list[Row]:
    return [
        Row(set="s", way=way, query=f"q{place}", scope=scope, scores={METRIC: value}, ranked=("a",))
        for place, value in enumerate(values)
    ]


STORED = rows([1.0] * 40 + [0.0] * 10)


def losing(count: int) -> list[Row]:
    return rows([0.0] * count + [1.0] * (40 - count) + [0.0] * 10)


@pytest.mark.parametrize(("count", "fell"), [(1, False), (3, False), (4, True), (10, True)])
def test_four_lost_questions_of_fifty_fell(count: int, fell: bool) -> None:
    (compared,) = compare(STORED, losing(count))

    assert compared.fell is fell
    assert compared.stored == 0.8
    assert compared.now == pytest.approx(0.8 - count / 50)


def test_verdict_has_the_difference_and_its_interval() -> None:
    text = verdict(compare(STORED, losing(10)))

    assert "1 of 1 scores of 1 runs fell significantly" in text
    assert "| s: default | recall@10 | 50 | 0.800 | 0.600 | -0.200 [-0.3" in text


def test_loss_in_one_conversation_of_two_passes() -> None:
    def two(values: list[float]) -> list[Row]:
        return [replace(row, scope=str(place % 2)) for place, row in enumerate(rows(values))]

    (compared,) = compare(two([1.0] * 40), two([0.0, 1.0] * 20))

    assert not compared.fell


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (
            rows([1.0] * 50, way="other"),
            "set 's', configuration 'default': is stored, but was not measured",
        ),
        (STORED[:-1], "other questions are stored than were measured: 50 and 49, .* 'q49'"),
        ([*STORED, *rows([1.0] * 51)[50:]], "50 and 51, not in both is 'q50'"),
        (
            [replace(STORED[0], fault="failed: UNAVAILABLE"), *STORED[1:]],
            r"1 measured answers are not whole, such as that to 'q0' \(failed: UNAVAILABLE\)",
        ),
        ([replace(STORED[0], scores={}), *STORED[1:]], "'q0' has no recall@10"),
    ],
)
def test_incomparable_run_is_an_error(now: list[Row], why: str) -> None:
    with pytest.raises(StoredError, match=why):
        compare(STORED, now)


def test_too_few_questions_are_an_error() -> None:
    with pytest.raises(StoredError, match="nothing can be said of 5 questions"):
        compare(rows([1.0] * 5), rows([1.0] * 5))


def test_malformed_row_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    write_rows(path, STORED[:1])
    with path.open("a") as file:
        file.write('{"set": "s"}\n')

    with pytest.raises(StoredError, match=r"rows.jsonl:2: is no stored score"):
        read_rows(path)


def test_metric_of_some_questions_is_compared_over_these() -> None:
    def with_metric(value: float) -> list[Row]:
        extra = {"current-first@10": value}
        return [replace(row, scores={**row.scores, **extra}) for row in STORED[:10]] + STORED[10:]

    compared = {each.metric: each for each in compare(with_metric(1.0), with_metric(0.0))}

    assert compared["current-first@10"].n == 10
    assert compared["current-first@10"].fell
    assert not compared[METRIC].fell


# ---------------------------------------------------------------- the shipped sets


QUERIES = {query.id: query for query in read_collection(blocks.DIARY).judged}
TEXTS = {
    turn["id"]: turn["text"]
    for turn in map(json.loads, (blocks.DIARY / "corpus.jsonl").read_text().splitlines())
}


def test_page_shows_the_blocks_of_the_diary() -> None:
    assert blocks.PAGE.read_text(encoding="utf-8") == blocks.page(), (
        "run `make docs` (python -m bench.quality.blocks)"
    )


def test_every_block_holds_an_answer() -> None:
    made = blocks.blocks(blocks.stored())

    without = [
        query.text
        for query in QUERIES.values()
        if not any(TEXTS[id_][-40:] in made[query.id] for id_ in query.relevant)
    ]
    assert (len(made), without) == (25, [])


def test_changed_answer_comes_before_the_former() -> None:
    found = blocks.stored()

    changed = [query for query in QUERIES.values() if query.outdated]
    first = [
        next(id_ for id_ in found[query.id][0] if id_ in query.current | query.outdated)
        for query in changed
    ]
    assert len(changed) == 8
    assert [id_ for id_, query in zip(first, changed, strict=True) if id_ in query.outdated] == []


ROOT = slices.EXPECTED.parent
MAX_BYTES = 2 << 20


def test_slices_are_small_and_attributed() -> None:
    files = [path for path in ROOT.rglob("*") if path.is_file() and not path.is_symlink()]
    notice = (ROOT / "NOTICE").read_text()

    assert sum(path.stat().st_size for path in files) <= MAX_BYTES
    for owed in ("MuSiQue", "Trivedi", "CC BY 4.0", "2WikiMultihopQA", "Apache", "HippoRAG", "MIT"):
        assert owed in notice

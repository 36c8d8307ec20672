"""The harness of the benchmarks."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.harness.collection import Collection, read_collection
from bench.harness.load import open_loop
from bench.harness.results import number, read_records, table
from bench.holds.sources import read_memory, write_set
from bench.index import searches
from tests.unit.bench.fake_memory import written_set

CORPUS = [
    {"id": "t1", "text": "I sailed to Goa.", "speaker": "Mira", "scope": "chat-1"},
    {"id": "t2", "text": "Goa is warm.", "speaker": "Noam", "scope": "chat-2"},
    {"id": "p1", "text": "Lothair II was a king.", "title": "Teutberga"},
]
FACTS = [
    {"subject": "Mira", "relation": "observation", "object": "Mira likes boats.", "doc_id": "t1",
     "scope": "chat-1"},
]  # fmt: skip
TRIPLES = [
    {"subject": "Mira", "relation": "mentions:Where", "object": "Goa", "doc_id": "t1",
     "scope": "chat-1"},
    {"subject": "Teutberga", "relation": "mentions", "object": "Lothair II", "doc_id": "p1"},
    {"subject": "Lothair II", "relation": "ruled", "object": "Lotharingia", "doc_id": "p1"},
]  # fmt: skip
QUERIES = [
    {"id": "q1", "text": "Where to?", "scope": "chat-1", "as_of": "2024-01-21T07:19:56"},
    {"id": "q2", "text": "Who flew?", "scope": "chat-1", "category": "adversarial"},
    {"id": "q3", "text": "Who ruled?", "category": "bridge", "stratum": "multi-hop"},
    {"id": "q4", "text": "Why?", "category": "bridge"},
]
JUDGMENTS = "q1\tt1\t1\nq1\tt9\t0\nq2\tt1\t1\nq3\tp1\t4\n"


@pytest.fixture
def collection(tmp_path: Path) -> Collection:
    files = {"corpus": CORPUS, "facts": FACTS, "triples": TRIPLES, "queries": QUERIES}
    return read_collection(written_set(tmp_path / "small", JUDGMENTS, **files))


def test_scopes_titles_and_relations_become_memories(collection: Collection) -> None:
    segments, facts = {}, {}
    for tenant, memory in collection.memories.items():
        segments[tenant] = {each.id: set(each.entities) for each in memory.segments}
        facts[tenant] = {
            (fact.subject, fact.relation, fact.object, fact.evidence) for fact in memory.facts
        }

    assert segments == {
        "chat-1": {"t1": {"Mira", "Goa"}},
        "chat-2": {"t2": {"Noam"}},
        "small": {"p1": {"Teutberga", "Lothair II"}},
    }
    assert facts == {
        "chat-1": {("Mira", "observation", "Mira likes boats.", ("t1",))},
        "chat-2": set(),
        "small": {
            ("Teutberga", "mentions", "Lothair II", ("p1",)),
            ("Lothair II", "ruled", "Lotharingia", ("p1",)),
        },
    }


def test_judged_questions_have_tenant_time_and_relevant(collection: Collection) -> None:
    judged = {query.id: (query.tenant, query.as_of, query.relevant) for query in collection.judged}

    assert judged == {
        "q1": ("chat-1", datetime(2024, 1, 21, 7, 19, 56, tzinfo=UTC), frozenset({"t1"})),
        "q3": ("small", None, frozenset({"p1"})),
    }


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    """A folder as the public downloads are."""
    (tmp_path / "qrels").mkdir()
    (tmp_path / "corpus.jsonl").write_text(
        '{"_id": "d1", "title": "Teutberga", "text": "A queen.", "metadata": {"url": "x"}}\n'
        '{"_id": "d2", "title": "", "text": "Goa is warm.", "metadata": {}}\n'
    )
    (tmp_path / "queries.jsonl").write_text(
        '{"_id": "1", "text": "Who reigned?", "metadata": {}}\n'
        '{"_id": "2", "text": "Of another split?", "metadata": {}}\n'
    )
    (tmp_path / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\n1\td1\t2.0\n1\td2\t0\n")
    return tmp_path


def test_a_download_of_beir_is_read_unchanged(beir: Path) -> None:
    collection = read_collection(beir)

    (memory,) = collection.memories.values()
    assert [(each.id, each.title, each.text) for each in memory.segments] == [
        ("d1", "Teutberga", "A queen."),
        ("d2", "", "Goa is warm."),
    ]
    assert [(query.id, query.relevant) for query in collection.judged] == [("1", frozenset({"d1"}))]
    assert collection.problems == []


def test_unreadable_lines_are_named_by_file_and_number(beir: Path) -> None:
    with (beir / "corpus.jsonl").open("a") as corpus:
        corpus.write('{"_id": "d3", "id": "d3", "text": "Twice named."}\n{"id": "d4"}\n')
    with (beir / "queries.jsonl").open("a") as queries:
        queries.write('{"_id": "1", "text": "Again?"}\n{"_id": "4"}\n')
    with (beir / "qrels/test.tsv").open("a") as judgments:
        judgments.write("1\td9\t1\n1 d1 1\n1\td1\tgood\n")

    problems = [
        (Path(place.file).name, place.line, why) for place, why in read_collection(beir).problems
    ]

    assert problems == [
        ("corpus.jsonl", 3, "has both 'id' and '_id'"),
        ("corpus.jsonl", 4, "'text' is missing or blank"),
        ("test.tsv", 4, "judges 'd9', which is not in corpus.jsonl"),
        ("test.tsv", 5, "is not a question, a segment and a grade with tabs between: '1 d1 1'"),
        ("test.tsv", 6, "the grade is not a number: 'good'"),
        ("queries.jsonl", 3, "is a second question of the id '1'"),
        ("queries.jsonl", 4, "'text' is missing or blank"),
    ]


QUESTIONS = [f"q{number}" for number in range(12)]


async def test_open_loop_waits_for_no_answer() -> None:
    all_asked = asyncio.Event()
    asked: list[str] = []

    async def ask(question: str) -> str:
        asked.append(question)
        if len(asked) == len(QUESTIONS):  # only when all have come is any of them answered
            all_asked.set()
        await all_asked.wait()
        return "answer"

    run = await open_loop(ask, QUESTIONS, [0.0] * len(QUESTIONS))

    assert len(run.answered) == len(QUESTIONS)


async def test_open_loop_counts_from_the_arrival() -> None:
    async def ask(question: str) -> str:
        return "answer"

    # Due an hour ago: a count from the sending would be near zero.
    run = await open_loop(ask, QUESTIONS[:1], [-3600.0])

    assert run.calls[0].seconds >= 3600


def test_few_rows_are_measured_in_every_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searches, "QUIET_S", 0.05)
    options = ["--rows", "600", "--dimension", "16", "--probes", "4", "--out", str(tmp_path)]

    result = CliRunner().invoke(searches.main, options, catch_exceptions=False)

    assert result.exit_code == 0, result.output
    *found, rebuilt = read_records(tmp_path)
    recalls = {
        table(each, "parameters")["way"]: number(each, "measured", "recall") or 0 for each in found
    }
    assert set(recalls) == {"exact", "served", "4 lists"}
    assert recalls["exact"] > 0.99
    assert recalls["served"] > 0.9
    assert rebuilt["scenario"] == "index while it is rebuilt"
    assert number(rebuilt, "measured", "p99_ratio")


# ---------------------------------------------------------------- memories in the source format


MEMORY = """
scope: shop
as_of: 2026-05-29
bot: Till
style: asr
@ 2026-02-02 07:40
Odile [open1]: We open at eight, on weekdays.
Till: Okay, I'll remember that.
@ 2026-02-23 08:05
Odile [open2]: From next week it's half past seven.
Odile [beans]: The beans are in the loft.
Odile [beans2]: The cups are in the cellar.
---
change | When do we open? | open2 | open1
hold | Where are the beans? | beans | beans2
history | When did we open before? | open1 | | 2026-02-20
"""


def test_memory_becomes_a_set_with_judgments(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    write_set(folder, [read_memory(MEMORY)])

    found = read_collection(folder)

    assert {query.text: (query.current, query.outdated) for query in found.queries} == {
        "When do we open?": (frozenset({"shop:t002"}), frozenset({"shop:t000"})),
        "Where are the beans?": (frozenset({"shop:t003"}), frozenset()),
        "When did we open before?": (frozenset({"shop:t000"}), frozenset()),
    }
    assert (folder / "traps.tsv").read_text() == "shop:q02\tshop:t004\n"
    assert (folder / "holds.tsv").read_text() == "shop:q02\tshop:t003\n"


def test_raw_speech_has_no_punctuation_but_the_bot_has() -> None:
    texts = [turn["text"] for turn in read_memory(MEMORY).turns]

    assert texts[:3] == [
        "we open at eight on weekdays",
        "Okay, I'll remember that.",
        "from next week it's half past seven",
    ]

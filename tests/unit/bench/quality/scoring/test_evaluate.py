from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from google.protobuf.json_format import MessageToDict

from bench.harness.collection import Query
from bench.harness.connections import Connections, connected
from bench.harness.results import number, table
from bench.quality.scoring.evaluate import Answers, ask_way
from bench.quality.scoring.metrics import METRICS
from bench.quality.scoring.outcome import outcome
from bench.quality.ways import Way, default_ways, legs_of
from tests.fakes.service import running
from tests.unit.bench.quality.fake_memory import FakeMemory
from trivium.values import BriefingOptions, Segment


def silent() -> None:
    pass


def query(id_: str, text: str, *relevant: str, chat: str = "t", stratum: str = "") -> Query:
    return Query(
        id=id_, tenant=chat, text=text, relevant=frozenset(relevant), stratum=stratum, category="c"
    )


QUESTIONS = [
    query("found", "Where?", "s0", stratum="exact"),
    query("late", "Who?", "s2", "gone", stratum="exact"),
    query("broken", "Fail, please.", "s0", stratum="partial"),
    query("cut", "Slow down.", "s1", stratum="partial"),
]


@pytest.fixture
async def asked() -> AsyncIterator[tuple[FakeMemory, Connections]]:
    memory = FakeMemory()
    with running(memory):
        async with connected(memory.address, 1) as connections:
            for chat in ("t", "u"):
                segments = [Segment(id=f"s{place}", text=f"Number {place}.") for place in range(3)]
                await connections.client(chat).ingest(segments)
            yield memory, connections


async def ask(asked: tuple[FakeMemory, Connections], way: Way, *questions: Query) -> Answers:
    return await ask_way(asked[1], questions or QUESTIONS, way, ("dense",), silent)


async def test_every_question_is_scored_in_its_place(
    asked: tuple[FakeMemory, Connections],
) -> None:
    answers = await ask(asked, Way("default"))

    assert [each.query.id for each in answers.scored] == ["found", "late", "broken", "cut"]
    assert answers.values("recall@10") == [1, 0.5, 0, 1]
    assert answers.values("mrr@10") == [1, pytest.approx(1 / 3), 0, 0.5]
    # The block has room for two of the three segments.
    assert answers.values("evidence@2000") == [1, 0, 0, 1]
    assert answers.scored[0].ranked == ["s0", "s1", "s2"]


async def test_a_failed_answer_and_a_partial_one_are_marked_and_counted(
    asked: tuple[FakeMemory, Connections],
) -> None:
    answers = await ask(asked, Way("default"))
    result = outcome(answers)

    assert [each.fault for each in answers.scored] == [
        "",
        "",
        "failed: INTERNAL",
        "lexical: timed out",
    ]
    assert (result.measured["failed"], result.measured["partial"]) == (1, 1)
    assert result.errors == {"INTERNAL": 1}
    assert result.measured["leg_faults"] == {"lexical: timed out": 1}
    assert result.n == 4


async def test_a_way_is_asked_with_its_profile_its_changes_and_a_block(
    asked: tuple[FakeMemory, Connections],
) -> None:
    memory, _ = asked

    await ask(asked, Way("short", "two", {"legs": {"dense": {"depth": 5}}}), QUESTIONS[0])

    (request,) = memory.asked
    assert (request.profile, request.limit) == ("two", 10)
    assert MessageToDict(request.profile_overrides) == {"legs": {"dense": {"depth": 5}}}
    assert request.briefing.max_chars == BriefingOptions(max_chars=2000).max_chars


async def test_the_default_ways_are_those_of_the_service_and_switch_its_legs_off(
    asked: tuple[FakeMemory, Connections],
) -> None:
    memory, connections = asked
    profiles = await connections.profiles()
    ways = default_ways(profiles)

    for way in ways:
        await ask_way(connections, QUESTIONS[:1], way, legs_of(way, profiles), silent)

    assert [way.name for way in ways][:2] == ["default", "dense"]
    assert len(memory.asked) == len(ways) == 10


async def test_a_result_tells_means_differences_and_groups_with_their_intervals(
    asked: tuple[FakeMemory, Connections],
) -> None:
    questions = [replace(each, id=f"{each.id}{copy}") for each in QUESTIONS for copy in range(4)]
    baseline = await ask(asked, Way("default"), *questions)
    result = outcome(await ask(asked, Way("other"), *questions), baseline)

    assert result.parameters["baseline"] == "default"
    for metric in METRICS:
        assert number(result.measured, metric, "mean") is not None
        assert table(result.measured, "difference", metric) == {"mean": 0, "low": 0, "high": 0}
    strata = table(result.measured, "by_stratum")
    assert {name: number(strata, name, "n") for name in strata} == {"exact": 8, "partial": 8}
    assert number(strata, "exact", "recall@10", "mean") == 0.75
    assert number(result.measured, "by_category", "c", "n") == 16


async def test_the_baseline_is_not_compared_with_itself(
    asked: tuple[FakeMemory, Connections],
) -> None:
    answers = await ask(asked, Way("default"))

    assert "difference" not in outcome(answers, answers).measured


async def test_a_set_without_strata_has_no_table_of_them(
    asked: tuple[FakeMemory, Connections],
) -> None:
    answers = await ask(asked, Way("default"), query("q", "Where?", "s0"))

    assert "by_stratum" not in outcome(answers).measured


async def test_intervals_draw_whole_conversations(
    asked: tuple[FakeMemory, Connections],
) -> None:
    questions = [query(f"{chat}{n}", "?", "s0" if chat == "t" else "x", chat=chat)
                 for chat in ("t", "u") for n in range(20)]  # fmt: skip
    measured = outcome(await ask(asked, Way("default"), *questions)).measured

    # Of two conversations, one answered and one not, either may be drawn twice.
    assert table(measured, "recall@10") == {"mean": 0.5, "low": 0, "high": 1}

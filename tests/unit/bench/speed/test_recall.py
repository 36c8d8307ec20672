"""Simulated calls in virtual time: what is measured, and what is said of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bench.harness.results import Record, number
from bench.speed.recall.calls import Call, Plan, duration_s, interims, run_calls
from bench.speed.recall.figures import recall_table, result_of
from bench.speed.recall.picture import save_picture
from tests.fakes.simulation.virtual_time import run_in_virtual_time
from tests.unit.client.conversation.fake_memory import FakeMemory

SEARCH_S = 0.02
TURNS = [["When is the wedding?", "Did she say who comes?"], ["Where is it?"]]


def simulated(plan: Plan, search_s: float = SEARCH_S) -> list[Call]:
    async def run() -> list[Call]:
        memories = [FakeMemory(delay_s=search_s) for _ in TURNS]
        return await run_calls(memories, TURNS, plan, asyncio.get_running_loop().time)

    return run_in_virtual_time(run())


def record(plan: Plan, search_s: float = SEARCH_S) -> Record:
    return result_of(simulated(plan, search_s), plan).as_record({})


def test_interim_transcripts_have_the_words_spoken_so_far_every_300_ms() -> None:
    # A word takes 400 ms, so four have been said after 1.6 s; the turn ends at 2.1 s.
    heard = list(interims("When is the wedding?", 0.5))

    assert heard == [
        *("", "when", "when is", "when is the", "when is the"),
        *("when is the wedding", "when is the wedding"),
    ]
    assert duration_s("When is the wedding?", 0.5) == pytest.approx(2.1)


def test_with_prefetch_the_block_is_there_and_without_the_search_is_waited_for() -> None:
    with_prefetch = record(Plan(prefetch=True, seconds=20))
    without = record(Plan(prefetch=False, seconds=20))

    assert number(with_prefetch, "latency", "p95_ms") == 0
    assert number(without, "latency", "p50_ms") == pytest.approx(SEARCH_S * 1e3)
    assert recall_table([with_prefetch, without]).splitlines()[2:] == [
        "| 2 | yes | 12 | 0 | 0 | 0 | 100.0% | 0.0% | 2.1 |",
        "| 2 | no | 11 | 20 | 20 | 20 | 0.0% | 0.0% | 0 |",
    ]


def test_without_silence_the_last_word_is_searched_for_at_the_end() -> None:
    calls = simulated(Plan(prefetch=True, seconds=20, silence_s=0))

    assert {round(seconds, 6) for call in calls for seconds in call.waits_s} <= {0, SEARCH_S}
    assert sum(call.counts.waited for call in calls) > 0


def test_turns_without_memory_are_a_share_of_all() -> None:
    plan = Plan(prefetch=False, seconds=20)

    found = record(plan, search_s=1.0)

    assert number(found, "measured", "nothing_share") == 1
    assert number(found, "latency", "max_ms") == pytest.approx(plan.budget_s * 1e3)


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    save_picture([record(Plan(prefetch=True, seconds=20))], tmp_path / "overview.png")

    assert (tmp_path / "overview.png").stat().st_size > 10_000

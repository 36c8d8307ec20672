"""Recall while somebody speaks, in virtual time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.simulation.virtual_time import run_in_virtual_time
from tests.support.examples import examples
from tests.unit.client.conversation.fake_memory import FakeMemory, block, unavailable
from trivium import DeadlineError, Exclusion, Filter, InvalidRequestError, Transcript, TriviumError
from trivium.conversation import (
    DEBOUNCE_S,
    EARLY_BUDGET_S,
    MAX_WAITING_WRITES,
    Counts,
    Opening,
    Recall,
    TurnEnd,
    TurnOutcome,
    one_block,
    words_of,
)

BUDGET_S = 0.08
OUT_OF_TIME = DeadlineError(grpc.StatusCode.DEADLINE_EXCEEDED, "")


def conversed(
    memory: FakeMemory, talk: Callable[[Recall], Awaitable[object]], **options: Any
) -> Counts:
    """Runs a conversation; nothing of it is left."""

    async def run() -> Counts:
        async with Recall(memory, session="s", budget=BUDGET_S, **options) as recall:
            await talk(recall)
        await asyncio.sleep(0.001)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert memory.open_streams == 0
        return recall.counts

    return run_in_virtual_time(run())


async def elapsed(work: Awaitable[str]) -> tuple[str, float]:
    loop = asyncio.get_running_loop()
    started = loop.time()
    return await work, round(loop.time() - started, 6)


async def hearing(recall: Recall, *texts: str) -> None:
    for text in texts:
        recall.heard(text)
        await asyncio.sleep(0.3)


def sent(memory: FakeMemory) -> list[Transcript]:
    return [transcript for _, transcript in memory.sent]


@pytest.mark.parametrize(
    "final", ["When is the wedding?", "when is the WEDDING", "when is the wedding"]
)
def test_finished_result_of_equal_words_is_reused(final: str) -> None:
    memory = FakeMemory()

    async def talk(recall: Recall) -> None:
        await hearing(recall, "when is", "when is the wedding")
        assert await elapsed(recall.turn(final)) == (block("when is the wedding"), 0)

    assert conversed(memory, talk) == Counts(ready=1, sent=2)
    # The service is told what was used, in the words that it has searched for.
    assert sent(memory)[-1] == Transcript("when is the wedding", final=True)


def test_other_words_are_waited_for_within_the_budget() -> None:
    memory = FakeMemory(delay_s=0.05)

    async def talk(recall: Recall) -> None:
        await hearing(recall, "when is the")
        text = "When is the wedding?"
        assert await elapsed(recall.turn(text)) == (block(text), 0.05)

    assert conversed(memory, talk) == Counts(waited=1, sent=1)
    # Nobody waits for the first search; the last one has what the turn has.
    assert memory.timeouts_s == [EARLY_BUDGET_S, BUDGET_S]


def test_without_interim_transcripts_the_whole_search_is_waited_for() -> None:
    async def talk(recall: Recall) -> None:
        assert await elapsed(recall.turn("When?")) == (block("When?"), 0.02)

    assert conversed(FakeMemory(), talk) == Counts(waited=1)


@pytest.mark.parametrize("budget", [None, 0.01])
def test_exhausted_budget_injects_no_block(budget: float | None) -> None:
    async def talk(recall: Recall) -> None:
        assert await elapsed(recall.turn("When?", budget)) == ("", budget or BUDGET_S)

    assert conversed(FakeMemory(delay_s=3), talk) == Counts(late=1)


@pytest.mark.parametrize(
    ("memory", "outcome", "counts"),
    [
        (FakeMemory(), "found", Counts(waited=1)),
        (FakeMemory(finds=False), "nothing", Counts(waited=1, empty=1)),
        (FakeMemory(delay_s=3), "late", Counts(late=1)),
        (FakeMemory(opening=deque([OUT_OF_TIME])), "late", Counts(late=1)),
        (FakeMemory(opening=deque([unavailable()])), "failed", Counts(failed=1)),
    ],
)
def test_missing_block_has_a_reason(memory: FakeMemory, outcome: str, counts: Counts) -> None:
    async def talk(recall: Recall) -> None:
        end = await recall.end_turn("When?")
        assert end == TurnEnd(block("When?") if outcome == "found" else "", TurnOutcome(outcome))

    assert conversed(memory, talk) == counts


def test_unavailable_service_fails_turns_without_raising(caplog: pytest.LogCaptureFixture) -> None:
    memory = FakeMemory(opening=deque([unavailable()] * 9))

    async def talk(recall: Recall) -> None:
        await recall.warm()
        await hearing(recall, "when", "when is")
        assert await recall.turn("when is it") == ""

    assert conversed(memory, talk) == Counts(failed=1, sent=2)
    assert f"a stream failed: {unavailable()}" in caplog.text


def test_a_stream_that_broke_is_opened_again_for_the_turn() -> None:
    memory = FakeMemory(opening=deque([unavailable(), None]))

    async def talk(recall: Recall) -> None:
        await hearing(recall, "when")
        assert await recall.turn("when is it") == block("when is it")

    assert conversed(memory, talk) == Counts(waited=1, sent=1)


def test_newest_transcript_of_an_interval_is_sent() -> None:
    memory = FakeMemory(delay_s=1)

    async def talk(recall: Recall) -> None:
        for place in range(9):
            recall.heard("w" * (place + 1))
            await asyncio.sleep(0.03)
        recall.drop()

    counts = conversed(memory, talk)

    times = [time for time, _ in memory.sent]
    assert times == pytest.approx([0, DEBOUNCE_S, 2 * DEBOUNCE_S])
    assert [len(each.text) for each in sent(memory)] == [1, 4, 7]
    assert (counts.sent, counts.skipped) == (3, 5)


def test_the_same_words_are_not_sent_twice() -> None:
    memory = FakeMemory()

    async def talk(recall: Recall) -> None:
        await hearing(recall, "when is", "When is?", " ", "when is...")
        recall.drop()

    assert conversed(memory, talk) == Counts(sent=1, skipped=3)
    assert sent(memory) == [Transcript("when is")]


def test_dropped_transcript_belongs_to_no_later_turn() -> None:
    memory = FakeMemory()

    async def talk(recall: Recall) -> None:
        await hearing(recall, "hm")
        recall.drop()
        assert await elapsed(recall.turn("hm")) == (block("hm"), 0.02)

    assert conversed(memory, talk) == Counts(waited=1, sent=1)


def test_interrupted_caller_leaves_no_search() -> None:
    memory = FakeMemory(delay_s=1)

    async def talk(recall: Recall) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(recall.turn("when"), 0.01)
        await asyncio.sleep(0.01)
        assert memory.open_streams == 0

    assert conversed(memory, talk) == Counts()


def test_warming_uses_the_profile_of_the_conversation() -> None:
    memory = FakeMemory()

    conversed(memory, lambda recall: recall.warm(), profile="annie")

    assert memory.warmed == ["annie"]


def test_opening_is_for_the_first_turn_alone() -> None:
    opening = Opening()

    before = opening.for_turn(1)
    opening.block = "<memory></memory>"
    shown = [opening.for_turn(turn) for turn in (2, 2, 3, 2)]

    assert before == ""
    assert shown == [opening.block, opening.block, "", opening.block]


def test_blocks_are_joined_without_repeated_lines() -> None:
    first = "<memory>\n<!-- data -->\nRemembered:\n- a\n- b\n</memory>"
    second = "<memory>\n<!-- data -->\nRemembered:\n- b\n- c\n</memory>"

    assert one_block(first, second) == (
        "<memory>\n<!-- data -->\nRemembered:\n- a\n- b\n- c\n</memory>"
    )
    assert one_block("", second) == one_block(second, "") == second
    assert one_block("", "") == ""


@pytest.mark.parametrize(
    ("given", "sent_filter"),
    [
        (None, Filter(none_of=Exclusion(sessions=["s"]))),
        (
            Filter(kinds=["turn"], none_of=Exclusion(sessions=["t"])),
            Filter(kinds=["turn"], none_of=Exclusion(sessions=["t", "s"])),
        ),
        (Filter(sessions=["s"]), Filter(sessions=["s"])),
    ],
)
def test_session_itself_is_left_out(given: Filter | None, sent_filter: Filter) -> None:
    memory = FakeMemory()

    conversed(memory, lambda recall: recall.turn("when"), filter=given)

    assert memory.filters == [sent_filter]


def test_session_is_a_new_one_by_default() -> None:
    memory = FakeMemory()

    async def talk() -> None:
        async with Recall(memory) as recall:
            recall.said("Nora", "Hello.", turn="1")

    for _ in range(2):
        asyncio.run(talk())

    first, second = memory.stored
    assert first.session.startswith("call-")
    assert first.session != second.session


def test_turn_is_written_once_under_its_session() -> None:
    memory = FakeMemory()

    async def talk(recall: Recall) -> None:
        for _ in range(2):
            recall.said("Nora", "When is it?", turn="1")
        recall.said("Bot", "In May.", turn="1-reply")
        assert memory.stored == []

    assert conversed(memory, talk) == Counts(written=2)
    assert [(each.id, each.session, each.speaker) for each in memory.stored] == [
        ("s/1", "s", "Nora"),
        ("s/1-reply", "s", "Bot"),
    ]
    assert all(each.event_time is not None for each in memory.stored)


async def two_turns(recall: Recall) -> None:
    recall.said("Nora", "hello", turn="1")
    recall.said("Nora", "still there?", turn="2")


@pytest.mark.parametrize("failures", [1, 40])
def test_turns_of_an_outage_are_stored_after_it(failures: int) -> None:
    memory = FakeMemory(writes=deque([unavailable()] * failures))

    async def talk(recall: Recall) -> None:
        await two_turns(recall)
        await asyncio.sleep(2 * failures)

    assert conversed(memory, talk) == Counts(written=2, write_retries=failures)
    assert [each.id for each in memory.stored] == ["s/1", "s/2"]


def test_outage_that_outlasts_the_close_is_counted() -> None:
    memory = FakeMemory(writes=deque([unavailable()] * 99))

    assert conversed(memory, two_turns).write_failures == 2


@pytest.mark.parametrize(
    "memory",
    [
        FakeMemory(rejects=True),
        FakeMemory(writes=deque([InvalidRequestError(grpc.StatusCode.INVALID_ARGUMENT, "")])),
    ],
)
def test_a_write_that_is_rejected_is_not_repeated(memory: FakeMemory) -> None:
    async def talk(recall: Recall) -> None:
        recall.said("Nora", "hello", turn="1")

    assert conversed(memory, talk) == Counts(write_failures=1)


def test_waiting_writes_are_bounded_and_end_at_close() -> None:
    memory = FakeMemory(delay_s=1000)

    async def talk(recall: Recall) -> None:
        for turn in range(MAX_WAITING_WRITES + 2):
            recall.said("Nora", "hello", turn=str(turn))
        await asyncio.sleep(0)

    assert conversed(memory, talk).write_failures == MAX_WAITING_WRITES + 2


def test_words_are_equal_without_case_and_punctuation() -> None:
    assert words_of("  Don\u2019t, she SAID:  \uff2e\uff4f! ") == words_of("dont she said no")
    assert words_of("?!") == ""


# ---------------------------------------------------------------- any conversation


TEXTS = ("when", "when is", "When is?", "when is it", "no")
# Not a multiple of the milliseconds below: it is clear what comes first.
SECONDS = st.integers(0, 300).map(lambda number: number / 1e3 + 0.0003)


@dataclass(frozen=True)
class Spoken:
    """One turn: what is heard, each after a pause, and how it ends."""

    partials: tuple[tuple[float, str], ...]
    pause_s: float
    text: str
    budget_s: float
    dropped: bool


SPOKEN = st.builds(
    Spoken,
    st.lists(st.tuples(SECONDS, st.sampled_from(TEXTS)), max_size=6).map(tuple),
    SECONDS,
    st.sampled_from(TEXTS),
    st.integers(1, 200).map(lambda number: number / 1e3),
    st.booleans(),
)
OPENINGS = st.lists(st.sampled_from([None, None, unavailable()]), max_size=5).map(deque)


@settings(max_examples=examples(100), deadline=None)
@given(
    turns=st.lists(SPOKEN, min_size=1, max_size=4),
    delays=st.tuples(*[SECONDS] * len(TEXTS)),
    opening=OPENINGS,
    breaks_at=st.none() | st.integers(1, 4),
)
def test_turn_ends_in_budget_with_its_own_block(
    turns: list[Spoken],
    delays: tuple[float, ...],
    opening: deque[TriviumError | None],
    breaks_at: int | None,
) -> None:
    memory = FakeMemory(
        delays_s=dict(zip(TEXTS, delays, strict=True)), opening=opening, breaks_at=breaks_at
    )
    healthy = not any(opening) and breaks_at is None

    async def talk() -> None:
        async with Recall(memory, session="s") as recall:
            for number, spoken in enumerate(turns, start=1):
                await say(recall, memory, spoken, healthy=healthy)
                assert recall.counts.turns == number - sum(each.dropped for each in turns[:number])
        await asyncio.sleep(0.001)
        assert (memory.open_streams, asyncio.all_tasks()) == (0, {asyncio.current_task()})

    run_in_virtual_time(talk())


async def say(recall: Recall, memory: FakeMemory, spoken: Spoken, *, healthy: bool) -> None:
    for pause_s, text in spoken.partials:
        await asyncio.sleep(pause_s)
        recall.heard(text)
    await asyncio.sleep(spoken.pause_s)
    if spoken.dropped:
        recall.drop()
        return
    loop = asyncio.get_running_loop()
    started, ready = loop.time(), recall.counts.ready
    given = await recall.turn(spoken.text, spoken.budget_s)
    waited_s = loop.time() - started
    assert waited_s <= spoken.budget_s + 1e-9
    assert given in {"", *(block(each) for each in TEXTS if same(each, spoken.text))}
    assert memory.open_streams <= 2
    if recall.counts.ready > ready:
        assert (waited_s, given != "") == (0, True)
    elif healthy:
        slowest_s = max(memory.delays_s[each] for each in TEXTS if same(each, spoken.text))
        assert given or (round(waited_s - spoken.budget_s, 9) == 0 and slowest_s > waited_s)


def same(one: str, other: str) -> bool:
    return words_of(one) == words_of(other)

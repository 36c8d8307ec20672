"""Whatever is heard when, and whatever the service does, a turn ends in time, in its own words."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.simulation.virtual_time import run_in_virtual_time
from tests.support.examples import examples
from tests.unit.client.conversation.fake_memory import FakeMemory, block, unavailable
from trivium import TriviumError
from trivium.conversation import Recall, words_of

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

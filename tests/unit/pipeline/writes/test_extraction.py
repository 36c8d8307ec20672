"""Facts read out of turns: what is asked, what is checked, and what is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from serving.domain.errors import DependencyError, OverloadedError
from serving.domain.items.records import MAX_NAME_BYTES, Fact, Segment, TenantName
from serving.pipeline.writes.extraction import (
    Extracted,
    ExtractionLimits,
    ExtractionWork,
    extracted_id,
)
from serving.pipeline.writes.projector import LAST_BACK_OFF_S, Projector
from serving.ports.change_log import Change
from serving.ports.memory_store import UnreadTurn
from serving.ports.text_analysis import Conversation, Proposal, ProposedFact, UnusableAnswerError
from tests.fakes.simulation.virtual_time import in_virtual_time
from tests.fakes.store import InMemoryStore
from tests.support.builders import A_DAY_LATER, NOON, TENANT, batch_of, days, fact, segment

Answer = Callable[[Conversation], Proposal]


@dataclass
class ScriptedExtractor:
    """Answers as it is told, and remembers what it was asked."""

    answer: Answer = lambda _: Proposal()
    asked: list[Conversation] = field(default_factory=list)

    async def extract(self, conversation: Conversation) -> Proposal:
        self.asked.append(conversation)
        return self.answer(conversation)


@dataclass
class Memory:
    """The port `Extractions` over given turns; it finds sensitive ones too."""

    turns: list[Segment] = field(default_factory=list)
    earlier: tuple[Segment, ...] = ()
    known: tuple[Fact, ...] = ()
    read: set[str] = field(default_factory=set)
    facts: dict[str, Fact] = field(default_factory=dict)
    saved: list[list[str]] = field(default_factory=list)

    def changes(self) -> list[Change]:
        return [Change(key, TENANT, turn.item, 1) for key, turn in enumerate(self.turns, 1)]

    async def unread(self, changes: Sequence[Change]) -> list[UnreadTurn]:
        turns = [
            UnreadTurn(change, self.turns[change.key - 1], b"")
            for change in changes
            if change.item.id not in self.read
        ]
        return sorted(turns, key=lambda turn: (turn.segment.session, turn.segment.event_time))

    async def before(self, tenant: TenantName, turn: Segment, limit: int) -> tuple[Segment, ...]:
        return self.earlier[-limit:]

    async def facts_about(
        self, tenant: TenantName, names: Sequence[str], limit: int
    ) -> tuple[Fact, ...]:
        return self.known[:limit]

    async def save(
        self, tenant: TenantName, turns: Sequence[UnreadTurn], facts: Sequence[Fact]
    ) -> None:
        self.saved.append([turn.segment.id for turn in turns])
        self.read.update(turn.segment.id for turn in turns)
        self.facts.update({each.id: each for each in facts})


@dataclass
class DeadLetters:
    """Of the change log only what extraction asks of it."""

    reasons: dict[str, str] = field(default_factory=dict)

    async def dead_letter(
        self, projection: str, model: object, change: Change, reason: str
    ) -> None:
        assert (projection, model) == ("extraction", None)
        self.reasons[change.item.id] = reason


@dataclass
class Extraction:
    turns: Memory
    extractor: ScriptedExtractor
    log: DeadLetters = field(default_factory=DeadLetters)
    store: InMemoryStore = field(default_factory=InMemoryStore)
    reports: list[Extracted] = field(default_factory=list)
    limits: ExtractionLimits = field(default_factory=ExtractionLimits)

    @property
    def work(self) -> ExtractionWork:
        return ExtractionWork(
            self.log,  # type: ignore[arg-type]  # the rest of the log is the projector's
            self.store,
            self.turns,  # type: ignore[arg-type]  # nor are the commands' calls of it
            self.extractor,
            now=lambda: A_DAY_LATER,
            limits=self.limits,
            report=self.reports.append,
        )

    async def run(self) -> None:
        await self.work.project(self.turns.changes())

    @property
    def only_fact(self) -> Fact:
        (found,) = self.turns.facts.values()
        return found


def turn(id_: str, text: str = "I live in Paris.", **fields: object) -> Segment:
    return segment(id_, text, **{"speaker": "Ann", "session": "s", **fields})


def proposal(*evidence: str, **changes: object) -> ProposedFact:
    lives = ProposedFact(
        subject="Ann",
        relation="lives in",
        object="Paris",
        sentence="Ann lives in Paris.",
        evidence=evidence,
    )
    return replace(lives, **changes)  # type: ignore[arg-type]


def giving(*facts: ProposedFact) -> Answer:
    return lambda _: Proposal(facts=facts, sent_tokens=30, received_tokens=7)


def extracting(answer: Answer, *turns: Segment, **given: Any) -> Extraction:
    return Extraction(Memory(list(turns), **given), ScriptedExtractor(answer))


async def extracted(answer: Answer, *turns: Segment, **given: Any) -> Extraction:
    extraction = extracting(answer, *turns, **given)
    await extraction.run()
    return extraction


OWN = extracted_id(TENANT, proposal("a"))


async def test_proposed_fact_is_stored_with_evidence_and_time() -> None:
    extraction = await extracted(giving(proposal("a", single_valued=True)), turn("a"))

    assert extraction.only_fact == fact(
        OWN,
        *("Ann", "lives in", "Paris"),
        sentence="Ann lives in Paris.",
        valid_from=NOON,
        recorded_at=A_DAY_LATER,
        evidence=("a",),
        single_valued=True,
    )
    assert extraction.reports == [
        Extracted(turns=1, facts={"accepted": 1}, sent_tokens=30, received_tokens=7)
    ]


async def test_proposed_fact_keeps_its_own_validity() -> None:
    since, until = NOON - days(9), NOON - days(1)
    extraction = await extracted(
        giving(
            proposal("a", valid_from=since, valid_to=until),
            proposal("a", object="Rome", valid_to=until),
        ),
        turn("a"),
    )

    held = {
        each.object: (each.valid_from, each.valid_to) for each in extraction.turns.facts.values()
    }
    assert held == {"Paris": (since, until), "Rome": (None, until)}


async def test_sensitive_turns_are_not_sent() -> None:
    secret = turn("secret", "My PIN is 1234.", sensitive=True)
    pin = fact("f", "Ann", "PIN", "1234", sensitive=True)
    earlier, known = turn("earlier"), fact("known", "Ann", "likes", "tea")

    extraction = await extracted(
        giving(), turn("a"), secret, earlier=(earlier, secret), known=(known, pin)
    )

    assert extraction.extractor.asked == [
        Conversation(turns=(turn("a"),), before=(earlier,), facts=(known,))
    ]


async def test_a_session_of_sensitive_turns_asks_nothing() -> None:
    extraction = await extracted(giving(), turn("a", sensitive=True))

    assert extraction.extractor.asked == []
    assert extraction.turns.saved == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"evidence": ("a", "other")}, "evidence"),
        ({"evidence": ()}, "evidence"),
        ({"evidence": ("earlier",)}, "evidence"),
        ({"evidence": ("",)}, "evidence"),
        ({"closes": ("other",)}, "closes"),
        ({"valid_from": NOON, "valid_to": NOON}, "interval"),
        ({"valid_from": NOON, "valid_to": NOON - days(1)}, "interval"),
        ({"subject": " "}, "text"),
        ({"object": ""}, "text"),
        ({"relation": "x" * (MAX_NAME_BYTES + 1)}, "text"),
        ({"sentence": "x" * 4097}, "text"),
        ({"sentence": "nul \x00"}, "text"),
    ],
)
async def test_fact_failing_a_check_is_not_stored(changes: dict[str, object], reason: str) -> None:
    extraction = await extracted(
        giving(proposal("a", **changes), proposal("a")), turn("a"), earlier=(turn("earlier"),)
    )

    assert extraction.only_fact.evidence == ("a",)
    assert extraction.reports[0].facts == {f"refused_{reason}": 1, "accepted": 1}


async def test_earlier_turns_are_evidence_with_an_unread_turn() -> None:
    extraction = await extracted(
        giving(proposal("earlier", "a")), turn("a"), earlier=(turn("earlier"),)
    )

    assert extraction.only_fact.evidence == ("earlier", "a")


@pytest.mark.parametrize(
    ("closes", "closed"), [(("f", "f"), ("f",)), ((OWN,), ())], ids=["another", "itself"]
)
async def test_another_fact_that_was_shown_can_be_closed(
    closes: tuple[str, ...], closed: tuple[str, ...]
) -> None:
    shown = fact(closes[0], "Ann", "lives in", "Rome")

    extraction = await extracted(giving(proposal("a", closes=closes)), turn("a"), known=(shown,))

    assert extraction.only_fact.closes == closed


async def test_equal_facts_have_equal_ids() -> None:
    id_ = extracted_id(TENANT, proposal("a", "b"))

    assert extracted_id(TENANT, proposal("b", "a", "a", subject="ANN", sentence="else")) == id_
    others = [
        extracted_id(TenantName("other"), proposal("a", "b")),
        extracted_id(TENANT, proposal("a")),
        extracted_id(TENANT, proposal("a", "b", subject="Tom")),
        extracted_id(TENANT, proposal("a", "b", relation="left")),
        extracted_id(TENANT, proposal("a", "b", object="Rome")),
    ]
    assert len({id_, *others}) == 6
    assert len(id_) < 64


async def test_names_are_spelled_as_known() -> None:
    store = InMemoryStore()
    await store.write(batch_of(segment("x", entities=("New York",))))
    extraction = extracting(
        giving(
            proposal("a", subject="I", object="new york"),
            proposal("a", subject="Smith", object="me"),
            proposal("a", subject="a cat", object="cat"),
        ),
        turn("a", entities=("Ann", "John Smith", "The Black Cat")),
    )
    extraction.store = store

    await extraction.run()

    assert [(each.subject, each.object) for each in extraction.turns.facts.values()] == [
        ("Ann", "New York"),
        ("John Smith", "Ann"),
        ("a cat", "cat"),
    ]


async def test_turns_without_usable_answer_are_dead_lettered() -> None:
    def answer(conversation: Conversation) -> Proposal:
        if conversation.turns[0].session == "bad":
            raise UnusableAnswerError("prose", sent_tokens=30, received_tokens=7)
        return Proposal(facts=(proposal("c"),))

    extraction = await extracted(
        answer, turn("a", session="bad"), turn("b", session="bad"), turn("c", session="good")
    )

    assert extraction.log.reasons == dict.fromkeys("ab", "unusable answer: prose")
    assert extraction.turns.saved == [["c"]]
    assert (
        Extracted(turns=2, unusable="prose", sent_tokens=30, received_tokens=7)
        in extraction.reports
    )


async def test_busy_extractor_is_retried_for_unread_turns() -> None:
    busy = ["b"]

    def answer(conversation: Conversation) -> Proposal:
        if [each.id for each in conversation.turns] == busy:
            busy.clear()
            raise OverloadedError("the API", 3.0)
        return Proposal()

    extraction = extracting(answer, turn("a", session="a"), turn("b", session="b"))
    with pytest.raises(OverloadedError):
        await extraction.run()
    await extraction.run()

    assert sorted(extraction.turns.saved) == [["a"], ["b"]]
    assert extraction.log.reasons == {}


@pytest.mark.parametrize("error", [OverloadedError("it"), DependencyError("extractor", "away")])
async def test_unavailable_extractor_is_not_called_for_others(error: Exception) -> None:
    def answer(conversation: Conversation) -> Proposal:
        raise error

    extraction = extracting(answer, *(turn(f"t{n}", session=f"s{n}") for n in range(9)))
    extraction.limits = ExtractionLimits(sessions=2)

    with pytest.raises(type(error)):
        await extraction.run()

    assert len(extraction.extractor.asked) == 1
    assert extraction.log.reasons == {}


async def test_session_is_read_in_parts_by_time() -> None:
    later = [turn(f"s{n}", event_time=NOON + days(n)) for n in (3, 1, 2)]
    loose = [turn(id_, session="") for id_ in "xyz"]
    extraction = extracting(giving(), *later, *loose)
    extraction.limits = ExtractionLimits(turns=2)

    await extraction.run()

    asked = [[each.id for each in talk.turns] for talk in extraction.extractor.asked]
    assert sorted(asked) == [["s1", "s2"], ["s3"], ["x", "y"], ["z"]]


@in_virtual_time
async def test_projector_waits_for_the_retry_delay() -> None:
    tries: list[float] = []

    class OnceBusy:
        projection = "extraction"

        async def model(self) -> None:
            tries.append(asyncio.get_running_loop().time())
            if len(tries) == 2:
                raise asyncio.CancelledError
            raise OverloadedError("the API", 60.0)

    log: Any = None  # it is not read before the model is known
    with pytest.raises(asyncio.CancelledError):
        await Projector(log, OnceBusy()).run()  # type: ignore[arg-type]

    assert tries == [0.0, 60.0]
    assert tries[1] > LAST_BACK_OFF_S

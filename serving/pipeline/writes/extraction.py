"""Reads facts out of stored turns, off the write path.

The change log says which turns are new. An extractor proposes facts, each is checked here, and what
passes is stored together with the note that its turns were read: a repeat asks nothing and changes
nothing. A turn that cannot be read is dead-lettered with the reason.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from typing import Any

from serving.domain.items.records import (
    EXTRACTED,
    MAX_NAME_BYTES,
    MAX_OBJECT_BYTES,
    MAX_SENTENCE_BYTES,
    Fact,
    Segment,
    TenantName,
)
from serving.domain.items.text import name_key
from serving.pipeline.writes.projector import ProjectionWork
from serving.ports.change_log import Change, ChangeLog, Projection
from serving.ports.memory_store import Extractions, MemoryStore, UnreadTurn
from serving.ports.text_analysis import (
    Conversation,
    Extractor,
    Proposal,
    ProposedFact,
    UnusableAnswerError,
)

MAX_KNOWN_FACTS = 16
"""The known facts that an extractor is shown."""

_SELF = frozenset({"i", "me", "my", "mine", "myself"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionLimits:
    """The division of turns into requests.

    `turns` of one session are read together, `before` of them are shown too, and `sessions`
    sessions are read at once.
    """

    turns: int = 8
    before: int = 4
    sessions: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Extracted:
    """The outcome of one request.

    `facts` counts proposed facts by outcome: "accepted", or "refused_" and why. `unusable` is why
    the whole answer was refused.
    """

    turns: int
    unusable: str = ""
    facts: Mapping[str, int] = field(default_factory=dict)
    sent_tokens: int = 0
    received_tokens: int = 0


class ExtractionWork(ProjectionWork):
    """Projects changed turns into facts, from a single position, whichever extractor reads."""

    projection: Projection = "extraction"
    chunk = 512

    def __init__(
        self,
        log: ChangeLog,
        store: MemoryStore,
        extractions: Extractions,
        extractor: Extractor,
        *,
        now: Callable[[], datetime],
        limits: ExtractionLimits,
        report: Callable[[Extracted], None],
    ) -> None:
        self._log = log
        self._store = store
        self._extractions = extractions
        self._extractor = extractor
        self._now = now
        self._limits = limits
        self._report = report

    async def project(self, changes: Sequence[Change]) -> None:
        """Reads the turns among the changes: sessions side by side, each in order of time.

        Where the extractor is busy or away, what was asked is waited for, and nothing more asked.
        """
        free = asyncio.Semaphore(self._limits.sessions)
        failed = asyncio.Event()

        async def read(tenant: TenantName, turns: Sequence[UnreadTurn]) -> None:
            async with free:
                for start in range(0, len(turns), self._limits.turns):
                    if failed.is_set():
                        return
                    try:
                        await self._read(tenant, turns[start : start + self._limits.turns])
                    except Exception:
                        failed.set()
                        raise

        found = await self._extractions.unread(changes)
        outcomes = await asyncio.gather(
            *(read(tenant, turns) for tenant, turns in _by_session(found)), return_exceptions=True
        )
        # After all have ended, so that no session is left half asked.
        for failure in outcomes:
            if failure is not None:
                raise failure

    async def _read(self, tenant: TenantName, turns: Sequence[UnreadTurn]) -> None:
        conversation = await self._conversation(tenant, turns)
        if not conversation.turns:
            return
        try:
            proposal = await self._extractor.extract(conversation)
        except UnusableAnswerError as error:
            reason = f"unusable answer: {error.reason}"
            for turn in turns:
                await self._log.dead_letter(self.projection, None, turn.change, reason)
            self._report_read(turns, error, unusable=error.reason)
            return
        facts, counts = await self._accepted(tenant, conversation, proposal.facts)
        await self._extractions.save(tenant, turns, facts)
        self._report_read(turns, proposal, facts=counts)

    def _report_read(
        self, turns: Sequence[UnreadTurn], answer: Proposal | UnusableAnswerError, **came_of_it: Any
    ) -> None:
        sent, received = answer.sent_tokens, answer.received_tokens
        self._report(
            Extracted(turns=len(turns), sent_tokens=sent, received_tokens=received, **came_of_it)
        )

    async def _conversation(self, tenant: TenantName, unread: Sequence[UnreadTurn]) -> Conversation:
        """The input of the extractor; never anything sensitive."""
        turns = _shown(turn.segment for turn in unread)
        before = await self._extractions.before(tenant, unread[0].segment, self._limits.before)
        names = sorted({name for turn in turns for name in (*turn.entities, turn.speaker) if name})
        facts = await self._extractions.facts_about(tenant, names, MAX_KNOWN_FACTS)
        return Conversation(
            turns=turns,
            before=_shown(before),
            facts=tuple(fact for fact in facts if not fact.sensitive),
        )

    async def _accepted(
        self, tenant: TenantName, conversation: Conversation, proposed: Iterable[ProposedFact]
    ) -> tuple[list[Fact], Counter[str]]:
        """The proposed facts that pass, distinct by id, and counts of all by outcome."""
        names = _Names(await self._store.known_names(tenant), conversation)
        accepted: dict[str, Fact] = {}
        counts: Counter[str] = Counter()
        for each in proposed:
            resolved = names.resolve(each)
            if refusal := refused(resolved, conversation):
                counts[f"refused_{refusal}"] += 1
                continue
            counts["accepted"] += 1
            fact = _fact(tenant, resolved, conversation, self._now())
            accepted[fact.id] = fact
        return list(accepted.values()), counts


def _shown(turns: Iterable[Segment]) -> tuple[Segment, ...]:
    return tuple(turn for turn in turns if not turn.sensitive)


def _by_session(turns: Iterable[UnreadTurn]) -> Iterator[tuple[TenantName, Sequence[UnreadTurn]]]:
    """Groups turns that are ordered by tenant and session.

    Those without a session are one group: each alone would be a request of its own.
    """

    def session(turn: UnreadTurn) -> tuple[TenantName, str]:
        return turn.change.tenant, turn.segment.session

    for (tenant, _), of_session in groupby(turns, key=session):
        yield tenant, list(of_session)


def refused(fact: ProposedFact, conversation: Conversation) -> str:
    """Why a proposed fact is refused; empty if it passes.

    "text": blank, too long, or with NUL. "evidence": not only turns that were given, or none that
    was to be read. "closes": a fact that was not given. "interval": it would end before it begins.
    """
    read = {turn.id for turn in conversation.turns}
    given = read | {turn.id for turn in conversation.before}
    if not _texts_fit(fact):
        return "text"
    if not given.issuperset(fact.evidence) or read.isdisjoint(fact.evidence):
        return "evidence"
    if not {known.id for known in conversation.facts}.issuperset(fact.closes):
        return "closes"
    if fact.valid_from and fact.valid_to and fact.valid_to <= fact.valid_from:
        return "interval"
    return ""


def _texts_fit(fact: ProposedFact) -> bool:
    limits = {
        fact.subject: MAX_NAME_BYTES,
        fact.relation: MAX_NAME_BYTES,
        fact.object: MAX_OBJECT_BYTES,
    }
    fits = all(text.strip() and len(text.encode()) <= most for text, most in limits.items())
    return (
        fits
        and len(fact.sentence.encode()) <= MAX_SENTENCE_BYTES
        and "\x00" not in "".join((*limits, fact.sentence))
    )


def _fact(
    tenant: TenantName, proposed: ProposedFact, conversation: Conversation, now: datetime
) -> Fact:
    """The fact to store. Unless it says since when it holds, it holds since it was said."""
    said = max(
        turn.event_time
        for turn in (*conversation.before, *conversation.turns)
        if turn.id in proposed.evidence
    )
    holds_then = proposed.valid_to is None or said < proposed.valid_to
    id_ = extracted_id(tenant, proposed)
    return Fact(
        id=id_,
        subject=proposed.subject,
        relation=proposed.relation,
        object=proposed.object,
        sentence=proposed.sentence,
        valid_from=proposed.valid_from or (said if holds_then else None),
        valid_to=proposed.valid_to,
        recorded_at=now,
        evidence=tuple(dict.fromkeys(proposed.evidence)),
        closes=tuple(dict.fromkeys(each for each in proposed.closes if each != id_)),
        single_valued=proposed.single_valued,
    )


def extracted_id(tenant: TenantName, fact: ProposedFact) -> str:
    """The id of an extracted fact: the same evidence, subject, relation and object give the same.

    The spelling of names does not matter.
    """
    ends = [name_key(text) for text in (fact.subject, fact.relation, fact.object)]
    parts = json.dumps([tenant, sorted(set(fact.evidence)), *ends])
    return f"{EXTRACTED}{hashlib.sha256(parts.encode()).hexdigest()[:32]}"


class _Names:
    """Resolves the names of proposed facts.

    "I" is the speaker of the first evidence. A name is spelled as it is known. A part of a name
    stands for the one entity of the conversation that it is a part of.
    """

    def __init__(self, known: Mapping[str, str], conversation: Conversation) -> None:
        self._known = known
        turns = (*conversation.before, *conversation.turns)
        self._speakers = {turn.id: turn.speaker for turn in turns}
        named = [name for turn in turns for name in (*turn.entities, turn.speaker)]
        named += [fact.subject for fact in conversation.facts]
        self._here = {name_key(name): name for name in named if name}

    def resolve(self, fact: ProposedFact) -> ProposedFact:
        speaker = self._speakers.get(fact.evidence[0], "") if fact.evidence else ""
        return replace(
            fact,
            subject=self._resolved(fact.subject, speaker),
            object=self._resolved(fact.object, speaker),
        )

    def _resolved(self, name: str, speaker: str) -> str:
        key = name_key(name)
        if key in _SELF and speaker:
            return speaker
        if spelled := self._known.get(key) or self._here.get(key):
            return spelled
        longer = [each for each in self._here if f" {key} " in f" {each} "]
        if len(longer) == 1 and name[:1].isupper():
            return self._here[longer[0]]
        return name.strip()

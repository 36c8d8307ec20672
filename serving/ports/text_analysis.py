"""Text analysis: facts in conversations."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from serving.domain.items.records import Fact, Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """Turns of one session in order of time; nothing of it is sensitive.

    `turns` are read for facts, and `before` are some that precede them. `facts` are known and hold;
    they are about what the turns name.
    """

    turns: tuple[Segment, ...]
    before: tuple[Segment, ...] = ()
    facts: tuple[Fact, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedFact:
    """A fact as an extractor proposes it; nothing of it is checked.

    `evidence` are ids of turns, and `closes` those of known facts. The other fields are those of
    `Fact`.
    """

    subject: str
    relation: str
    object: str
    sentence: str
    evidence: tuple[str, ...]
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    closes: tuple[str, ...] = ()
    single_valued: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The facts that an extractor proposes, and the tokens that it was billed for."""

    facts: tuple[ProposedFact, ...] = ()
    sent_tokens: int = 0
    received_tokens: int = 0


class UnusableAnswerError(Exception):
    """The extractor has no usable answer for these turns, and would have none again.

    `reason` is one of a few short words, without anything of the texts or the answer. The tokens
    are billed all the same.
    """

    def __init__(self, reason: str, *, sent_tokens: int = 0, received_tokens: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.sent_tokens = sent_tokens
        self.received_tokens = received_tokens


class Extractor(Protocol):
    """Reads facts out of a conversation."""

    async def extract(self, conversation: Conversation) -> Proposal:
        """Returns proposed facts.

        Raises:
            UnusableAnswerError: It answers these turns with something else, or not at all.
            OverloadedError: It is busy; says when to try again.
            DependencyError: It cannot be reached, or fails whatever it is asked.
        """

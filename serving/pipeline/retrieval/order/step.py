"""The input of a step between fusion and the answer, and the attributes of its class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from serving.domain.items.records import DEFAULT_IMPORTANCE, Item, ItemId, Segment, time_of
from serving.domain.questions.query import Query
from serving.domain.ranking.profile import Profile, Sort
from serving.domain.ranking.signals import Traits
from serving.pipeline.retrieval.order.hit import Hit, Stage
from serving.pipeline.retrieval.order.loss import Loss
from serving.ports.vector_index import Adjacency


def importance_of(item: Item) -> float:
    """The importance of a segment; facts have the default."""
    return item.importance if isinstance(item, Segment) else DEFAULT_IMPORTANCE


@dataclass(frozen=True, slots=True, kw_only=True)
class StepInput:
    """The input of the steps besides the hits.

    `traits` and `closed` have what an index in this process knows of the candidates: `closed` those
    that are evidence of closed facts alone, with the evidence of what closed these.
    `logits` are those of the reranked hits. `not_reranked` is the stage of all hits if the profile
    reranks and nothing was reranked. `adjacent` has the turns next to the first candidates, as far
    as the index knows them.
    """

    profile: Profile
    query: Query
    traits: Mapping[ItemId, Traits] = field(default_factory=dict)
    closed: Mapping[ItemId, Sequence[ItemId]] = field(default_factory=dict)
    logits: Mapping[ItemId, float] | None = None
    not_reranked: Stage | None = None
    adjacent: Mapping[ItemId, Adjacency] = field(default_factory=dict)

    def sorted(self, hits: Iterable[Hit]) -> list[Hit]:
        """Orders hits as the profile sorts them; equal scores by time, the oldest first."""
        return sorted(hits, key=self._sort_key)

    def _sort_key(self, hit: Hit) -> tuple[object, ...]:
        since = time_of(hit.item)
        match self.profile.sort:
            case Sort.RELEVANCE:
                return (-hit.score, since, hit.item.item)
            case Sort.IMPORTANCE:
                return (-hit.score, -importance_of(hit.item), since, hit.item.item)
            case Sort.RECENCY:
                return (-since.timestamp(), -hit.score, hit.item.item)


class Step(ABC):
    """One step between fusion and the answer.

    Attributes:
        loss: How an item is lost that would be in the answer without the step.
        left_out: The order without the step, in words: "without decay by age".
        rows: How many of the best hits it needs, whatever the limit; None for all candidates.
    """

    loss: ClassVar[Loss]
    left_out: ClassVar[str]
    rows: ClassVar[int | None] = None

    @abstractmethod
    def is_in(self, profile: Profile) -> bool:
        """Whether a profile has the step."""

    @abstractmethod
    def run(self, hits: Sequence[Hit], given: StepInput) -> list[Hit]:
        """Returns the hits in their new order, best first."""

    def named_by(self, hit: Hit) -> ItemId | None:  # noqa: ARG002
        """Returns the item to which a term of the step points; None if there is none."""
        return None

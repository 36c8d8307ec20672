"""A hit, and whether it was reranked."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from serving.domain.items.records import Item, ItemId, Segment
from serving.domain.ranking.ledger import Ledger


class Stage(StrEnum):
    """Whether a hit was reranked, if the profile reranks."""

    RERANKED = "reranked"
    COARSE = "coarse"
    """It lies beyond the head or is sensitive, and follows in coarse order; or reranking would have
    taken longer than the time left, and the coarse order stands."""
    COARSE_FALLBACK = "coarse_fallback"
    """Nothing could be reranked; the coarse order stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """An item of the answer, with the ledger that explains its place.

    `score` is that of the ledger; `stage` is None if the profile does not rerank. `folded` says the
    same as the item, the newest first; all are older than it. `outdated_by` is the later statement
    about the same thing, which holds in its place. `tenant` is whose it is, if several were asked.
    """

    item: Item
    ledger: Ledger
    folded: tuple[Item, ...] = ()
    stage: Stage | None = None
    outdated_by: ItemId | None = None
    tenant: str = ""
    score: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "score", self.ledger.score)

    @property
    def key(self) -> tuple[str, ItemId]:
        """The key that no other hit has."""
        return self.tenant, self.item.item

    @property
    def text(self) -> str:
        """The text of the item, without title and speaker."""
        return self.item.text if isinstance(self.item, Segment) else self.item.statement

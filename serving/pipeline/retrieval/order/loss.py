"""The stages at which an item can be lost."""

from __future__ import annotations

from enum import StrEnum


class Loss(StrEnum):
    """The stage at which an item was lost."""

    NONE = "none"
    """It is in the answer."""
    NOT_STORED = "not_stored"
    """The tenant has no such item, or it is another tenant's."""
    FILTERED = "filtered"
    """The filter, or the request's time, hides it."""
    NOT_PROJECTED = "not_projected"
    """It is stored, but the projection that a leg needs to find it lacks it yet."""
    NOT_MATCHED = "not_matched"
    """No leg finds it, however deep it looks."""
    BELOW_DEPTH = "below_depth"
    """A leg with more depth, or without a floor, would find it."""
    NOT_SEARCHED = "not_searched"
    """A leg would find it with a longer lookback, or without its pool."""
    UNANSWERED = "unanswered"
    """A leg that might find it did not answer, then or with more depth."""
    FOLDED = "folded"
    """A newer item that says the same stands for it."""
    LESS_IMPORTANT = "less_important"
    """Without weighing by importance it would be in the answer."""
    DECAYED = "decayed"
    """Without its age it would be in the answer."""
    BELOW_HEAD = "below_head"
    """It lies beyond the reranked head, and no other step cost it its place."""
    RERANKED_DOWN = "reranked_down"
    """Reranking moved it out of the answer."""
    OUTDATED = "outdated"
    """A statement of another time about the same thing moved it out of the answer."""
    DISPLACED = "displaced"
    """Diversification, a reserved place or a turn next to other hits moved it out of the answer."""
    CUT = "cut"
    """It lies below the last place."""

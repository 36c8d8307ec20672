"""The spread of a walk over entities and facts, and the explanations of its candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from serving.domain.items.records import ItemId
from serving.domain.ranking.ranked_list import Candidate

HOP_DECAY = 0.5
"""The weight of a second hop, or of a mention of a reached entity, relative to a first hop."""

MAX_SEEDS = 32
"""The entities that a walk starts from: the question's names, longest first, or those of the seed
segments."""

NESTED_NAME = 0.25
"""The weight of a name within a longer name that the question has too."""

MIN_FAN_OUT = 64
"""The least mentions that are read per entity; `depth` if that is more. On LoCoMo's dev questions
recall@10 is the same with 50 as with 400."""

FACTS_PER_SEED = 200
FACTS_PER_SEED_FILTERED = 2000
"""With a filter more facts are read, since fewer pass."""

FACTS_PER_ENTITY = 50
"""The facts followed from an entity one hop away."""

REACHED_MENTIONS = 50
"""The mentions of an entity one hop away are ignored if it has more."""

MAX_ROWS = 2000
"""The maximum of contributions to all scores."""

MAX_TRAILS = 16
"""The contributions per item from which its path and facts are read."""


class Step(NamedTuple):
    """A fact on a path, and the entity that it leads to."""

    fact_id: str
    relation: str
    forward: bool
    """From its subject to its object."""
    reached: str

    def __str__(self) -> str:
        arrow = f"-[{self.relation}]->" if self.forward else f"<-[{self.relation}]-"
        return f"{arrow} {self.reached}"


class Trail(NamedTuple):
    """The path of one contribution to a score: a seed entity and the steps from it.

    `cited`: the item is evidence of the last step's fact.
    """

    gain: float
    seed: str
    steps: tuple[Step, ...]
    cited: bool

    def __str__(self) -> str:
        return " ".join([self.seed, *map(str, self.steps)])


def reached(item: ItemId, score: float, trails: Sequence[Trail]) -> Candidate:
    """The candidate that a walk by activation reached: its path, and the facts that cite it."""
    # A path to a fact that cites the item is more informative than a mention of its ends.
    best = sorted(trails, key=lambda each: (not each.cited, -each.gain, len(each.steps), each.seed))
    return Candidate(item, score, path_of(best), citing(best))


def citing(trails: Sequence[Trail]) -> tuple[str, ...]:
    """The distinct facts that cite the item, in the order of the trails."""
    return tuple(dict.fromkeys(trail.steps[-1].fact_id for trail in trails if trail.cited))


def path_of(trails: Sequence[Trail]) -> str:
    """The first trail in words; if it is a mention, the names of all mentioned entities."""
    if not trails:
        return ""
    if trails[0].steps:
        return str(trails[0])
    return ", ".join(dict.fromkeys([trail.seed for trail in trails if not trail.steps]))

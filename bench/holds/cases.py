"""Questions with their first candidates, and what is known of each candidate."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.harness.collection import Collection, read_collection
from serving.domain.ranking.holds.likeness import sampled, scale_of
from serving.domain.ranking.holds.statement import Statement
from trivium.values import Segment

CONVERSATIONS = frozenset({"locomo", "locomo-without-facts", "realtalk"})
"""Sets without questions about what changed."""

NEAR = frozenset({"dense", "context", "facts"})


@dataclass(frozen=True, kw_only=True)
class Case:
    """A question, its candidates by place, and their judgments.

    `gold` has the grade of each candidate that answers; `golds` counts those of the whole memory.
    `over` are the places of candidates whose value is no longer valid, `holds` of those that hold,
    and `traps` of later look-alikes of them. `missing` says that one of `holds` is no candidate.
    """

    set_name: str
    scope: str
    id: str
    category: str
    text: str
    head: Sequence[Statement]
    ids: Sequence[str]
    gold: dict[int, float]
    golds: dict[str, float]
    over: frozenset[int]
    holds: frozenset[int]
    traps: frozenset[int]
    missing: bool
    changed: bool

    @property
    def is_about_changes(self) -> bool:
        """Whether its set asks what holds now."""
        return self.set_name not in CONVERSATIONS

    @property
    def hand(self) -> str:
        """The author of its memory; a conversation of others is a hand of its own."""
        if self.set_name == "updates":
            return f"updates-{self.scope[:2]}"
        return self.set_name if self.is_about_changes else f"{self.set_name}-{self.scope}"


def read_cases(folder: Path, heads: Path) -> list[Case]:
    """The judged questions of a set, with the candidates and vectors in the files of its name."""
    collection = read_collection(folder)
    name, heads = folder.name, heads / f"{folder.name}.jsonl"
    segments = {
        segment.id: (segment, place)
        for memory in collection.memories.values()
        for place, segment in enumerate(memory.segments)
    }
    lines = map(json.loads, heads.read_text(encoding="utf-8").splitlines())
    stored = {line["id"]: line["head"] for line in lines}
    vectors = _vectors(collection, heads.with_suffix(".npz"))
    cases = []
    for query in sorted(collection.judged, key=lambda each: each.id):
        found = stored[query.id]
        ids = [id_ for id_, _, _ in found]
        place = {id_: at for at, id_ in enumerate(ids)}
        kept = query.holds or (frozenset() if query.outdated else query.current)
        cases.append(
            Case(
                set_name=name,
                scope=query.tenant,
                id=query.id,
                category=query.category,
                text=query.text,
                head=[
                    _statement(*segments[id_], score, legs, vectors.get(id_))
                    for id_, score, legs in found
                ],
                ids=ids,
                gold={place[id_]: grade for id_, grade in query.grades.items() if id_ in place},
                golds=dict(query.grades),
                over=frozenset(place[id_] for id_ in query.outdated if id_ in place),
                holds=frozenset(place[id_] for id_ in kept if id_ in place),
                traps=frozenset(place[id_] for id_ in query.traps if id_ in place),
                missing=any(id_ not in place for id_ in kept),
                changed=bool(query.outdated),
            )
        )
    return cases


def _vectors(collection: Collection, path: Path) -> dict[str, NDArray[np.float32]]:
    """The stored vectors by segment, at the scale of its memory; none if there is no file."""
    if not path.exists():
        return {}
    with np.load(path) as stored:
        made = dict(zip(stored["ids"].tolist(), stored["vectors"].astype(np.float32), strict=True))
    vectors: dict[str, NDArray[np.float32]] = {}
    for memory in collection.memories.values():
        ids = [each.id for each in memory.segments if each.id in made]
        if ids:
            some = [made[id_] for id_ in ids[sampled(len(ids))]]
            vectors |= {id_: made[id_] * scale_of(np.array(some)) for id_ in ids}
    return vectors


def _statement(
    segment: Segment,
    place: int,
    score: float,
    legs: dict[str, float],
    vector: NDArray[np.float32] | None,
) -> Statement:
    said = segment.event_time or datetime.min
    said = said if said.tzinfo else said.replace(tzinfo=UTC)
    return Statement(
        text=segment.text,
        said=said,
        stored=said + timedelta(microseconds=place),
        score=score,
        is_near=not NEAR.isdisjoint(legs),
        is_turn=bool(segment.speaker),
        speaker=segment.speaker,
        session=segment.session,
        vector=vector,
    )

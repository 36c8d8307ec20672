"""The measures of a judgement of heads: current first, what holds kept, marks, and ranking."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.holds.cases import Case
from serving.domain.ranking.holds.judge import Judgement
from serving.domain.ranking.holds.pairs import HEAD

DEPTH = 10
NOWHERE = 99
MARKS = ("right", "wrong", "other")


@dataclass(frozen=True)
class Outcome:
    """The outcome of a question: its scores by measure, and its marks by what they are."""

    case: Case
    scores: Mapping[str, float]
    marks: Mapping[str, int] = field(default_factory=dict)


def outcome(case: Case, judged: Judgement) -> Outcome:
    """Scores the order that the factors give, and the marks."""
    head = case.head[:HEAD]
    values = [
        each.score * math.prod(term.factor for term in terms)
        for each, terms in zip(head, judged.verdicts, strict=True)
    ]
    order = [*sorted(range(len(head)), key=lambda at: -values[at]), *range(HEAD, len(case.head))]
    ranks = {at: rank for rank, at in enumerate(order[:DEPTH], 1)}
    first = min((ranks[at] for at in case.gold if at in ranks), default=NOWHERE)
    scores = {
        "mrr": 1 / first if first < NOWHERE else 0.0,
        "recall": sum(at in ranks for at in case.gold) / len(case.golds),
    }
    best = max(case.golds.values())
    if case.changed:
        newest = [ranks[at] for at, grade in case.gold.items() if grade == best and at in ranks]
        before = min((ranks[at] for at in case.over if at in ranks), default=NOWHERE)
        scores["current first"] = float(min(newest, default=NOWHERE) < before)
    elif case.traps or case.category == "hold":
        is_there = not case.missing and all(at in ranks for at in case.holds)
        trap = min((ranks[at] for at in case.traps if at in ranks), default=NOWHERE + 1)
        last = max((ranks[at] for at in case.holds if at in ranks), default=NOWHERE)
        scores["kept"] = float(is_there and last < trap)
    if case.category == "history":
        return Outcome(case, scores)
    kinds = [_kind(case, at) for at in judged.outdated_by]
    if not case.changed:
        scores["harm"] = float("wrong" in kinds)
    return Outcome(case, scores, {kind: kinds.count(kind) for kind in MARKS})


def _kind(case: Case, marked: int) -> str:
    if marked in case.over:
        return "right"
    is_best = case.gold.get(marked) == max(case.golds.values())
    return "wrong" if marked in case.holds or is_best else "other"


def means(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """The mean of each measure, over the questions that have it, and the sums of marks."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for each in outcomes:
        for name, score in each.scores.items():
            found[name].append(score)
    marks = {kind: float(sum(each.marks.get(kind, 0) for each in outcomes)) for kind in MARKS}
    return {name: float(np.mean(scores)) for name, scores in found.items()} | marks

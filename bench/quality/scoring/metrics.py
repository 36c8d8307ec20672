"""The metrics of the answer to one question, by trec_eval (`pytrec_eval`).

Judgments are binary here: a segment answers a question or not. Segments are scored in the order of
the hits, and a fact counts as its evidence.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from itertools import takewhile

import pytrec_eval

from serving.domain.briefing import inert
from trivium.values import BriefingOptions, Fact, Hit, Retrieval

DEPTH = 10
"""The depth of a ranked list for the metrics."""

BRIEFING_CHARS = 2000
"""The length of the block for a prompt within which evidence is looked for."""

BRIEFING = BriefingOptions(max_chars=BRIEFING_CHARS)

EVIDENCE = f"evidence@{BRIEFING_CHARS}"
"""The share of the relevant segments in the prompt block; all others measure the ranked list."""

CURRENT_FIRST = "current-first@10"
"""Of questions with outdated segments: whether a current one is found, and before all of these."""

KEPT = "kept@10"
"""Of questions about what seems to change: whether all that holds is found, and before every
look-alike of a later time."""

METRICS = ("recall@5", "recall@10", "ndcg@10", "mrr@10", "all-gold@10", EVIDENCE)
"""The metrics of every question, in the order of the tables."""

ALL_METRICS = (*METRICS, CURRENT_FIRST, KEPT)
"""With those of some questions."""

_MEASURES = {"recall.5,10", "ndcg_cut.10", "recip_rank"}


def ranked_segments(hits: Iterable[Hit], depth: int = DEPTH) -> list[str]:
    """The ids of segments in the order of hits, each fact as its evidence; at most `depth`."""
    ids = (id_ for hit in hits for id_ in _segments_of(hit))
    return list(dict.fromkeys(ids))[:depth]


def briefed_segments(retrieval: Retrieval) -> frozenset[str]:
    """The segments whose whole text is in the block for a prompt; a fact stands for its evidence.

    A text that is cut does not count: what is left out may be what was asked.
    """
    lines = retrieval.briefing.split("\n")
    return frozenset(
        id_ for hit in retrieval.hits if _is_in(lines, hit) for id_ in _segments_of(hit)
    )


def _is_in(lines: Sequence[str], hit: Hit) -> bool:
    item = hit.item
    if isinstance(item, Fact):
        shown = f" {inert(item.sentence or item.relation)}"
    else:
        shown = f'"{inert(item.text)}"' if item.speaker else f" {inert(item.text)}"
    return any(line.startswith("- ") and shown in line for line in lines)


def _segments_of(hit: Hit) -> Sequence[str]:
    return hit.item.evidence if isinstance(hit.item, Fact) else (hit.id,)


def scores(
    ranked: Sequence[str], relevant: AbstractSet[str], briefed: AbstractSet[str]
) -> dict[str, float]:
    """Every metric of one answer, by its name.

    `ranked` are ids, best first, none twice; `briefed` those whose text is in the block for a
    prompt.
    """
    head = ranked[:DEPTH]
    run = {id_: float(DEPTH - place) for place, id_ in enumerate(head)}
    evaluator = pytrec_eval.RelevanceEvaluator({"": dict.fromkeys(relevant, 1)}, _MEASURES)
    found = evaluator.evaluate({"": run})[""]
    return {
        "recall@5": found["recall_5"],
        "recall@10": found["recall_10"],
        "ndcg@10": found["ndcg_cut_10"],
        "mrr@10": found["recip_rank"],
        # A question of several hops is answered only by all of its evidence.
        "all-gold@10": float(relevant <= set(head)),
        EVIDENCE: len(relevant & briefed) / len(relevant),
    }


def current_first(
    ranked: Sequence[str], current: AbstractSet[str], outdated: AbstractSet[str]
) -> float:
    """1 if a current segment is among the first, and before every outdated one, else 0."""
    either = (id_ for id_ in ranked[:DEPTH] if id_ in current or id_ in outdated)
    return float(next(either, None) in current)


def kept(ranked: Sequence[str], holds: AbstractSet[str], traps: AbstractSet[str]) -> float:
    """1 if all that holds is among the first, and before every look-alike, else 0."""
    before = takewhile(lambda id_: id_ not in traps, ranked[:DEPTH])
    return float(holds <= set(before))


def marks(
    marked: Collection[str], outdated: AbstractSet[str], holds: AbstractSet[str]
) -> tuple[int, int]:
    """The numbers of hits marked as outdated rightly, and wrongly, since they hold.

    A mark of what is neither counts as none.
    """
    wrong = sum(id_ in holds and id_ not in outdated for id_ in marked)
    return sum(id_ in outdated for id_ in marked), wrong

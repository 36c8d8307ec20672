"""The newest statement of each subject, by the words that statements share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from serving.domain.items.records import Fact, Segment, told_at
from serving.domain.items.text import name_key
from serving.domain.languages import ENGLISH
from serving.domain.ranking.holds.statement import Traits, traits_of

SAME_SUBJECT = 0.5
"""A statement with more than this share of the words of an older one is about its subject."""


def newest_by_subject(segments: Iterable[Segment], facts: Sequence[Fact] = ()) -> list[Segment]:
    """Returns the newest statement of each subject, newest first.

    Of what one speaker said about a subject the newest stays: words decide, as a stem each and
    without function words. "I am allergic to penicillin" and "I am allergic to nuts" share half of
    them, and are two subjects. Left out are also segments that only ask, that have no such word, or
    that say no more than one of the `facts`, whose evidence they are.
    """
    taken: defaultdict[tuple[str, str], list[AbstractSet[str]]] = defaultdict(list)
    for fact in facts:
        for id_ in fact.evidence:
            taken["segment", id_].append(_traits(fact.statement).stems)
    kept = []
    for segment in sorted(segments, key=told_at, reverse=True):
        traits = _traits(segment.text)
        of_speaker = taken["speaker", name_key(segment.speaker)]
        if traits.asks or _is_within(traits.stems, [*taken["segment", segment.id], *of_speaker]):
            continue
        of_speaker.append(traits.stems)
        kept.append(segment)
    return kept


def _traits(text: str) -> Traits:
    return traits_of(text, ENGLISH.name)


def _is_within(words: AbstractSet[str], others: Iterable[AbstractSet[str]]) -> bool:
    """Whether most words are in one of the others, or there are none."""
    return not words or any(len(words & other) > SAME_SUBJECT * len(words) for other in others)

"""The newest statement of each subject, and what speakers have told of themselves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache

from serving.domain.items.records import Fact, Segment, told_at
from serving.domain.items.text import name_key
from serving.domain.languages import ENGLISH, language_of_words
from serving.domain.ranking.diversity import words_of
from serving.domain.ranking.holds.statement import TextTraits, traits_of

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


@lru_cache(64)
def is_about_asker(question: str) -> bool:
    """Whether a question is for what is known of who asks: "What do you know about me?"."""
    words = words_of(question)
    return language_of_words(words).about_asker.fullmatch(question.strip()) is not None


def told_of_oneself(segments: Sequence[Segment]) -> list[Segment]:
    """Returns what speakers have told of themselves, as these are ordered.

    What lasts ("I am a nurse", "my name is Oda") comes before other statements in the first person.
    Speakers of whom none lasts, and what speaks to "you", are left out: bots say "I" too.
    """
    own = [each for each in segments if _is_of_oneself(_traits(each.text))]
    lasting = [each for each in own if _lasts(_traits(each.text))]
    speakers = {name_key(each.speaker) for each in lasting}
    others = [each for each in own if each not in lasting and name_key(each.speaker) in speakers]
    return lasting + others


def _is_of_oneself(traits: TextTraits) -> bool:
    return (traits.signs["mine"] or _lasts(traits)) and traits.words.isdisjoint(_YOU)


def _lasts(traits: TextTraits) -> bool:
    return language_of_words(traits.words).about_self.search(traits.text) is not None


_YOU = frozenset({"you", "your", "yours", "yourself", "du", "dich", "dir", "dein", "usted"})


def _traits(text: str) -> TextTraits:
    return traits_of(text, ENGLISH.name)


def _is_within(words: AbstractSet[str], others: Iterable[AbstractSet[str]]) -> bool:
    """Whether most words are in one of the others, or there are none."""
    return not words or any(len(words & other) > SAME_SUBJECT * len(words) for other in others)

"""Repeats: items in which the same speaker says the same, of which the newest stands for all."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import TypeAlias

from serving.domain.items.records import Item, ItemId, Segment, time_of
from serving.domain.items.text import name_key
from serving.domain.ranking.ranked_list import Candidate

Said: TypeAlias = tuple[object, ...]
"""Equal for items that say the same."""

MAX_REMEMBERED = 1 << 14
"""The texts whose tokens are kept: most candidates are found again by other questions."""

_QUOTES = '"“”„«»'
_ENDS = ".,;:!…\u3002\u3001" + _QUOTES
"""The characters that end or quote a sentence, at the end of a token. Not the question mark, which
makes another sentence of it."""


def said_in(item: Item) -> Said:
    """The words of an item, and its speaker.

    The tokens in their order, without case, white space and the punctuation of sentences. Numbers,
    signs and the smallest words count: "may" and "may not", "Ana owes Mark" and "Mark owes Ana",
    "5" and "-5" are different. A sensitive item repeats no other, since less is done with it.
    """
    if isinstance(item, Segment):
        return name_key(item.speaker), item.sensitive, _bare(item.title), _bare(item.text)
    return item.item.kind, item.sensitive, _bare(item.statement)


@lru_cache(MAX_REMEMBERED)
def _bare(text: str) -> str:
    """The tokens of a text, with a space between."""
    whole = unicodedata.normalize("NFKC", text).casefold().replace("’", "'").split()
    bare = [token.rstrip(_ENDS).lstrip(_QUOTES) for token in whole]
    return " ".join(filter(None, bare)) or " ".join(whole)


def newest_of_repeats(items: Iterable[Item]) -> dict[ItemId, ItemId]:
    """For each item of those that say the same, the newest of them; others are left out."""
    groups: defaultdict[Said, list[Item]] = defaultdict(list)
    for item in items:
        groups[said_in(item)].append(item)
    return {
        each.item: max(group, key=_age).item
        for group in groups.values()
        if len(group) > 1
        for each in group
    }


def _age(item: Item) -> tuple[object, ...]:
    return time_of(item), item.item


def newest_first(items: Iterable[Item]) -> list[Item]:
    """Orders by time, the newest first."""
    return sorted(items, key=_age, reverse=True)


def tied(candidates: Sequence[Candidate], depth: int) -> list[ItemId]:
    """The candidates that share their score with another one: their texts may be equal.

    Those are left out that are beyond the depth even if all of these before them are folded. The
    candidates are best first, of a leg in which equal texts have equal scores.
    """
    items: list[ItemId] = []
    if len({candidate.score for candidate in candidates}) == len(candidates):
        return items
    place = 0
    for _, of_score in groupby(candidates, key=lambda candidate: candidate.score):
        group = [candidate.item for candidate in of_score]
        if place >= depth + len(items):
            break
        if len(group) > 1:
            items += group
        place += len(group)
    return items


def folded(
    candidates: Sequence[Candidate], newest: Mapping[ItemId, ItemId]
) -> tuple[Candidate, ...]:
    """The candidates with one for each group of repeats: the newest, with the best one's score."""
    first: dict[ItemId, Candidate] = {}
    for candidate in candidates:
        item = newest.get(candidate.item, candidate.item)
        first.setdefault(item, candidate._replace(item=item))
    return tuple(first.values())

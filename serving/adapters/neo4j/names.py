"""Candidate entity names in a question: exact by its n-grams, near by its words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

from serving.domain.items.text import name_key
from serving.domain.languages import ENGLISH, Language

MAX_NAME_WORDS = 8
"""The longest name looked up. With 5, the graph leg alone loses 7 points of recall@10 on the dev
questions of 2Wiki and 2 on those of MuSiQue, whose titles are long."""

MAX_QUESTION_WORDS = 128
"""The words of a question that are used; each costs up to eight index seeks of 3 us."""

NEAR_COVERAGE = 0.6
"""The share of a name's words that the question must contain for a near match."""

NEAR_WEIGHT = 0.25
"""The weight of a near match, relative to an exact name of as many words."""

FUZZY_FROM_LETTERS = 4
"""Shorter words have too many neighbours at one letter's distance."""

MAX_KEY_CHARACTERS = 512
"""A longer key is replaced by its prefix and hash: Neo4j rejects index keys beyond about 8 kB."""


@dataclass(frozen=True, slots=True)
class NamedSpan:
    """A key that the question may name, its weight, and the range of words it spans.

    A near match spans no words: `start` and `end` are -1.
    """

    key: str
    weight: float
    start: int
    end: int


def entity_key(name: str) -> str:
    """The key of an entity in the graph: `name_key`, bounded in length."""
    key = name_key(name)
    if len(key) <= MAX_KEY_CHARACTERS:
        return key
    digest = blake2b(key.encode(), digest_size=16).hexdigest()
    return f"{key[: MAX_KEY_CHARACTERS // 2]} {digest}"


def tenant_token(tenant: str) -> str:
    """The tenant as a single word, to filter the full-text index by."""
    return "t" + blake2b(tenant.encode(), digest_size=12).hexdigest()


def question_spans(question: str, language: Language = ENGLISH) -> list[NamedSpan]:
    """The distinct runs of up to `MAX_NAME_WORDS` words, longest first; none of stop words only.

    A span's weight is its number of words, since longer names are more specific.
    """
    words = name_key(question).split()[:MAX_QUESTION_WORDS]
    spans: dict[str, NamedSpan] = {}
    for length in range(min(MAX_NAME_WORDS, len(words)), 0, -1):
        for start in range(len(words) - length + 1):
            run = words[start : start + length]
            if not language.stop_words.issuperset(run):
                key = " ".join(run)
                spans.setdefault(key, NamedSpan(key, float(length), start, start + length))
    return list(spans.values())


def near_names_query(tenant: str, question: str, language: Language = ENGLISH) -> str | None:
    """The Lucene query for the tenant's names that share words with the question.

    Words may differ by one letter. None if the question has no content word. Words are lower-case
    letters and digits, so they contain no Lucene operators.
    """
    words = content_words(question, language)
    if not words:
        return None
    terms = " ".join(
        f"key:{word} key:{word}~1" if len(word) >= FUZZY_FROM_LETTERS else f"key:{word}"
        for word in words
    )
    return f"+tenant_token:{tenant_token(tenant)} +({terms})"


def content_words(text: str, language: Language = ENGLISH) -> list[str]:
    """The distinct words that are not stop words, split like Lucene's analyzer does."""
    words = re.findall(r"[^\W_]+", name_key(text))[:MAX_QUESTION_WORDS]
    return [word for word in dict.fromkeys(words) if word not in language.stop_words]


def near_spans(question: str, keys: Iterable[str], language: Language = ENGLISH) -> list[NamedSpan]:
    """The keys whose words are mostly in the question, best first."""
    asked = frozenset(content_words(question, language))
    spans = []
    for key in keys:
        words = content_words(key, language)
        shared = sum(
            word in asked or any(one_letter_apart(word, other) for other in asked) for word in words
        )
        if shared and shared >= NEAR_COVERAGE * len(words):
            weight = NEAR_WEIGHT * shared * shared / len(words)
            spans.append(NamedSpan(key, weight, -1, -1))
    return sorted(spans, key=lambda span: (-span.weight, span.key))


def one_letter_apart(left: str, right: str) -> bool:
    """Whether the words differ by one inserted, deleted or changed letter.

    False for words shorter than `FUZZY_FROM_LETTERS`.
    """
    shorter, longer = sorted((left, right), key=len)
    if len(shorter) < FUZZY_FROM_LETTERS or len(longer) - len(shorter) > 1:
        return False
    same = 0
    while same < len(shorter) and shorter[same] == longer[same]:
        same += 1
    skip = 1 if len(shorter) == len(longer) else 0
    return shorter[same + skip :] == longer[same + 1 :]

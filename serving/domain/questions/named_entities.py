"""The entities that a question may name: exact by its n-grams, near by its words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from serving.domain.items.text import WORD, name_key, name_words
from serving.domain.languages import ENGLISH
from serving.domain.words.scripts import is_unspaced, letters_of

MAX_NAME_WORDS = 8
"""The longest name looked up. With 5, the graph leg alone loses 7 points of recall@10 on the dev
questions of 2Wiki and 2 on those of MuSiQue, whose titles are long."""

MAX_QUESTION_WORDS = 128
"""The words of a question that are used; each costs up to eight index seeks of 3 us."""

MAX_UNSPACED_LETTERS = 64
"""The letters of a question without spaces that are used; each costs up to seven index seeks."""

UNSPACED_NAME_LETTERS = range(2, 9)
"""The letters of a name within text without spaces. One letter is in too many words."""

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
    """Words that the question may name entities by, their weight, and the range that they span.

    `words` is in the form of `entity_words`. A near match spans no words: `start` and `end` are -1.
    """

    words: str
    weight: float
    start: float
    end: float

    def is_nested_in(self, others: Iterable[NamedSpan]) -> bool:
        """Whether a longer one of the others spans it too."""
        return any(
            other.start <= self.start
            and self.end <= other.end
            and other.end - other.start > self.end - self.start
            for other in others
        )


def entity_key(name: str) -> str:
    """The key of an entity in the graph: `name_key`, bounded in length."""
    return _bounded(name_key(name))


def entity_words(name: str) -> str:
    """The words that a question names an entity by: `name_words`, bounded in length.

    Entities with different keys may have the same.
    """
    return _bounded(" ".join(name_words(name)))


def _bounded(key: str) -> str:
    if len(key) <= MAX_KEY_CHARACTERS:
        return key
    digest = blake2b(key.encode(), digest_size=16).hexdigest()
    return f"{key[: MAX_KEY_CHARACTERS // 2]} {digest}"


def question_spans(question: str) -> list[NamedSpan]:
    """The distinct runs of up to `MAX_NAME_WORDS` words, longest first; none of stop words only.

    A span's weight is its number of words, since longer names are more specific. In a script
    without spaces a name may begin and end anywhere within a word.
    """
    words = name_words(question)[:MAX_QUESTION_WORDS]
    spans: dict[str, NamedSpan] = {}
    for length in range(min(MAX_NAME_WORDS, len(words)), 0, -1):
        for start in range(len(words) - length + 1):
            run = words[start : start + length]
            if not ENGLISH.stop_words.issuperset(run):
                named = " ".join(run)
                spans.setdefault(named, NamedSpan(named, float(length), start, start + length))
    for span in _unspaced_spans(words):
        spans.setdefault(span.words, span)
    return list(spans.values())


def _unspaced_spans(words: Sequence[str]) -> Iterator[NamedSpan]:
    """The parts of words of scripts without spaces, longest first; each counts as a word."""
    runs: list[tuple[int, list[str]]] = []
    left = MAX_UNSPACED_LETTERS
    for place, word in enumerate(words):
        if left > 0 and is_unspaced(word):
            runs.append((place, letters_of(word)[:left]))
            left -= len(runs[-1][1])
    for length in reversed(UNSPACED_NAME_LETTERS):
        for place, letters in runs:
            for start in range(len(letters) - length + 1):
                end = start + length
                begins, ends = (place + at / len(letters) for at in (start, end))
                yield NamedSpan("".join(letters[start:end]), 1.0, begins, ends)


def content_words(text: str) -> list[str]:
    """The distinct words that are not stop words, split like Lucene's analyzer does."""
    words = [word for run in name_words(text) for word in run.split("_") if WORD.fullmatch(word)]
    distinct = dict.fromkeys(words[:MAX_QUESTION_WORDS])
    return [word for word in distinct if word not in ENGLISH.stop_words]


def may_name(question: str) -> bool:
    """Whether a name can match the question; nothing is to be looked up for one that none can."""
    return bool(question_spans(question) or content_words(question))


def near_spans(question: str, names: Iterable[str]) -> list[NamedSpan]:
    """The names whose words are mostly in the question, best first; `names` are `entity_words`."""
    asked = frozenset(content_words(question))
    spans = []
    for name in names:
        words = content_words(name)
        shared = sum(
            word in asked or any(one_letter_apart(word, other) for other in asked) for word in words
        )
        if shared and shared >= NEAR_COVERAGE * len(words):
            weight = NEAR_WEIGHT * shared * shared / len(words)
            spans.append(NamedSpan(name, weight, -1, -1))
    return sorted(spans, key=lambda span: (-span.weight, span.words))


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

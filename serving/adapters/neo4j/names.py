"""Finds in a question what could name an entity: exactly by its n-grams, nearly by its words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

from serving.domain.text import name_key

MAX_NAME_WORDS = 8
"""The longest name looked up. With 5, the graph alone loses 7 points of recall@10 on
2Wiki's and 2 on MuSiQue's dev questions, whose titles are long."""

MAX_QUESTION_WORDS = 128
"""The words of a question that are looked at; each costs up to eight index seeks of 3 us."""

NEAR_COVERAGE = 0.6
"""The share of a name's words that the question must have for a near miss."""

NEAR_WEIGHT = 0.25
"""What a near miss counts against an exact name of as many words."""

FUZZY_FROM_LETTERS = 4
"""Shorter words have too many neighbours at one letter's distance."""

MAX_KEY_CHARACTERS = 512
"""Neo4j refuses index keys beyond some 8 kB; what is longer is known by its beginning and hash."""

# "will", "may" and the like are left out, since people are called so.
_STOP_WORDS = """
    a about after again all also am an and any are as at be because been before being both but
    by can could did do does doing done down during each ever few for from further get give go
    had has have having he her here hers him his how i if in into is it its just let like me
    more most much must my no nor not now of off on once only or other our ours out over own
    same say shall she should so some such tell than that the their theirs them then there
    these they this those through to too under until up us very was we were what when where
    which while who whom whose why with would you your yours
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())


@dataclass(frozen=True, slots=True)
class NamedSpan:
    """A key that the question may name, how much it says, and the words it spans.

    A near miss spans no words: `start` and `end` are -1.
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
    """One word that stands for the tenant in the full-text index, whatever its letters."""
    return "t" + blake2b(tenant.encode(), digest_size=12).hexdigest()


def question_spans(question: str) -> list[NamedSpan]:
    """The distinct runs of one to eight words that are not stop words alone, longest first.

    A longer name says more, so a span weighs as many as its words.
    """
    words = name_key(question).split()[:MAX_QUESTION_WORDS]
    spans: dict[str, NamedSpan] = {}
    for length in range(min(MAX_NAME_WORDS, len(words)), 0, -1):
        for start in range(len(words) - length + 1):
            run = words[start : start + length]
            if not STOP_WORDS.issuperset(run):
                key = " ".join(run)
                spans.setdefault(key, NamedSpan(key, float(length), start, start + length))
    return list(spans.values())


def near_names_query(tenant: str, question: str, *, misspelt: bool) -> str | None:
    """The Lucene query for names that share words with the question.

    With `misspelt` a word may be a letter apart, which costs 2.5 ms of the
    server's time more. Returns None where the question has no word to search by. Words are letters
    and digits only and lower case, so none of Lucene's metacharacters or
    operators can be among them.
    """
    words = content_words(question)
    if not words:
        return None
    terms = " ".join(
        f"key:{word} key:{word}~1"
        if misspelt and len(word) >= FUZZY_FROM_LETTERS
        else f"key:{word}"
        for word in words
    )
    return f"+tenant_token:{tenant_token(tenant)} +({terms})"


def content_words(text: str) -> list[str]:
    """The distinct words that are not stop words, as Lucene's analyzer would split them."""
    words = re.findall(r"[^\W_]+", name_key(text))[:MAX_QUESTION_WORDS]
    return [word for word in dict.fromkeys(words) if word not in STOP_WORDS]


def near_spans(question: str, keys: Iterable[str], *, misspelt: bool) -> list[NamedSpan]:
    """Those of the keys whose words are mostly in the question, best first."""
    asked = frozenset(content_words(question))
    spans = []
    for key in keys:
        words = content_words(key)
        shared = sum(_among(word, asked, misspelt) for word in words)
        if shared and shared >= NEAR_COVERAGE * len(words):
            weight = NEAR_WEIGHT * shared * shared / len(words)
            spans.append(NamedSpan(key, weight, -1, -1))
    return sorted(spans, key=lambda span: (-span.weight, span.key))


def _among(word: str, asked: frozenset[str], misspelt: bool) -> bool:
    if word in asked:
        return True
    return misspelt and any(one_letter_apart(word, other) for other in asked)


def one_letter_apart(left: str, right: str) -> bool:
    """Whether one letter put in, taken out or changed makes one word the other.

    Never so for words of less than four letters.
    """
    shorter, longer = sorted((left, right), key=len)
    if len(shorter) < FUZZY_FROM_LETTERS or len(longer) - len(shorter) > 1:
        return False
    same = 0
    while same < len(shorter) and shorter[same] == longer[same]:
        same += 1
    skip = 1 if len(shorter) == len(longer) else 0
    return shorter[same + skip :] == longer[same + 1 :]

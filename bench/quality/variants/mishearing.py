"""Changes the names in questions: to what speech recognition writes for them, or to short forms.

A name that a recogniser does not know comes out as it sounds, spelt by the rules of the language:
Melony for Melanie. What is confused is general phonetics of English (letters that sound alike,
vowels without stress, voiced and voiceless ends, a silent h, a pause within a name); no list of
names is behind it. Everything is drawn from a seed, the question and the name, so that the same
set is changed in the same way on every machine.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from bench.harness.collection import Collection, Memory, Query


class NameChange(StrEnum):
    """How the names in questions reach the service."""

    MISHEARD = "misheard"
    """Spelt as they sound, or nearly."""
    SHORT = "short"
    """By their beginning, Mel for Melanie: names of speakers only, since a set does not say which
    other names are of people."""


LEAST_LETTERS = 3
"""A name with less has nothing to confuse, and a short form with less says nothing."""

SLIPS = (1, 1, 2)
"""How many confusions a name suffers, each of these equally often."""

ATTEMPTS = 40
"""Draws before a name is left as it is, since all that they led to is a word of the memory."""

_VOWELS = "aeiouy"


@dataclass(frozen=True, slots=True)
class Confusion:
    """Spellings of which one is taken for another.

    Args:
        pattern: What is written, in small letters.
        variant: What is written instead, each equally often.
    """

    pattern: re.Pattern[str]
    variant: tuple[str, ...]

    def places(self, word: str) -> Iterator[str]:
        """The word with the confusion at each place where it can happen."""
        for match in self.pattern.finditer(word):
            for variant in self.variant:
                yield word[: match.start()] + match.expand(variant) + word[match.end() :]


def _confusion(pattern: str, *variant: str) -> Confusion:
    return Confusion(re.compile(pattern), variant)


CONFUSIONS = (
    # Consonants with two spellings.
    _confusion("ph", "f"),
    _confusion("f+", "ph"),
    _confusion("ck|k(?!n)|q(?!u)", "c"),
    _confusion("c(?![eiyhk])|ck", "k"),
    _confusion("c(?=[eiy])", "s"),
    _confusion("qu", "kw"),
    _confusion("x", "cks"),
    _confusion("ch(?=[rl])|kh", "k"),
    _confusion("sch", "sh"),
    _confusion("j(?=[eiy])", "g"),
    _confusion("g(?=[eiy])|dg(?=e)", "j"),
    _confusion("th", "t"),
    _confusion("^kn|^gn", "n"),
    _confusion("^wr", "r"),
    _confusion("w(?!r)", "wh"),
    _confusion("(?<=[aeiouy])z(?=[aeiouy])", "s"),
    _confusion("(?<=[aeiouy])s(?=[aeiouy])", "z"),
    # A letter doubled or not, within a word and at its end.
    _confusion(r"([bdfglmnprst])\1", r"\1"),
    _confusion(r"(?<=[aeiouy])([bdfglmnprst])(?=[aeiouy])", r"\1\1"),
    _confusion(r"(?<=[aeiouy])([dlnst])$", r"\1\1"),
    # A silent h, or one that is not.
    _confusion("(?<=[a-z])h(?![a-z]*h)(?<![cpst]h)", ""),
    _confusion("^h(?=[aeiouy])", ""),
    _confusion("(?<=[aeo])(?=[nrl]$)", "h"),
    # Voice: the pairs that differ in nothing else, where it is least audible.
    _confusion("d$", "t"),
    _confusion("t$", "d"),
    _confusion("s$", "z"),
    _confusion("z$", "s"),
    _confusion("v", "f"),
    _confusion("b(?=[aeiouy])", "p"),
    _confusion("(?<=[aeiouy])p(?=[aeiouy])", "b"),
    # Nasals.
    _confusion("m$", "n"),
    _confusion("n$", "m"),
    # Long vowels with several spellings.
    _confusion("(?<=[a-z])(y|ie|ey|ee|i)$", "y", "ie", "ee", "ey"),
    _confusion("ee|ea|(?<=[a-z])ie(?=[a-z])", "ea", "ee"),
    _confusion("ai|ay|ei", "ay", "ai"),
    _confusion("oo|ou", "u"),
    _confusion("au|aw", "o"),
    _confusion("(?<=[a-z]{2})e$", ""),
    _confusion("er$|ar$|or$", "a"),
    _confusion("(?<=[a-z]{2})a$", "er", "ah"),
    # Vowels without stress, which is mostly those after the first syllable and before the end.
    _confusion("(?<=[a-z]{3})[aeiou](?=[a-z])", "a", "e", "i", "o"),
    # A short vowel for its neighbour.
    _confusion("(?<=[^aeiouy])e(?=[^aeiouy])", "i", "a"),
    _confusion("(?<=[^aeiouy])i(?=[^aeiouy])", "e"),
    _confusion("(?<=[^aeiouy])o(?=[^aeiouy])", "a", "u"),
    _confusion("(?<=[^aeiouy])u(?=[^aeiouy])", "o"),
    # A pause: one name becomes two words.
    _confusion("(?<=[a-z]{2})(?<=[aeiouy])(?=[^aeiouy][aeiouy][a-z])", " "),
)
"""What is taken for what. Each is as likely as it has places in a word."""


@dataclass(frozen=True, slots=True)
class NameWords:
    """The words of the names of a memory, in small letters.

    Args:
        speakers: Of those who speak.
        others: Of titles, entities and the ends of facts; none stands in small letters in a text.
        ordinary: What does.
    """

    speakers: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()
    ordinary: frozenset[str] = frozenset()

    def __contains__(self, written: str) -> bool:
        """Whether a word of a question, as it is written, is of a name; initials are none."""
        word = written.casefold()
        named = word in self.speakers or word in self.others
        return named and written != word and not written.isupper()


_NO_NAMES = NameWords()
_WORD = re.compile(r"[^\W\d_]+")


def name_words(memory: Memory) -> NameWords:
    """The words of a memory's names, as its speakers, titles, entities and facts tell them."""
    spoken, texts, names = [], [], []
    for segment in memory.segments:
        spoken.append(segment.speaker)
        texts.append(segment.text)
        names += [segment.title, *segment.entities]
    for fact in memory.facts:
        texts.append(fact.statement)
        names += [fact.subject, fact.object]
    ordinary = frozenset(word for word in _words(texts) if word.islower())
    speakers = frozenset(map(str.casefold, _words(spoken)))
    others = frozenset(map(str.casefold, _words(names))) - ordinary
    return NameWords(speakers, others, ordinary)


def _words(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from _WORD.findall(text)


def with_changed_names(
    collection: Collection, name_change: NameChange, seed: int = 0
) -> Collection:
    """A set whose questions have other names, and another name; memories and judgments stay.

    A changed name is never a name of the set. A short form may be: as whose, if not the speaker's?

    Args:
        collection: The set.
        name_change: How names are changed.
        seed: Of what is drawn; short forms are not drawn.
    """
    by_tenant = {tenant: name_words(memory) for tenant, memory in collection.memories.items()}
    names = frozenset[str]().union(*(each.speakers | each.others for each in by_tenant.values()))

    def changed(query: Query) -> Query:
        words = by_tenant.get(query.tenant, _NO_NAMES)

        def said(match: re.Match[str]) -> str:
            written = match.group()
            if written not in words:
                return written
            if name_change is NameChange.SHORT:
                return _short(written, words)
            draw = random.Random(f"{seed}:{query.id}:{written.casefold()}")
            return misheard(written.casefold(), names, draw).capitalize()

        return replace(query, text=_WORD.sub(said, query.text))

    drawn = ("--seed", str(seed)) if name_change is NameChange.MISHEARD else ()
    return replace(
        collection,
        name=f"{collection.name}-{name_change}",
        queries=[changed(query) for query in collection.queries],
        given_as=(collection.name, "--names", name_change.value, *drawn),
    )


def _short(written: str, words: NameWords) -> str:
    name = written.casefold()
    return shortened(name, words.ordinary).capitalize() if name in words.speakers else written


def misheard(name: str, taken: frozenset[str], draw: random.Random) -> str:
    """A name with one or two confusions, or itself if every variant is taken.

    Args:
        name: In small letters.
        taken: What it must not become.
        draw: Decides.
    """
    for _ in range(ATTEMPTS):
        variant = name
        for _ in range(draw.choice(SLIPS)):
            ways = [way for confusion in CONFUSIONS for way in confusion.places(variant)]
            variant = draw.choice(ways) if ways else variant
        if variant != name and len(variant) >= LEAST_LETTERS and taken.isdisjoint(variant.split()):
            return variant
    return name


def shortened(name: str, taken: frozenset[str]) -> str:
    """A name's beginning up to the end of its first syllable, or as much longer as it takes.

    Args:
        name: In small letters.
        taken: What it must not become.

    Returns:
        At least one letter less than the name; the name where no beginning is free.
    """
    syllable = re.match(f"[^{_VOWELS}]*[{_VOWELS}]+[^{_VOWELS}]", name)
    least = max(LEAST_LETTERS, syllable.end() if syllable else LEAST_LETTERS)
    forms = (name[:length] for length in range(least, len(name)))
    return next((form for form in forms if form not in taken), name)

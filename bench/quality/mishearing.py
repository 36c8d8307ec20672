"""Changes the names in questions: to what speech recognition writes for them, or to short forms.

A name that a recogniser does not know is spelt as it sounds: Melony for Melanie. The confusions are
general phonetics of English, not derived from a list of names. They are drawn by a seed, the
question and the name, so that a set is changed in the same way on every machine.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from bench.harness.collection import Collection, Memory, Query


class NameChange(StrEnum):
    """The change of the names in questions."""

    MISHEARD = "misheard"
    """Spelt as they sound, or nearly."""
    SHORT = "short"
    """By their beginning, Mel for Melanie: names of speakers only, since a set does not say which
    other names are of people."""


MIN_LETTERS = 3
"""A name with less has nothing to confuse, and a short form with less says nothing."""

SLIPS = (1, 1, 2)
"""The numbers of confusions of a name, each equally often."""

ATTEMPTS = 40
"""Draws before a name is left as it is, since all that they led to is a word of the memory."""

_VOWELS = "aeiouy"

CONFUSIONS: Sequence[tuple[str, ...]] = (
    # Consonants with two spellings.
    ("ph", "f"),
    ("f+", "ph"),
    ("ck|k(?!n)|q(?!u)", "c"),
    ("c(?![eiyhk])|ck", "k"),
    ("c(?=[eiy])", "s"),
    ("qu", "kw"),
    ("x", "cks"),
    ("ch(?=[rl])|kh", "k"),
    ("sch", "sh"),
    ("j(?=[eiy])", "g"),
    ("g(?=[eiy])|dg(?=e)", "j"),
    ("th", "t"),
    ("^kn|^gn", "n"),
    ("^wr", "r"),
    ("w(?!r)", "wh"),
    ("(?<=[aeiouy])z(?=[aeiouy])", "s"),
    ("(?<=[aeiouy])s(?=[aeiouy])", "z"),
    # A letter doubled or not, within a word and at its end.
    (r"([bdfglmnprst])\1", r"\1"),
    (r"(?<=[aeiouy])([bdfglmnprst])(?=[aeiouy])", r"\1\1"),
    (r"(?<=[aeiouy])([dlnst])$", r"\1\1"),
    # A silent h, or one that is not.
    ("(?<=[a-z])h(?![a-z]*h)(?<![cpst]h)", ""),
    ("^h(?=[aeiouy])", ""),
    ("(?<=[aeo])(?=[nrl]$)", "h"),
    # Voice: the pairs that differ in nothing else, where it is least audible.
    ("d$", "t"),
    ("t$", "d"),
    ("s$", "z"),
    ("z$", "s"),
    ("v", "f"),
    ("b(?=[aeiouy])", "p"),
    ("(?<=[aeiouy])p(?=[aeiouy])", "b"),
    # Nasals.
    ("m$", "n"),
    ("n$", "m"),
    # Long vowels with several spellings.
    ("(?<=[a-z])(y|ie|ey|ee|i)$", "y", "ie", "ee", "ey"),
    ("ee|ea|(?<=[a-z])ie(?=[a-z])", "ea", "ee"),
    ("ai|ay|ei", "ay", "ai"),
    ("oo|ou", "u"),
    ("au|aw", "o"),
    ("(?<=[a-z]{2})e$", ""),
    ("er$|ar$|or$", "a"),
    ("(?<=[a-z]{2})a$", "er", "ah"),
    # Vowels without stress, which is mostly those after the first syllable and before the end.
    ("(?<=[a-z]{3})[aeiou](?=[a-z])", "a", "e", "i", "o"),
    # A short vowel for its neighbour.
    ("(?<=[^aeiouy])e(?=[^aeiouy])", "i", "a"),
    ("(?<=[^aeiouy])i(?=[^aeiouy])", "e"),
    ("(?<=[^aeiouy])o(?=[^aeiouy])", "a", "u"),
    ("(?<=[^aeiouy])u(?=[^aeiouy])", "o"),
    # A pause: one name becomes two words.
    ("(?<=[a-z]{2})(?<=[aeiouy])(?=[^aeiouy][aeiouy][a-z])", " "),
)
"""Patterns in small letters, each with its variants. All places and variants are equally likely."""


@dataclass(frozen=True, slots=True)
class NameWords:
    """The words of the names of a memory, in small letters: of speakers, and of others.

    `ordinary` are the words that its texts have in small letters; none is among the others.
    """

    speakers: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()
    ordinary: frozenset[str] = frozenset()

    def __contains__(self, written: str) -> bool:
        """Whether a word of a question, as it is written, is of a name; initials are none."""
        word = written.casefold()
        named = word in self.speakers or word in self.others
        return named and written != word and not written.isupper()


_WORD = re.compile(r"[^\W\d_]+")


def name_words(memory: Memory) -> NameWords:
    """The words of a memory's names: of its speakers, titles, entities and facts."""
    texts = [*(each.text for each in memory.segments), *(each.statement for each in memory.facts)]
    names = [name for each in memory.segments for name in (each.title, *each.entities)]
    names += [name for each in memory.facts for name in (each.subject, each.object)]
    ordinary = frozenset(word for word in _words(texts) if word.islower())
    speakers = frozenset(map(str.casefold, _words(each.speaker for each in memory.segments)))
    others = frozenset(map(str.casefold, _words(names))) - ordinary
    return NameWords(speakers, others, ordinary)


def _words(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from _WORD.findall(text)


def with_changed_names(
    collection: Collection, name_change: NameChange, seed: int = 0
) -> Collection:
    """A set whose questions have other names, and another name; memories and judgments stay.

    A misheard name, which is drawn by the seed, is never a name of the set; a short form may be.
    """
    by_tenant = {tenant: name_words(memory) for tenant, memory in collection.memories.items()}
    names = frozenset[str]().union(*(each.speakers | each.others for each in by_tenant.values()))

    def changed(query: Query) -> Query:
        words = by_tenant.get(query.tenant, NameWords())

        def changed_word(match: re.Match[str]) -> str:
            written = match.group()
            if written not in words:
                return written
            name = written.casefold()
            if name_change is NameChange.SHORT:
                shown = shortened(name, words.ordinary) if name in words.speakers else name
                return written if shown == name else shown.capitalize()
            draw = random.Random(f"{seed}:{query.id}:{name}")
            return misheard(name, names, draw).capitalize()

        return replace(query, text=_WORD.sub(changed_word, query.text))

    drawn = ("--seed", str(seed)) if name_change is NameChange.MISHEARD else ()
    return replace(
        collection,
        name=f"{collection.name}-{name_change}",
        queries=[changed(query) for query in collection.queries],
        given_as=(collection.name, "--names", name_change.value, *drawn),
    )


def misheard(name: str, taken: frozenset[str], draw: random.Random) -> str:
    """A name in small letters with one or two confusions, or itself if every variant is taken."""
    for _ in range(ATTEMPTS):
        variant = name
        for _ in range(draw.choice(SLIPS)):
            confused = list(_confused(variant))
            variant = draw.choice(confused) if confused else variant
        if variant != name and len(variant) >= MIN_LETTERS and taken.isdisjoint(variant.split()):
            return variant
    return name


def _confused(word: str) -> Iterator[str]:
    """The word with each confusion at each place where it can happen."""
    for pattern, *variants in CONFUSIONS:
        for match in re.finditer(pattern, word):
            for variant in variants:
                yield word[: match.start()] + match.expand(variant) + word[match.end() :]


def shortened(name: str, taken: frozenset[str]) -> str:
    """A name's beginning up to the end of its first syllable, or as much longer as it takes.

    It has at least one letter less than the name; where no beginning is free it is the name.
    """
    syllable = re.match(f"[^{_VOWELS}]*[{_VOWELS}]+[^{_VOWELS}]", name)
    least = max(MIN_LETTERS, syllable.end() if syllable else MIN_LETTERS)
    forms = (name[:length] for length in range(least, len(name)))
    return next((form for form in forms if form not in taken), name)

"""What answers: statements before questions, and what holds before what once held.

Two statements about one thing are both near to a question, and the older one is often nearer: it
introduced the subject, and the newer one only says what is different. No model reads them here.
What there is are their times, their scores, and their words.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from difflib import Match, SequenceMatcher
from functools import cache, cached_property, lru_cache
from itertools import chain, pairwise

from serving.domain.languages import (
    ENGLISH,
    Language,
    language_of,
    language_of_words,
    stemmer_of,
)
from serving.domain.ranking.diversity import jaccard, words_of
from serving.domain.words.codes import RANKS, has_digit
from serving.domain.words.tokens import numbers_of, tokens

HEAD = 16
"""How many of the first candidates are rearranged. What follows them keeps its place."""

QUESTION_SHARE = 0.5
"""What the score of a stored question counts: it has the words of the question, and no answer."""

WITHOUT_CODE_SHARE = 0.5
"""What the score of a statement counts that lacks the code in question, where another has it: a
code is one word among others for the search by words, and none for the search by meaning."""

SAID_SINCE_SHARE = 0.7
"""What a turn loses of its score if all else that has as many words of the question was said since,
and the question has one answer at a time."""

MIN_CODE = 3
"""The characters of a code or a number that is asked for; a shorter one may be a count."""

REPEATED = 0.8
"""The share of common words from which a text repeats the question."""

MAX_REPEATED_LENGTH = 2
"""How many times as long as the question a text that repeats it is at most."""

NEEDED_SHARE = (math.inf, 0.6, 0.4, 0.25)
"""The share of the older statement's score that a newer one needs to take its place, by how many of
three things speak for it: the question has one answer at a time, the newer statement has words of
change, and it has a value of the kind that is asked for. Without any nothing is moved."""

LIKENESS = 0.05
"""The cosine of their words from which two statements are about one thing. A word counts by how few
of the candidates have it: a name that all of them share does not make two of them alike."""

UNSAID_LIKENESS = 0.25
"""The same for a newer statement that says neither that something changed, nor the kind of value
that is asked for: "The guest wifi is open" is no new password."""

MISSING_WORDS = 2
"""How many words of the question the older statement has and the newer lacks, from which the newer
is about another thing: "My boy starts school in August", "Sonia starts a new job in August"."""

MARKED = 3
"""A statement is marked as outdated only by one of the first three: an order that errs costs a
place, and a mark that errs tells a reader that an answer does not hold."""

MARKED_LIKENESS = 0.08
"""The likeness from which a statement is marked."""

MARKED_SHARE = 0.5
"""The share of the question's words that a marked statement has at least: it once answered."""

MAX_WORDS = 20
"""Who says that something has changed says little besides; longer texts take nobody's place."""

MAX_REPLACED = 3
"""How many words stand in the place of others in two statements of one form: "my phone contract"
costs 19 euros, and "my gym membership" 30."""

STEM = 5
"""Words are alike if their stems begin with the same letters: "smoke" and "smoking"."""

MAX_REMEMBERED = 1 << 15
"""Words whose stem is remembered."""

_ONLY_QUESTIONS = re.compile(r"(?:[^.!?\uff1f\u061f]*[?\uff1f\u061f]+\s*)+")
_YEAR = re.compile(r"(?:19|20)\d\d\Z")
_WORD = re.compile(r"\w+")
_HYPHENATED = re.compile(r"\w+(?:-\w+)*")
_NAME = re.compile(r"(?<=[\w,;:] )[^\W\d_a-z]\w*[a-z]\w*")
"""A word within a sentence that is written as a name."""
_QUESTION_MARK = re.compile(r"[?\uff1f\u061f]")


@dataclass(frozen=True, slots=True)
class Arranged:
    """The new order of candidates, as their former places, best first.

    `outdated_by` has, for each statement that is marked as outdated, the place of a newer one.
    """

    order: list[int]
    outdated_by: dict[int, int] = field(default_factory=dict)


class Statement:
    """A candidate as this module sees it.

    Args:
        text: What was said.
        said: When.
        score: How well it answers.
        is_near: Whether it was found by its meaning.
        is_turn: Whether somebody said it. The time of a document is often that of its import.
    """

    def __init__(
        self,
        text: str,
        said: datetime,
        score: float,
        *,
        is_near: bool = True,
        is_turn: bool = True,
    ) -> None:
        self.text = text
        self.said = said
        self.score = score
        self.is_near = is_near
        self.is_turn = is_turn
        self.usual_language = ENGLISH

    @cached_property
    def words(self) -> frozenset[str]:
        """Its distinct words."""
        return words_of(self.text)

    @cached_property
    def written(self) -> frozenset[str]:
        """Its distinct words as they are written."""
        return frozenset(_WORD.findall(self.text))

    @cached_property
    def language(self) -> Language:
        """The language of its words, of those that have words of change."""
        return language_of_words(self.words, self.usual_language, lead=2)

    @cached_property
    def stems(self) -> frozenset[str]:
        """The beginnings of its words, without stop words."""
        return _stems_of(self.words, self.language)

    @cached_property
    def codes(self) -> frozenset[str]:
        """Its numbers and codes in all their spellings."""
        return numbers_of(self.text, self.language)

    def has_code(self, code: str) -> bool:
        """Whether it has a number or a code, or one that ends with it."""
        return any(own.endswith(code) for own in self.codes)

    @cached_property
    def has_question(self) -> bool:
        """Whether it asks something, besides what it states."""
        return _QUESTION_MARK.search(self.text) is not None

    @property
    def may_outdate(self) -> bool:
        """Whether it is short and asks nothing."""
        return not self.has_question and len(self.stems) <= MAX_WORDS

    @cached_property
    def tells_of_change(self) -> bool:
        """Whether it has words of change."""
        return self.language.changes.search(self.text.casefold()) is not None


class Question:
    """The question: what kind of answer it has."""

    def __init__(self, text: str) -> None:
        text = text.lstrip("¿ ")
        self._words = words_of(text)
        self._length = len(text)
        self.language = language = language_of_words(self._words)
        self.stems = _stems_of(self._words, language)
        self._codes = numbers_of(text, language)
        # A digit in words may be a count: "the two of us".
        has_code = has_digit(text) or any(len(code) > 1 for code in self._codes)
        self._years = _years_in(text, language) if self._codes else frozenset()
        self._names = _NAME.findall(text)
        self.asks_for_past = language.past.search(text) is not None
        is_about_either = not self.asks_for_past and language.was.search(text) is not None
        self.may_be_any = is_about_either or self._is_about_a_name(text)
        self._asks_whether = language.whether.match(text) is not None
        self._asks_for_old_value = self._asks_whether and "still" in self._words
        self._has_one_answer = self._asks_whether or language.single.search(text) is not None
        self._values = [value for asks, value in language.values if asks.search(text)]
        several = not self._values and language.several.search(text) is not None
        self._answer_ages = (
            self._has_one_answer
            and not several
            and not self.asks_for_past
            and not self.may_be_any
            and not has_code
        )

    def _is_about_a_name(self, text: str) -> bool:
        """Whether it asks who somebody is ("Which Rose is it?"), and not for a value of something.

        What is said of one who has the name outdates nothing that is said of another.
        """
        found = self.language.who.match(text)
        name = found[found.lastindex or 0] if found else ""
        return name[:1].isupper() and name.casefold() not in self.language.calendar

    def worth_of(self, head: Sequence[Statement]) -> list[float]:
        """The scores of statements, less for those that do not answer or may not hold any more."""
        codes = [
            code
            for code in self._codes - self._years
            if len(code) >= MIN_CODE and not code.endswith(RANKS)
        ]
        # Of a number all of it counts, and not the part that others have too, such as an area code.
        # "Is the code still 5290?" has a value, which may be an older one.
        found = [max((len(it) for it in codes if each.has_code(it)), default=0) for each in head]
        has_code = [length == max(found) for length in found]
        lacking = 1.0 if self._asks_for_old_value else WITHOUT_CODE_SHARE
        asks = [self.is_asked_by(each) for each in head]
        since = self._said_since(head, asks)
        return [
            each.score
            * (QUESTION_SHARE if asks[place] else 1.0)
            * (1.0 if has_code[place] else lacking)
            * (1.0 - SAID_SINCE_SHARE * since[place])
            for place, each in enumerate(head)
        ]

    def _said_since(self, head: Sequence[Statement], asks: Sequence[bool]) -> list[float]:
        """How much of what has words of the question was said after each turn, in [0, 1].

        What has fewer of them than the turn, or only asks, does not count.
        """
        if not self._answer_ages:
            return [0.0] * len(head)
        common = [
            self.common_with(each) if each.is_turn and not only_asks else 0.0
            for each, only_asks in zip(head, asks, strict=True)
        ]
        whole = sum(common) or 1.0
        said = [(each.said, share) for each, share in zip(head, common, strict=True)]
        return [
            sum(other for later, other in said if later > each.said and other >= share) / whole
            if each.is_turn
            else 0.0
            for each, share in zip(head, common, strict=True)
        ]

    def is_asked_by(self, stored: Statement) -> bool:
        """Whether a stored text only asks something, or repeats this question."""
        return (
            (stored.has_question and _ONLY_QUESTIONS.fullmatch(stored.text) is not None)
            or ENGLISH.questions.fullmatch(stored.text) is not None
            # Longer texts have other words; to split them takes time.
            or (
                len(stored.text) <= MAX_REPEATED_LENGTH * self._length
                and jaccard(stored.words, self._words) >= REPEATED
            )
        )

    def names(self, older: Statement, newer: Statement) -> bool:
        """Whether it has a number or a code of the older statement, and the newer has not."""
        return not self._asks_for_old_value and any(
            older.has_code(code) and not newer.has_code(code) for code in self._codes
        )

    def prefers(self, older: Statement, newer: Statement) -> bool:
        """Whether it asks for what the older statement is about, and not for what the newer is.

        Who tells of a change may leave out what it is about ("It's on Tuesday now"). A question for
        yes or no ("Is it on Thursday?") may have the older value, which the newer one replaces.
        """
        if any(
            name in older.written and name not in newer.written and name.casefold() in newer.words
            for name in self._names
        ):
            return True  # "May" and "may"
        of_older, of_newer = self.stems & older.stems, self.stems & newer.stems
        if newer.tells_of_change:
            # "Who is Clara's teacher?" is not answered by "Clara's school starts at 8:15 now", and
            # "Can I turn off the heating at night?" by nothing that has none of its words.
            lacks_words = self._values if of_newer else len(of_older) >= MISSING_WORDS
            if lacks_words and of_newer < of_older and not self._has_value(newer):
                return True
            return not self._asks_whether and self._contrasts(older, newer)
        if older.is_near and not newer.is_near:
            return True
        if of_newer < of_older and len(of_older) - len(of_newer) >= MISSING_WORDS:
            return True
        return self._contrasts(older, newer)

    def _contrasts(self, older: Statement, newer: Statement) -> bool:
        """Whether the newer statement has other words in the place of one that is asked about.

        "My sister lives in Leeds" and "My brother lives in York", where the sister is asked about.
        """
        before, after = (_WORD.findall(each.text.casefold()) for each in (older, newer))
        stop_words = older.language.stop_words
        # By words too: "hermana" and "hermano" have one stem.
        asked = {
            word
            for word in before
            if word not in newer.words
            and word not in stop_words
            and (
                word in self._words or _stem(word, older.language.name) in self.stems - newer.stems
            )
        }
        if not asked:
            return False
        same = SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
        # The ends are as good as a word that both have.
        for left, right in pairwise([Match(0, 0, 0), *same]):
            gone = before[left.a + left.size : right.a]
            come = after[left.b + left.size : right.b]
            if (
                len(gone) == len(come) <= MAX_REPLACED
                and not asked.isdisjoint(gone)
                and _stems_of(come, newer.language)
                # "I parked the car", "I moved the car".
                and newer.language.changes.search(" ".join(come)) is None
            ):
                return True
        return False

    def is_about(self, older: Statement, newer: Statement) -> bool:
        """Whether it is about the older statement, so that the newer one does not outdate it."""
        return self.names(older, newer) or self.prefers(older, newer)

    def common_with(self, statement: Statement) -> float:
        """The share of its words that a statement has."""
        return len(self.stems & statement.stems) / max(len(self.stems), 1)

    def needs(self, newer: Statement) -> tuple[float, float]:
        """What a newer statement needs to take an older one's place.

        Returns:
            The share of the older one's score, and the likeness to it.
        """
        values = self._has_value(newer)
        share = NEEDED_SHARE[self._has_one_answer + newer.tells_of_change + values]
        return share, LIKENESS if newer.tells_of_change or values else UNSAID_LIKENESS

    def values_of(self, statement: Statement) -> frozenset[str]:
        """The beginnings of its words that are values of the kind that is asked for.

        A day or a number is one by itself; a name or a place is one in its sentence. What the
        question has itself ("parents' evening") is no answer to it.
        """
        if not self._values:
            return frozenset()
        text = statement.text
        words = _HYPHENATED.findall(text.casefold()) if "-" in text else statement.words
        found = (
            part
            for word in words
            if any(_is_value(word, value) for value in self._values)
            for part in _WORD.findall(word)
        )
        return _stems_of(found, statement.language) - self.stems

    def _has_value(self, statement: Statement) -> bool:
        """Whether a statement has a value of the kind that is asked for."""
        return any(value.search(statement.text) for value in self._values)


class Likeness:
    """How much two of these statements are about one thing, by the words that few of them have.

    Days and numbers, if they are asked for, are not what a statement is about: "the twenty-second"
    and "the twenty-fourth" may be those of a wedding and of a film.
    """

    def __init__(self, asked: Question, head: Sequence[Statement]) -> None:
        self._stems = [each.stems - asked.values_of(each) for each in head]
        counts = Counter(chain.from_iterable(self._stems))
        of_count = [math.log((HEAD + 1) / n) ** 2 for n in range(1, len(head) + 1)]
        self._worth = {stem: of_count[n - 1] for stem, n in counts.items()}
        self._lengths = [math.sqrt(self._sum(stems)) for stems in self._stems]

    def of(self, one: int, other: int) -> float:
        """The cosine of the words of two of them, by their places."""
        common = self._stems[one] & self._stems[other]
        if not common:
            return 0.0
        return self._sum(common) / (self._lengths[one] * self._lengths[other])

    def _sum(self, stems: Iterable[str]) -> float:
        return sum(map(self._worth.__getitem__, stems))


def current_first(question: str, head: Sequence[Statement]) -> Arranged:
    """Puts statements before stored questions, and newer ones in the place of those they outdate.

    What has the code in question is put before what has none (`WITHOUT_CODE_SHARE`).
    A newer statement takes the place of an older one if it is short, asks nothing, is about the
    same thing (`Likeness`), and has a large enough share of the older one's score (`NEEDED_SHARE`),
    unless the question has a number of the older one alone, or `prefers` the older one, which
    follows. A question for what once held puts the older one first by the same rules, and one that
    may ask for either ("What was the code?") leaves them in place, as one for who somebody is does.

    Args:
        question: What was asked.
        head: Statements, best first, those of `HEAD`.
    """
    asked = Question(question)
    for each in head:
        each.usual_language = asked.language
    scores = asked.worth_of(head)
    if asked.may_be_any:
        return Arranged(sorted(range(len(head)), key=lambda place: -scores[place]))
    likeness = Likeness(asked, head)
    places, lifted = list(scores), set[int]()
    for newer, older in _outdating(asked, head, scores, likeness):
        wanted, other = (older, newer) if asked.asks_for_past else (newer, older)
        places[wanted] = max(places[wanted], scores[other])
        lifted.add(wanted)
    order = sorted(
        range(len(head)),
        key=lambda place: (
            -places[place],
            # What took a place is before what had it, the newest first.
            -head[place].said.timestamp() if place in lifted else math.inf,
            place,
        ),
    )
    marked = {} if asked.asks_for_past else _marked(asked, head, likeness, order)
    return Arranged(order, marked)


def _outdating(
    asked: Question, head: Sequence[Statement], scores: Sequence[float], likeness: Likeness
) -> list[tuple[int, int]]:
    """A newer statement, and an older one before it that it outdates."""
    pairs = []

    def reaches(newer: int, older: int, share: float) -> bool:
        """Whether the one that is asked for is behind the other, with this share of its score."""
        wanted, other = (older, newer) if asked.asks_for_past else (newer, older)
        return share * scores[other] <= scores[wanted] <= scores[other]

    for newer, statement in enumerate(head):
        before = [
            older
            for older, other in enumerate(head)
            if other.said < statement.said and reaches(newer, older, NEEDED_SHARE[-1])
        ]
        if not before or not statement.may_outdate:
            continue
        # Before the words of change are searched for, which takes longer.
        alike = [
            (older, like) for older in before if (like := likeness.of(newer, older)) >= LIKENESS
        ]
        if alike:
            share, least = asked.needs(statement)
            pairs += [
                (newer, older)
                for older, like in alike
                if like >= least
                and reaches(newer, older, share)
                and not asked.is_about(head[older], statement)
            ]
    return pairs


def _marked(
    asked: Question, head: Sequence[Statement], likeness: Likeness, order: Sequence[int]
) -> dict[int, int]:
    """The statements to mark as outdated, with the newest of the first that outdates them.

    A newer statement may be first by its own score, and needs no place of an older one.
    """
    marked: dict[int, int] = {}
    answered = {place for place in order if asked.common_with(head[place]) >= MARKED_SHARE}
    for newer in sorted(order[:MARKED], key=lambda place: head[place].said, reverse=True):
        statement = head[newer]
        alike = [
            (older, like)
            for older in order[order.index(newer) + 1 :]
            if older in answered
            and older not in marked
            and head[older].said < statement.said
            and statement.stems & head[older].stems & asked.stems
            and (like := likeness.of(newer, older)) >= MARKED_LIKENESS
        ]
        # As above, what takes longer comes last.
        if not alike or not statement.may_outdate:
            continue
        share, least = asked.needs(statement)
        for older, like in alike if share < math.inf else ():
            other = head[older]
            if like >= least and not other.has_question and not asked.is_about(other, statement):
                marked[older] = newer
    return marked


@lru_cache(MAX_REMEMBERED)
def _is_value(word: str, value: re.Pattern[str]) -> bool:
    return value.fullmatch(word) is not None


@lru_cache(MAX_REMEMBERED)
def _stem(word: str, language: str) -> str:
    return stemmer_of(language)(word)[:STEM]


def _stems_of(words: Iterable[str], language: Language) -> frozenset[str]:
    ignored, name = _ignored_words(language.name), language.name
    return frozenset(_stem(word, name) for word in words if word not in ignored)


@cache
def _ignored_words(name: str) -> frozenset[str]:
    # The function words have the "s" of "Bea's", which is no word that two statements share.
    language = language_of(name)
    return language.stop_words | language.function_words


def _years_in(text: str, language: Language) -> frozenset[str]:
    """The numbers of a question that are years: "in 2014", "May 2014", and not "the code 2014"."""
    said = tokens(text, language)
    word_at = {place: word for word, place in reversed(said)}
    leading = {"", *language.function_words, *language.calendar}
    return frozenset(
        word for word, place in said if _YEAR.match(word) and word_at.get(place - 1, "") in leading
    )

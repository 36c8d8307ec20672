"""An example of an extractor (docs/extending.md): facts in English turns, without a model.

It is no part of the service: two in three of its facts are right (docs/extraction.md).

A rule reads one sentence: a subject ("I", "my sister" or a name), a verb of a list, and what
follows it. Questions, negations, conditions and wishes are left out. The rules understand nothing:
they restate in the third person what the speaker said, with the date that the sentence names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta

from serving.domain.english.dates import EnglishDates
from serving.domain.items.period import Period
from serving.domain.items.records import Segment
from serving.domain.items.text import name_key
from serving.ports.text_analysis import Conversation, Proposal, ProposedFact

MAX_WORDS = 16
"""The longest object, in words; the rest is cut."""

_SINGLE_VALUED = {
    "live in": "lives in",
    "lives in": "lives in",
    "moved to": "lives in",
    "work at": "works at",
    "works at": "works at",
    "work for": "works at",
    "works for": "works at",
}
"""Verbs with one object at a time, with their relation; a later fact closes the earlier one."""

_REGULAR = """
enjoy hate hope like love need own plan play prefer remember run take use want work
"""
_THIRD_PERSON = {
    **{verb: f"{verb}s" for verb in _REGULAR.split()},
    "do": "does",
    "go": "goes",
    "study": "studies",
    "teach": "teaches",
    "am": "is",
    "'m": "is",
    "are": "is",
    "were": "was",
    "have": "has",
    "'ve": "has",
}

_OTHER_VERBS = """
adopted applied ate attended baked became began bought broke built camped came celebrated cooked
created decided drew drove enjoyed finished flew found gave going got graduated had has helped
hiked hosted hurt is joined launched learned learnt left liked looking lost loved made married met
opened organised organized painted planned planning played quit ran read received researching sang
saw signed sold spent started stopped studied studying taking taught thinking took traveled
travelled tried visited volunteered wanted was watched went won working wrote
"""

_VERBS = sorted({*_SINGLE_VALUED, *_THIRD_PERSON, *_THIRD_PERSON.values(), *_OTHER_VERBS.split()})
_VERB = "|".join(verb.replace(" ", r"\s") for verb in reversed(_VERBS) if verb[0] != "'")
"""Longer ones first, so that "works at" is not read as "works"."""

_STATEMENT = re.compile(
    rf"""(?<![\w'])
    (?P<subject> I | [Ww]e | [Mm]y(?:\s[a-z]+){{1,2}}? | [A-Z]\w+(?:\s[A-Z]\w+){{0,2}} )
    (?:\s?(?P<auxiliary> am|is|are|was|were|have|has|had|'m|'ve|'s|'re )\b)??
    (?:\s(?:just|also|really|finally|actually|recently|still|always|often|even|been|both))*
    \s?(?P<verb> {_VERB} | 'm | 've )\b
    \s(?P<object> [^,;:()]+ )""",
    re.VERBOSE,
)
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
_UNSURE = re.compile(
    r"\?|\b(?:not|never|no|if|would|could|should|might|maybe|perhaps|wish|unless)\b"
    r"|n't\b|'(?:d|ll)\b",
    re.I,
)
_PLACE_END = re.compile(
    r"\s(?:now|today|yesterday|recently|with|and|for|since|because|where|last|this|these|next"
    r"|as|about|a|an|when|after|before|ago|years?|months?|weeks?)\b"
)
"""The latest end of the name of a place or an employer."""
_CLAUSE_END = re.compile(r"\s(?:and|but|so|because|since|which|who|when|while)\s(?=I\b|we\b|it\b)")


_DATES = EnglishDates()


class EnglishFacts:
    """`Extractor` by rules, for English. It keeps nothing, sends nothing and costs no tokens."""

    async def extract(self, conversation: Conversation) -> Proposal:
        """Proposes what the sentences of the turns state."""
        return Proposal(
            facts=tuple(fact for turn in conversation.turns for fact in self._facts_in(turn))
        )

    def _facts_in(self, turn: Segment) -> Iterator[ProposedFact]:
        if not turn.speaker:
            return
        names = {name_key(name) for name in turn.entities}
        text = turn.text.replace("’", "'")
        for sentence in _SENTENCE.findall(text):
            statement = None if _UNSURE.search(sentence) else _STATEMENT.search(sentence)
            if statement and _is_subject(statement["subject"], names):
                yield self._fact(turn, sentence, statement)

    def _fact(self, turn: Segment, sentence: str, statement: re.Match[str]) -> ProposedFact:
        verb = " ".join(statement["verb"].split())
        relation = _SINGLE_VALUED.get(verb) or _relation(statement["auxiliary"] or "", verb)
        subject = _about(statement["subject"], turn.speaker)
        end = _PLACE_END if verb in _SINGLE_VALUED else _CLAUSE_END
        object_ = _about(_cut(statement["object"], end), turn.speaker)
        period = self._past(sentence, turn.event_time)
        on = "" if period is None else f" ({_spelled(period)})"
        return ProposedFact(
            subject=subject,
            relation=relation,
            object=object_,
            sentence=f"{subject} {relation} {object_}{on}.",
            evidence=(turn.id,),
            valid_from=None if period is None else period.begins,
            single_valued=verb in _SINGLE_VALUED,
        )

    def _past(self, sentence: str, said: datetime) -> Period | None:
        """The time that the sentence names, unless it is after the turn: plans may change."""
        periods = _DATES.mentioned(sentence, said)
        return periods[0] if periods and periods[0].begins <= said else None


def _spelled(period: Period) -> str:
    """A day, week, month or year, written out."""
    lasts = period.ends - period.begins
    if lasts > timedelta(days=31):
        return f"{period.begins:%Y}"
    if lasts > timedelta(days=7):
        return f"{period.begins:%B %Y}"
    day = f"{period.begins.day} {period.begins:%B %Y}"
    return day if lasts == timedelta(days=1) else f"from {day}"


def _is_subject(subject: str, names: set[str]) -> bool:
    """Whether it is the speaker, somebody of theirs, or an entity of the turn."""
    return subject.casefold().split()[0] in {"i", "we", "my"} or name_key(subject) in names


def _relation(auxiliary: str, verb: str) -> str:
    """The verb in the third person: "am planning" becomes "is planning"."""
    main = _THIRD_PERSON.get(verb, verb) if not auxiliary else verb
    return f"{_THIRD_PERSON.get(auxiliary, auxiliary)} {main}".strip().replace("'s ", "is ")


def _about(text: str, speaker: str) -> str:
    """Names the speaker in place of "I", "we", "me" and "my"."""
    named = re.sub(r"\b(?:my|our)\b", lambda _: f"{speaker}'s", text, flags=re.I)
    return re.sub(
        r"\b(?:I|[Ww]e|me|us)(?P<be>'m|'re)?\b",
        lambda found: f"{speaker} is" if found["be"] else speaker,
        named,
    )


def _cut(text: str, end: re.Pattern[str]) -> str:
    """The object up to its end, without marks."""
    clause = end.split(text)[0]
    return " ".join(clause.strip(" .!?\"'*-").split()[:MAX_WORDS])

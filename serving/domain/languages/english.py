"""English."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources

from serving.domain.languages.language import Language, any_of, digits_of, word_set

# The list of Snowball, as PostgreSQL has it, and what an apostrophe leaves of a verb.
_FUNCTION_WORDS = word_set(
    """
i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she
her hers herself it its itself they them their theirs themselves what which who whom this that
these those am is are was were be been being have has had having do does did doing a an the and
but if or because as until while of at by for with about against between into through during
before after above below to from up down in out on off over under again further then once here
there when where why how all any both each few more most other some such no nor not only own
same so than too very s t can will just don should now
ll m re ve
"""
)

# Without "will", "may" and the like, which are also names of people.
_STOP_WORDS = """
a about after again all also am an and any are as at be because been before being both but
by can could did do does doing done down during each ever few for from further get give go
had has have having he her here hers him his how i if in into is it its just let like me
more most much must my no nor not now of off on once only or other our ours out over own
same say shall she should so some such tell than that the their theirs them then there
these they this those through to too under until up us very was we were what when where
which while who whom whose why with would you your yours
"""

_NOT_NAMES = """
a about absolutely actually after again all almost already also although always am amazing an
and another any anyone anything anyway are as at aw awesome be because been before being best
both btw but by bye can cheers come congrats congratulations could damn dear definitely did do does
doing done each either else enjoy even ever every everyone everything exactly few finally for
from fyi get give glad go god going good goodbye gosh got great had haha happy has have having he
hello help her here hers hey hi him his hmm honestly hope how however i if in indeed instead into
is it its just keep last lately later let life like lol look looking looks love many maybe me
mine more most mr mrs ms much must my myself nah neither never next nice no nobody none nope nor
not nothing now of off oh ok okay omg on once one only or other our ours out over part people
perhaps please pretty probably quite rather really right same see she should since so some
someone something sometimes soon sorry speaking still such sure take talk tell than thank thanks
that the their theirs them then there these they thing things think this those though through to
today together tomorrow tonight too totally true try two ugh under until up us use very wait was
we well were what whatever when whenever where wherever whether which while who whoever whom
whose why wish with without woah wonderful wow yeah year yep yes yesterday yet you your yours
"""

# Times are not entities: the segment has its event time, and the lexical leg finds times in texts.
# They count within a longer name, and as a known name such as the person June.
_CALENDAR = """
monday tuesday wednesday thursday friday saturday sunday january february march april may june
july august september october november december spring summer autumn fall winter
tue tues wed thu thur thurs fri
"""

_CONNECTORS = """
of the de del della den der des di do dos du da van von ten ter la le el al bin ibn y
"""

_MONTHS = """
january february march april may june july august september october november december
jan feb mar apr aug sept sep oct nov dec
"""

_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday"

_CHANGES = """
actually again anymore cancel(?:led|ed)? chang(?:e|ed|es|ing) correction dropped finally instead
mistake moved now postponed pushed quit replaced rescheduled shifted sold stopped swapped
switch(?:ed|ing)?
"""

_CHANGES_IN_WORDS = (
    "after all|any more|back (?:in|on|to)|called off|change of|from now on|make (?:it|that)"
    "|mixed up|no (?:longer|more)|put (?:back|off)|these days|turns out"
    "|(?:gave|given|put|goes|gone|went) up|(?:gone|went) down|(?:takes?|taken|taking|took) over"
    f"|(?:from|since) (?:(?:last|next) )?(?:{'|'.join([*_WEEKDAYS.split(), *_MONTHS.split()])}"
    "|today|tomorrow|week|month|year)"
    "|(?:days?|hours?|minutes?|months?|weeks?) (?:earlier|later|sooner)|(?:is|are) (?:off|out|over)"
    # "New router, new password", and not "the new flat".
    "|(?:^|(?<=[.!?] ))new"
)

_PAST = """
before did earlier first former(?:ly)? had initially old originally previous(?:ly)? was were
"""

# What somebody asks with these has one answer at a time.
_SINGLE = (
    "when|where|who|whose|whom|which|still|now|currently"
    "|how (?:big|early|far|late|long|many|much|often|old|tall)"
    "|what(?:'s| is| time| days?| date| number| code)"
    r"|(?:what|which) \w+ (?:\w+ )?(?:is|are|does|do|should|has|have|can|will|needs?)"
)

_AUXILIARY = "am|are|can|do|does|has|have|is|may|must|should|will"

_NUMBERS = """
one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand
"""

_ORDINALS = """
first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth
fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth thirtieth
"""

_TIMES = (
    "tomorrow tonight morning evening afternoon noon midnight o'clock half quarter week weekend"
)

_DIGITS = digits_of(
    """
zero=0 oh=0 o=0 one=1 two=2 three=3 four=4 five=5 six=6 seven=7 eight=8 nine=9
"""
)

# Exclamations, verbs and nouns by their endings, and contractions without an apostrophe.
_ORDINARY_FORMS = re.compile(
    r"(.)\1\1|^[^aeiouy]+$|..(?:ing|ness|tion|able|ful|less|days)$"
    r"|^(?:ah|aha|ain|aren|aw|aww|anyways|didn|doesn|dont|eh|er|gonna|gosh|gotcha|gotta|ha|hah|haha"
    r"|heres|hi|hows|huh|idk|im|isn|isnt|ive|mm|ooh|oof|oops|ouch|ow|phew|shes|thats|theres|theyre"
    r"|theyll|ttyl|ugh|uh|um|umm|wanna|wasn|whats|whoa|woah|woo|woohoo|wouldn|yay|yea|yo|youre|yum"
    r"|yup)$"
)

_CALENDAR_SET = frozenset(_CALENDAR.split())
_CONNECTOR_SET = frozenset(_CONNECTORS.split())


_DAYS = any_of(
    f"{_WEEKDAYS} {_WEEKDAYS.replace('day', 'days')} {_MONTHS} {_TIMES} {_ORDINALS}",
    r"twenty-\w+|\d+(?:st|nd|rd|th)|\d{1,2}:\d\d|\d{1,2} ?[ap]m",
)
_AMOUNTS = re.compile(rf"\d|{any_of(_NUMBERS).pattern}", re.IGNORECASE)
_NAMES = re.compile(r"(?<=[\w,;] )[^\W\d_a-z]\w+")


def _listed(file: str) -> Iterator[str]:
    """The words of a file in this folder, whose comments start with a #."""
    text = resources.files("serving.domain.languages").joinpath(file).read_text(encoding="utf-8")
    for line in text.splitlines():
        if not line.startswith("#"):
            yield from line.split()


ENGLISH = Language(
    "english",
    function_words=_FUNCTION_WORDS,
    stop_words=frozenset(_STOP_WORDS.split()),
    not_names=frozenset(_NOT_NAMES.split()) | _CALENDAR_SET | _CONNECTOR_SET,
    ordinary_words=frozenset(_listed("english_words.txt")),
    ordinary_forms=_ORDINARY_FORMS,
    openings=frozenset({"will", "may"}),
    calendar=_CALENDAR_SET,
    connectors=_CONNECTOR_SET,
    abbreviations=frozenset({"dr", "ft", "jr", "mt", "prof", "st"}),
    possessive=re.compile(r"['’]s\b", re.IGNORECASE),
    months=tuple(_MONTHS.split()),
    weekdays=tuple(_WEEKDAYS.split()),
    changes=any_of(_CHANGES, _CHANGES_IN_WORDS, re.NOFLAG),
    past=any_of(_PAST, "used to|back then|at first"),
    single=re.compile(rf"\b(?:{_SINGLE})\b|^(?:{_AUXILIARY})\b", re.IGNORECASE),
    values=(
        (
            any_of(
                "when", "what time|(?:what|which) (?:date|days?|month)|how (?:early|late|often)"
            ),
            _DAYS,
        ),
        (any_of("number code dose price rent", "how (?:many|much)"), _AMOUNTS),
        (any_of("where who whom whose which"), _NAMES),
    ),
    questions=re.compile(
        r"(?:(?:when|where|who|what|how|why)(?:'s| is| are| was| were| do| does| did| will| can)"
        r"|which \w+ (?:is|are|was|were|do|does|did|will|can)"
        r"|how (?:long|many|much|often|old) (?:\w+ )?(?:is|are|was|were|do|does|did|will|can))\b"
        r"[^.!]*",
        re.IGNORECASE,
    ),
    digits=_DIGITS,
    repeats={"double": 2, "triple": 3},
)

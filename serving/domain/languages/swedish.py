"""Swedish."""

from __future__ import annotations

from serving.domain.languages.language import Language, digits_of, word_set

# The list of Snowball, as PostgreSQL has it.
_FUNCTION_WORDS = word_set(
    """
alla allt att av blev bli blir blivit de dem den denna deras dess dessa det detta dig din dina
ditt du där då efter ej eller en er era ert ett från för ha hade han hans har henne hennes hon
honom hur här i icke ingen inom inte jag ju kan kunde man med mellan men mig min mina mitt mot
mycket ni nu när någon något några och om oss på samma sedan sig sin sina sitta själv skulle som
så sådan sådana sådant till under upp ut utan vad var vara varför varit varje vars vart vem vi vid
vilka vilkas vilken vilket vår våra vårt än är åt över
"""
)

_DIGITS = digits_of(
    """
noll=0 ett=1 två=2 tre=3 fyra=4 fem=5 sex=6 sju=7 åtta=8 nio=9 en=1 nolla=0 etta=1 tvåa=2 trea=3
femma=5 sexa=6 sjua=7 nia=9
"""
)

SWEDISH = Language(
    "swedish",
    stop_words=_FUNCTION_WORDS,
    function_words=_FUNCTION_WORDS,
    not_names=_FUNCTION_WORDS,
    digits=_DIGITS,
    repeats={"dubbel": 2},
)

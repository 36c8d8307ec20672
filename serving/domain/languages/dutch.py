"""Dutch."""

from __future__ import annotations

from serving.domain.languages.language import Language, digits_of, word_set

# The list of Snowball, as PostgreSQL has it.
_FUNCTION_WORDS = word_set(
    """
aan al alles als altijd andere ben bij daar dan dat de der deze die dit doch doen door dus een
eens en er ge geen geweest haar had heb hebben heeft hem het hier hij hoe hun iemand iets ik in is
ja je kan kon kunnen maar me meer men met mij mijn moet na naar niet niets nog nu of om omdat
onder ons ook op over reeds te tegen toch toen tot u uit uw van veel voor waar waarom wanneer want
waren was wat welke werd wezen wie wil worden wordt zal ze zelf zich zij zijn zo zonder zou
"""
)

_DIGITS = digits_of(
    """
nul=0 een=1 twee=2 drie=3 vier=4 vijf=5 zes=6 zeven=7 acht=8 negen=9 één=1
"""
)

DUTCH = Language(
    "dutch",
    stop_words=_FUNCTION_WORDS,
    function_words=_FUNCTION_WORDS,
    not_names=_FUNCTION_WORDS,
    digits=_DIGITS,
    repeats={"dubbel": 2},
)

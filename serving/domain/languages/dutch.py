"""Dutch."""

from __future__ import annotations

import re

from serving.domain.languages.language import Language, any_of, digits_of, word_set

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

_CHANGES = any_of(
    r"""
afgezegd correctie gewijzigd nieuwe? nu toch uitgesteld verandert? veranderd verhuisd verhuist
verkocht verplaatst verschoven verzet voortaan weer geen_\w+_meer in_plaats_van
niet_(?:langer|meer) vanaf_(?:morgen|nu|vandaag|\w+dag)
""",
    flags=re.NOFLAG,
)

_PAST = any_of(
    r"""
daarvoor eerder eerst eerste hadden had in_het_begin oorspronkelijk oude vroeger waren was
"""
)

_SINGLE = any_of(
    r"""
hoeveel nog nu waar wanneer welke? wie wiens hoe_(?:duur|groot|hoog|laat|lang|oud|vaak|veel)
wat_(?:is|kost) ^(?:ben|heeft|hebben|is|kan|kunnen|mag|moet|moeten|zijn|zal)
"""
)

_ASKS_FOR_DAY = any_of(
    r"""
wanneer hoe_(?:laat|vaak|vroeg) welke_(?:dag|datum|maand)
"""
)

_DAYS = any_of(
    r"""
maandags? dinsdags? woensdags? donderdags? vrijdags? zaterdags? zondags? januari februari maart
april mei juni juli augustus september oktober november december avond half kwart middag
middernacht morgen ochtend uur week \d\d?e \d\d?:\d\d
"""
)

_ASKS_FOR_AMOUNT = any_of(
    r"""
code hoeveel huur kost nummer prijs
"""
)

_AMOUNTS = any_of(
    r"""
\d+ twee drie vier vijf zes zeven acht negen tien elf twaalf dertig honderd duizend
"""
)

DUTCH = Language(
    "dutch",
    stop_words=_FUNCTION_WORDS,
    function_words=_FUNCTION_WORDS,
    not_names=_FUNCTION_WORDS,
    changes=_CHANGES,
    past=_PAST,
    single=_SINGLE,
    values=((_ASKS_FOR_DAY, _DAYS), (_ASKS_FOR_AMOUNT, _AMOUNTS)),
    digits=_DIGITS,
    repeats={"dubbel": 2},
)

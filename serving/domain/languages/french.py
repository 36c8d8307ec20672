"""French."""

from __future__ import annotations

import re

from serving.domain.languages.language import Language, any_of, digits_of, word_set

# The list of Snowball, as PostgreSQL has it.
_FUNCTION_WORDS = word_set(
    """
ai aie aient aies ait as au aura aurai auraient aurais aurait auras aurez auriez aurions aurons
auront aux avaient avais avait avec avez aviez avions avons ayant ayante ayantes ayants ayez ayons
c ce ces combien comment d dans de des du elle en es est et eu eue eues eurent eus eusse eussent
eusses eussiez eussions eut eux eûmes eût eûtes furent fus fusse fussent fusses fussiez fussions
fut fûmes fût fûtes il j je l la le leur lui m ma mais me mes moi mon même n ne nos notre nous on
ont ou où par pas pour pourquoi qu quand que qui s sa se sera serai seraient serais serait seras
serez seriez serions serons seront ses soient sois soit sommes son sont soyez soyons suis sur t ta
te tes toi ton tu un une vos votre vous y à étaient étais était étant étante étantes étants étiez
étions été étée étées étés êtes
"""
)

_DIGITS = digits_of(
    """
zéro=0 un=1 deux=2 trois=3 quatre=4 cinq=5 six=6 sept=7 huit=8 neuf=9 une=1
"""
)

_CHANGES = any_of(
    r"""
annulée?s? chang(?:é|ée|ées|és|ement) correction déménag(?:e|é|ée) désormais finalement maintenant
nouve(?:au|l|lle|lles) plutôt remplacée? reportée?s? repoussée?s? vendue?s? à_la_place
à_partir_d[eu] au_lieu_de en_fait (?:ne_|n['’])\w+_plus plus_tard
""",
    flags=re.NOFLAG,
)

_PAST = any_of(
    r"""
ancien(?:ne|s)? auparavant au_début avai(?:ent|s|t) avant d['’]abord étai(?:ent|s|t) initialement
précédente?s?
"""
)

_SINGLE = any_of(
    r"""
actuellement combien encore maintenant où quand quel(?:le|les|s)? qui ^(?:est|peut|peux|puis|sont)
"""
)

_ASKS_FOR_DAY = any_of(
    r"""
quand quelle_(?:date|heure) quel_(?:jour|mois)
"""
)

_DAYS = any_of(
    r"""
lundi mardi mercredi jeudi vendredi samedi dimanche janvier février mars avril mai juin juillet
août septembre octobre novembre décembre demain heures? matin midi minuit semaine soir après-midi
le_\d\d? \d\d?_?h \d\d?:\d\d
"""
)

_ASKS_FOR_AMOUNT = any_of(
    r"""
code combien coûte loyer numéro prix
"""
)

_AMOUNTS = any_of(
    r"""
\d+ deux trois quatre cinq six sept huit neuf dix vingt trente cent mille
"""
)

FRENCH = Language(
    "french",
    stop_words=_FUNCTION_WORDS,
    function_words=_FUNCTION_WORDS,
    not_names=_FUNCTION_WORDS,
    changes=_CHANGES,
    past=_PAST,
    single=_SINGLE,
    values=((_ASKS_FOR_DAY, _DAYS), (_ASKS_FOR_AMOUNT, _AMOUNTS)),
    digits=_DIGITS,
    repeats={"double": 2, "triple": 3},
)

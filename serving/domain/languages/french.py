"""French."""

from __future__ import annotations

from serving.domain.languages.language import Language, digits_of, word_set

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

FRENCH = Language(
    "french",
    stop_words=_FUNCTION_WORDS,
    function_words=_FUNCTION_WORDS,
    not_names=_FUNCTION_WORDS,
    digits=_DIGITS,
    repeats={"double": 2, "triple": 3},
)

"""Danish."""

from __future__ import annotations

from serving.domain.languages.language import Language, digits_of, word_set

# The list of Snowball, as PostgreSQL has it.
_FUNCTION_WORDS = word_set(
    """
ad af alle alt anden at blev blive bliver da de dem den denne der deres det dette dig din disse
dog du efter eller en end er et for fra ham han hans har havde have hende hendes her hos hun hvad
hvis hvor i ikke ind jeg jer jo kunne man mange med meget men mig min mine mit mod ned noget nogle
nu når og også om op os over på selv sig sin sine sit skal skulle som sådan thi til ud under var
vi vil ville vor være været
"""
)

_DIGITS = digits_of(
    """
nul=0 en=1 to=2 tre=3 fire=4 fem=5 seks=6 syv=7 otte=8 ni=9 et=1
"""
)

DANISH = Language(
    "danish",
    stop_words=_FUNCTION_WORDS,
    function_words=_FUNCTION_WORDS,
    not_names=_FUNCTION_WORDS,
    digits=_DIGITS,
)

"""Turkish."""

from __future__ import annotations

from serving.domain.languages.language import Language, digits_of, word_set

# The list of Snowball, as PostgreSQL has it.
_FUNCTION_WORDS = word_set(
    """
acaba ama aslında az bazı belki biri birkaç birşey biz bu da daha de defa diye en eğer gibi hangi
hem hep hepsi her hiç ile ise için kaç kez ki kim mu mü mı nasıl ne neden nerde nerede nereye niye
niçin o sanki siz tüm ve veya ya yani zaman çok çünkü şey şu
"""
)

_DIGITS = digits_of(
    """
sıfır=0 bir=1 iki=2 üç=3 dört=4 beş=5 altı=6 yedi=7 sekiz=8 dokuz=9
"""
)

TURKISH = Language(
    "turkish",
    stop_words=_FUNCTION_WORDS,
    function_words=_FUNCTION_WORDS,
    not_names=_FUNCTION_WORDS,
    digits=_DIGITS,
    repeats={"çift": 2},
    lower={"I": "ı", "İ": "i"},
)

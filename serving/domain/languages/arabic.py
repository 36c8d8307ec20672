"""Arabic."""

from __future__ import annotations

from serving.domain.languages.language import Language, digits_of, word_set

# Snowball has no list for it.
_FUNCTION_WORDS = word_set(
    """
أن أنا أنت أو أي أين إذا إلى إن اذا التي الذي الذين الى ان انا انت او اي اين بعد تلك ثم ذلك على عن
عند في قبل قد كان كانت كل كم كيف لا لك لم لماذا لن له لها لي ليس ما ماذا متى مع من نحن هذا هذه هل
هم هو هي و يكون
"""
)

_DIGITS = digits_of(
    """
صفر=0 واحد=1 اثنان=2 ثلاثة=3 أربعة=4 خمسة=5 ستة=6 سبعة=7 ثمانية=8 تسعة=9 اثنين=2 اربعة=4
"""
)

ARABIC = Language(
    "arabic",
    stop_words=_FUNCTION_WORDS,
    function_words=_FUNCTION_WORDS,
    not_names=_FUNCTION_WORDS,
    digits=_DIGITS,
)

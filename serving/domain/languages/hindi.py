"""Hindi."""

from __future__ import annotations

from serving.domain.languages.language import Language, digits_of, word_set

# Snowball has no list for it.
_FUNCTION_WORDS = word_set(
    """
आप आपका इस उस उसका उसकी उसके एक और कब कर करना कहाँ कहां का कि कितना कितनी कितने किया की के कैसे को
कौन क्या क्यों गई गया जो तुम तो था थी थे नहीं ने पर भी मुझे में मेरा मेरी मेरे मैं यह या ये रहा
रही रहे लिए वह वे साथ से हम हमारा ही है हैं हो होता होती होते
"""
)

_DIGITS = digits_of(
    """
शून्य=0 एक=1 दो=2 तीन=3 चार=4 पांच=5 छह=6 सात=7 आठ=8 नौ=9 पाँच=5 छः=6 छे=6
"""
)

HINDI = Language(
    "hindi",
    stop_words=_FUNCTION_WORDS,
    function_words=_FUNCTION_WORDS,
    not_names=_FUNCTION_WORDS,
    digits=_DIGITS,
)

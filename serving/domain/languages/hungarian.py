"""Hungarian."""

from __future__ import annotations

from serving.domain.languages.language import Language, digits_of, word_set

# The list of Snowball, as PostgreSQL has it.
_FUNCTION_WORDS = word_set(
    """
a abban ahhoz ahogy ahol aki akik akkor alatt amely amelyek amelyekben amelyeket amelyet amelynek
ami amikor amit amolyan amíg annak arra arról az azok azon azonban azt aztán azután azzal azért be
belül benne bár cikk cikkek cikkeket csak de e ebben eddig egy egyes egyetlen egyik egyre egyéb
egész ehhez ekkor el ellen első elég elő először előtt emilyen ennek erre ez ezek ezen ezt ezzel
ezért fel felé hanem hiszen hogy hogyan igen ill ill. illetve ilyen ilyenkor ismét ison itt jobban
jó jól kell kellett keressünk keresztül ki kívül között közül legalább legyen lehet lehetett lenne
lenni lesz lett maga magát majd meg mellett mely melyek mert mi mikor milyen minden mindenki
mindent mindig mint mintha mit mivel miért most már más másik még míg nagy nagyobb nagyon ne nekem
neki nem nincs néha néhány nélkül olyan ott pedig persze rá s saját sem semmi sok sokat sokkal
szemben szerint szinte számára talán tehát teljes tovább továbbá több ugyanis utolsó után utána
vagy vagyis vagyok valaki valami valamint való van vannak vele vissza viszont volna volt voltak
voltam voltunk által általában át én éppen és így össze úgy új újabb újra ő ők őket
"""
)

_DIGITS = digits_of(
    """
nulla=0 egy=1 kettő=2 három=3 négy=4 öt=5 hat=6 hét=7 nyolc=8 kilenc=9 két=2
"""
)

HUNGARIAN = Language(
    "hungarian",
    stop_words=_FUNCTION_WORDS,
    function_words=_FUNCTION_WORDS,
    not_names=_FUNCTION_WORDS,
    digits=_DIGITS,
)

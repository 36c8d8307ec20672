"""Times in other languages than English, with the English for the same time."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest

from serving.domain.english.dates import EnglishDates
from serving.domain.english.time_translation import in_english
from serving.domain.items.period import Period
from tests.support.times_in_languages import PHRASES, readings

NOW = datetime(2026, 11, 26, 9, tzinfo=UTC)
DATES = EnglishDates()

MIN_READ = 30
"""Of the thirty phrases of a language."""


def days(text: str) -> list[str]:
    return [f"{each.begins:%m-%d}..{each.ends:%m-%d}" for each in DATES.mentioned(text, NOW)]


def test_phrases_of_each_language_have_their_times() -> None:
    right = Counter(language for language, _, _, is_right in readings() if is_right)
    tried = Counter(language for language, _, _ in PHRASES)

    assert set(tried.values()) == {30}
    assert {language for language in tried if right[language] < MIN_READ} == set()


@pytest.mark.parametrize(
    "text",
    [
        "We met on Friday, and also in the winter.",
        "Mia said: die Hard is on tonight.",
        "Nada más.",
        "",
        "\u25cb\u25cb",
    ],
)
def test_texts_without_foreign_times_stay(text: str) -> None:
    assert in_english(text) == text


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Elternabend ist am Dienstag, dem Zwölften.", ["01-12..01-13"]),
        ("Die Klassenfahrt geht vom vierzehnten bis achtzehnten September.", ["09-14..09-19"]),
        ("Ya quedó, el jueves a las cuatro y cuarto.", ["12-03..12-04"]),
        ("Nos vemos el domingo veintidós a las diez.", ["12-22..12-23"]),
        ("La cita es el 12/01/2027.", ["01-12..01-13"]),
        ("On se voit demain à dix heures.", ["11-27..11-28"]),
        ("Du 3 au 7 mai on est à Lyon.", ["05-03..05-08"]),
        ("Les 3 enfants sont là.", []),
        ("Die Messe ist 3.-5. Dezember.", ["12-03..12-06"]),
        ("O mercado é de 3 a 5 de dezembro.", ["12-03..12-06"]),
        ("El mercado es el 5/12/26.", ["12-05..12-06"]),
        ("Il mercato è il primo dicembre.", ["12-01..12-02"]),
        ("Der Markt ist in zwei bis drei Wochen.", ["12-07..12-21"]),
        ("Le marché est dans deux ou trois semaines.", ["12-07..12-21"]),
        ("Der Markt ist heute in acht Tagen.", ["12-04..12-05"]),
        ("De markt is volgende week vrijdag.", ["12-04..12-05"]),
        ("Freitags ist Markt.", []),
        ("El mercado es todos los viernes.", []),
        ("Le marché est tous les vendredis.", []),
        ("De markt is elke vrijdag.", []),
        ("Il mercato è ogni venerdì.", []),
        ("Der Markt ist nicht am Montag, sondern am Dienstag.", ["12-01..12-02"]),
        ("El mercado no es el lunes sino el martes.", ["12-01..12-02"]),
        ("Le marché n'est pas lundi mais mardi.", ["12-01..12-02"]),
        ("De markt is niet maandag maar dinsdag.", ["12-01..12-02"]),
        ("Il mercato non è lunedì ma martedì.", ["12-01..12-02"]),
        ("O mercado não é segunda mas terça.", ["12-01..12-02"]),
        ("मैं कल गया था", ["11-25..11-26"]),
        ("मैं कल जाऊँगा", ["11-27..11-28"]),
        ("我下周三下午三点要去牙医那里。", ["12-02..12-02"]),
    ],
)
def test_times_of_a_turn_in_its_language(text: str, read: list[str]) -> None:
    assert days(text) == read


def test_question_in_another_language_names_its_time() -> None:
    asked = DATES.times("Was hat Oma vorgestern beim Akustiker erfahren?", NOW)

    assert asked.periods == (
        Period(datetime(2026, 11, 24, tzinfo=UTC), datetime(2026, 11, 25, tzinfo=UTC)),
    )

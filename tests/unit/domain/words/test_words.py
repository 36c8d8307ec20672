"""Words of texts: tokens, compounds, their normal form, and lexemes."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.domain.languages import ENGLISH, LANGUAGE_NAMES, language_of, stemmer_of
from serving.domain.words.compounds import homophones_of, parts_of
from serving.domain.words.lexemes import (
    MAX_BRIEF,
    alternatives,
    asked_lexemes,
    is_part,
    languages_of,
    stored_lexemes,
)
from serving.domain.words.normal_form import normal_form
from serving.domain.words.spelled import with_spelled_words
from serving.domain.words.tokens import tokens


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("icecream", ("ice", "cream")),
        ("dogsitter", ("dog", "sitter")),
        ("sleepover", ("sleep", "over")),
        ("bikeshed", ("bike", "shed")),
        ("together", ()),
        ("forget", ()),
        ("saucepan", ("sauce", "pan")),
        ("playground", ("play", "ground")),
        ("novotny", ()),
        ("Icecream", ()),
        ("cream", ()),
    ],
)
def test_word_of_two_known_ones_is_both(word: str, parts: tuple[str, ...]) -> None:
    assert parts_of(word, "english") == parts
    assert parts_of(word, "german") == parts_of(word, "simple") == (), "they have no list"


@pytest.mark.parametrize(
    ("word", "others"),
    [("flower", "flour"), ("flours", "flower"), ("rein", "rain reign"), ("does", ""), ("jam", "")],
)
def test_homophones_are_the_others_of_the_list(word: str, others: str) -> None:
    assert " ".join(homophones_of(word, "english")) == others


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("Who is it?", "~who ~is ~it"),
        ("Who is the boss of it?", "boss"),
        # written as a name
        ("Did my cousin Will sail?", "cousin will sail"),
        ("Who is Will?", "~who ~is ~will will"),
        ("Is it the IT department?", "depart it"),
        # a stem
        ("willing", "will"),
        # Chinese: alone only if there is nothing else
        ("豆豆是谁？", "豆豆 豆是 是谁 豆"),
        ("谁", "谁"),
        # in one word
        ("When is the check-up?", "checkup check"),
        ("When is the checkup?", "checkup"),
    ],
)
def test_function_words_are_asked_for_if_alone(question: str, asked: str) -> None:
    assert asked_lexemes(question, ENGLISH).keys() == {*asked.split()}


def test_lexemes_of_a_question_are_counted() -> None:
    assert asked_lexemes("Who is the boss of the bosses?", ENGLISH) == {"boss": 2}


@pytest.mark.parametrize(
    ("text", "lexeme"),
    [
        ("My cousin Will might take the little room.", ("will", 3)),
        ("will", ("~will", 1)),
        ("是谁", ("是", 1)),
        ("The check-up of my mother-in-law", ("checkup", 2)),
        ("The check-up of my mother-in-law", ("mother", 6)),
    ],
)
def test_stored_lexeme_has_its_place(text: str, lexeme: tuple[str, int]) -> None:
    assert lexeme in stored_lexemes(text, ENGLISH)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Will you? He will.", "english"),
        ("I WILL NOT DO IT", "english"),
        ("He says I should, but Don't.", "english"),
        ("Ich möchte, dass Ihr mich anruft, sobald Will kommt.", "german"),
    ],
)
def test_other_capitals_make_no_function_word_a_name(text: str, language: str) -> None:
    lexemes = {lexeme for lexeme, _ in stored_lexemes(text, language_of(language))}

    assert lexemes.isdisjoint({"will", "not", "do", "it", "don", "ihr"})


def test_only_a_brief_text_is_found_by_function_words() -> None:
    brief = " ".join(["is", *(f"word{place:}" for place in "abcdefghijk")])

    assert ("~is", 1) in stored_lexemes(brief, ENGLISH)
    assert len(brief.split()) == MAX_BRIEF
    assert ("~is", 1) not in stored_lexemes(f"{brief} more", ENGLISH)


@pytest.mark.parametrize("name", sorted(LANGUAGE_NAMES))
def test_every_language_has_lexemes(name: str) -> None:
    assert asked_lexemes("MER-0014 智齿", language_of(name)).keys() >= {"0014", "智齿"}


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Die Häuser am See sind verkauft.", "german"),
        ("Los vecinos compraron dos bicicletas.", "spanish"),
        ("J'ai acheté des chevaux.", "french"),
        ("De kat ligt graag op zijn bank.", "dutch"),
        ("मेरी किताब कहाँ है?", "hindi"),
        ("Где новая книга?", "russian"),
        ("We sold the houses by the lake.", "english"),
        ("Waschmaschine kaputt", "english"),
        ("我住在北京。", "english"),
    ],
)
def test_language_of_a_text_is_that_of_its_words(text: str, language: str) -> None:
    assert languages_of(text, ENGLISH)[0].name == language


def shared(stored: str, asked: str, tenant: str) -> set[str]:
    usual = language_of(tenant)
    found = {lexeme for lexeme, _ in stored_lexemes(stored, *languages_of(stored, usual))}
    return found & asked_lexemes(asked, *languages_of(asked, usual)).keys()


@pytest.mark.parametrize("tenant", ["english", "german", "simple"])
@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ("Die Häuser am See sind verkauft.", "Wem gehört das Haus?"),
        ("We sold the houses by the lake.", "Who owns a house?"),
        ("Herr Müller ruft dich morgen an.", "When does Müller call?"),
        ("Mr Müller will call you tomorrow.", "Wann ruft Müller an?"),
    ],
)
def test_tenant_is_searched_in_each_of_its_languages(stored: str, asked: str, tenant: str) -> None:
    assert shared(stored, asked, tenant)


def test_function_words_are_those_of_the_text() -> None:
    german = languages_of("Was war mit dem Will, die war da?", ENGLISH)

    assert {"~die", "~war"} <= asked_lexemes("die war", *german).keys()
    assert "die" in asked_lexemes("What did die?", ENGLISH)


@pytest.mark.parametrize(
    ("stored", "asked", "ends"),
    [
        ("Die Waschmaschine ist kaputt.", "Was ist mit der Maschine?", {"-maschin"}),
        ("De ziektekostenverzekering stopt in mei.", "Welke verzekering is het?", {"-verzekeer"}),
        ("Tandläkaren ringde när jag var ute.", "Vilken läkare var det?", {"-läk"}),
        ("Die Maschine ist kaputt.", "Was ist mit der Waschmaschine?", set()),
        ("Das Krankenhaus ist weit weg von hier.", "Was ist mit dem Haus?", set()),
        ("The dishwasher is broken.", "Where is the washer?", set()),
    ],
)
def test_compound_is_found_by_its_end_alone(stored: str, asked: str, ends: set[str]) -> None:
    assert shared(stored, asked, "english") == ends
    assert all(map(is_part, ends))


PLURALS = {
    "danish": "bog bøger",
    "dutch": "fiets fietsen, kind kinderen",
    "english": (
        "tooth teeth, woman women, wolf wolves, knife knives, mouse mice, "
        "grandchild grandchildren, bus buses"
    ),
    "french": "jeu jeux, œil yeux",
    "german": "foto fotos, museum museen",
    "italian": "chiave chiavi, lago laghi",
    "norwegian": "nøkkel nøkler",
    "portuguese": (
        "animal animais, fácil fáceis, possível possíveis, reunião reuniões, viagem viagens"
    ),
    "spanish": "lápiz lápices, dulce dulces, examen exámenes",
    "swedish": "tand tänder, cykel cyklar, cykeln cyklarna, möte mötena",
    "turkish": "araba arabaları",
}


@pytest.mark.parametrize("language", PLURALS)
def test_plural_has_the_stem_of_its_singular(language: str) -> None:
    stem = stemmer_of(language)
    for pair in PLURALS[language].split(", "):
        one, several = pair.split()
        assert stem(several) == stem(one), pair


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("english", "olif", "olives"),
        ("english", "leaf", "leaves"),  # "he leaves"
        ("french", "heureu", "heureuse"),
        ("german", "gla", "gläser"),
        ("portuguese", "mal", "mais"),
    ],
)
def test_word_in_another_form_is_no_plural(language: str, one: str, other: str) -> None:
    assert stemmer_of(language)(other) != stemmer_of(language)(one)


def test_alternatives_are_the_lexemes_of_each_word() -> None:
    german = languages_of("Was ist mit dem Haus und der Maschine?", ENGLISH)

    found = alternatives("Was ist mit dem Haus und der Maschine?", *german)

    assert set(found) == {("haus",), ("maschin", "-maschin")}
    assert set(alternatives("Ask my cousin Will", ENGLISH)) == {("ask",), ("cousin",), ("will",)}


def test_neighbours_of_a_question_are_one_word_too() -> None:
    assert asked_lexemes("Who is the dog sitter?", ENGLISH)["dogsitt"] == 2
    assert "dogsitt" not in {lexeme for lexeme, _ in stored_lexemes("the dog sitter", ENGLISH)}
    assert not asked_lexemes("Who is in room forty two?", ENGLISH).keys() & {
        "roomforti",
        "fortytwo",
    }


@pytest.mark.parametrize(
    "zero", ["\uff10", "\u0660", "\u06f0", "\u0966", "\u09e6", "\u0e50", "\u17e0", "\U0001d7d8"]
)
def test_digits_of_every_script_are_ascii(zero: str) -> None:
    digits = "".join(chr(ord(zero) + digit) for digit in (4, 0, 1, 2, 7))

    assert normal_form(f"No. {digits}") == "No. 40127"


@pytest.mark.parametrize(
    "invisible", ["\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u200e", "\ufe0f"]
)
def test_invisible_characters_are_left_out(invisible: str) -> None:
    assert normal_form(f"pass{invisible}word") == "password"
    assert not normal_form(invisible * 3).strip()


@pytest.mark.parametrize(
    ("written", "read"),
    [("\uff21\uff22\uff23", "ABC"), ("\ufb01sh", "fish"), ("e\u0301", "\u00e9"), ("\u2460", "1")],
)
def test_compatible_characters_are_the_same(written: str, read: str) -> None:
    assert normal_form(written) == read


@given(st.text())
def test_normal_form_is_final_and_composed(text: str) -> None:
    once = normal_form(text)

    assert normal_form(once) == once
    assert unicodedata.is_normalized("NFKC", once)


def words(text: str, language: str = "english") -> set[str]:
    return {word for word, _ in tokens(text, language_of(language))}


@pytest.mark.parametrize(
    ("code", "spellings"),
    [
        ("MER-0014", ["mer 0014", "MER0014", "mer_0014", "MER 0014", "0014", "mer-0014"]),
        ("MER0014", ["mer 0014", "MER-0014", "0014"]),
        ("err4012", ["ERR-4012", "ERR 4012", "error ERR:4012", "4012"]),
        ("B-MX 4711", ["BMX4711", "b mx 4711", "B-MX-4711", "4711"]),
        ("12-AB-34", ["12AB34", "12 ab 34"]),
        ("AB12 CDE", ["AB12CDE", "ab 12 cde"]),
        ("v3.11.2", ["3.11.2", "version 3.11.2", "V3.11.2"]),
        ("KV-20931/B", ["KV 20931", "20931"]),
        ("DE89 3704 0044 0532 0130 00", ["DE89370400440532013000", "0532", "3704 0044"]),
        ("DE89370400440532013000", ["DE89 3704 0044 0532 0130 00", "0532 0130"]),
        ("GB29NWBK60161331926819", ["GB29 NWBK 6016 1331 9268 19"]),
        ("SW1A 2AA", ["SW1A2AA", "sw1a 2aa"]),
        ("SW1A2AA", ["SW1A 2AA"]),
        ("K1A 0B6", ["k1a0b6", "K1A-0B6"]),
        ("X9Z 33K 71Q", ["X9Z33K71Q", "x9z-33k-71q"]),
        ("4111 1111 1111 1234", ["4111111111111234", "1234"]),
        ("2026-11-25", ["20261125", "2026-11-25"]),
        ("14:30", ["14.30", "1430", "14 30"]),
        ("e-mail", ["email", "E-Mail"]),
        ("U.S.A.", ["USA", "usa"]),
        ("10km", ["10 km"]),
    ],
)
def test_spellings_of_a_code_share_its_rarest_word(code: str, spellings: list[str]) -> None:
    rare = {word for word in words(f"It is {code} now.") if len(word) > 1} - words("It is now.")

    for spelling in spellings:
        assert rare & words(f"What about {spelling}?"), spelling


@pytest.mark.parametrize(
    "stored",
    ["0171-555-0142", "(0171) 555 0142", "0171/5550142", "01715550142", "+49 171 555-0142",
     "0049 171 5550142", "+49 (0)171 5550142"],
)  # fmt: skip
@pytest.mark.parametrize(
    "asked",
    ["0171-555-0142", "01715550142", "+49 171 5550142", "555 0142", "5550142", "555-0142"],
)
def test_a_phone_number_is_found_in_every_form(stored: str, asked: str) -> None:
    assert "5550142" in words(f"Call {stored}.") & words(f"Whose number is {asked}?")


def test_last_four_digits_find_a_phone_number() -> None:
    assert "0177" in words("Call 01715550177.") & words("the number ending in 0177")


@pytest.mark.parametrize(
    "amount",
    ["1,250.00", "1.250,00", "1250", "1250.00", "1250,00", "1'250", "1’250.00", "1 250",
     "1 250,00", "€1,250", "1,250EUR", "\uff11,\uff12\uff15\uff10"],
)  # fmt: skip
def test_an_amount_is_found_in_every_form(amount: str) -> None:
    assert "1250" in words(f"She paid {amount} for it.")


def test_millions_and_cents_are_part_of_an_amount() -> None:
    assert "2500000" in words("2.500.000") & words("2,500,000.00") & words("2 500 000")
    assert "1250.5" in words("1,250.50") & words("1250,5") & words("1.250,50")


def test_thousands_alone_are_no_word_of_an_amount() -> None:
    assert "250" not in words("Ana owes 1,250.00 euros.")


def test_no_number_has_a_sign() -> None:
    for text in ("MER-0014", "-0014", "+49", "a -1 b", "1-2"):
        assert all(word.isalnum() for word in words(text))


@pytest.mark.parametrize("text", ["one, two", "one man. Two men.", "one of two or three"])
def test_separated_digits_are_no_dictated_number(text: str) -> None:
    assert not any(word.isdigit() and len(word) > 1 for word in words(text))


WRITTEN = {
    "counts": (
        "room fourteen = room 14; the forty-two = line 42; twenty two cats = 22 cats; "
        "one hundred and seven = 107; two hundred fifty = 250; "
        "three thousand four hundred = 3,400"
    ),
    "years": (
        "two thousand and four = 2004; nineteen eighty-six = 1986; sixteen eighty nine = 1689; "
        "twenty fourteen = 2014; nineteen oh five = 1905; the nineties = the 90s; "
        "the nineties = the 1990s"
    ),
    "groups of digits": (
        "one twenty five = 125; fifty five forty two = 5542; room three oh two = room 302; "
        "five double five one oh four two = 555 1042; seven triple three = 7333"
    ),
    "ranks": (
        "the third floor = the 3rd floor; the twenty-first = the 21st; "
        "chapter four = chapter IV; chapter 11 = chapter XI; Henry the eighth = Henry VIII"
    ),
    "amounts": (
        "twelve k = 12k; twelve k = 12,000; five million = 5 million; two and a half = 2.5; "
        "two and a half = 2½; one point two million = 1.2 million; "
        "two and a half million = 2,500,000; fifteen hundred = 1.5k; half a dozen = 6; "
        "two dozen = 24; three point five = 3.5; eleven point four = 11; two thirds = 2/3"
    ),
    "times of day": (
        "half past six = 6:30; half past six = 18:30; a quarter to eight = 7:45; "
        "quarter past three = 15:15; ten to nine = 8:50; twenty five past one = 13:25; "
        "five thirty = 5:30; five thirty pm = 17:30; 5.30 p.m. = 17:30; seven o'clock = 7 pm; "
        "three in the afternoon = 15:00; noon = 12:00; midnight = 0:00"
    ),
}


@pytest.mark.parametrize("kind", WRITTEN)
def test_spoken_number_shares_its_word_with_the_written(kind: str) -> None:
    for pair in WRITTEN[kind].split("; "):
        said, written = pair.split(" = ")
        numbers = {word for word in words(said) & words(written) if any(map(str.isdigit, word))}
        longest = max(map(len, numbers), default=0)
        assert longest >= sum(map(str.isdigit, written)) - 1, (pair, words(said))


SPOKEN = {
    "arabic": "خمسة خمسة اثنان صفر = 5520",
    "danish": "toogfyrre = 42",
    "dutch": (
        "vijf vijf twee nul = 5520; tweeënveertig = 42; tweeënhalf = 2.5; om half zes = 05:30; "
        "kwart over vijf = 05:15; acht uur 's avonds = 20:00"
    ),
    "english": (
        "five five two zero = 5520; Five, five, two, zero = 5520; double o seven = 007; "
        "oh one seven one triple five oh one four two = 5550142; 5 5 two 0 = 5520"
    ),
    "french": (
        "cinq cinq deux zéro = 5520; quatre-vingt-dix-sept = 97; deux et demi = 2.5; "
        "une demi-douzaine = 6; à six heures et demie = 06:30; "
        "à huit heures moins le quart = 07:45; à six heures vingt = 06:20; à 6h30 = 06:30; "
        "à minuit = 00:00"
    ),
    "german": (
        "fünf fünf zwei null = 5520; fünf fünf zwo null = 5520; zweiundvierzig = 42; "
        "neunzehnhundertsechsundachtzig = 1986; zwei Komma fünf = 2.5; anderthalb = 1.5; "
        "ein halbes Dutzend = 6; 1,2 Millionen = 1200000; um halb sechs = 05:30; "
        "um dreiviertel sechs = 05:45; viertel nach fünf = 05:15; zehn vor acht = 07:50; "
        "acht uhr dreißig = 08:30; halb sechs uhr abends = 17:30; um sieben uhr = 07:00"
    ),
    "hindi": "पांच पांच दो शून्य = 5520",
    "italian": (
        "cinque cinque due zero = 5520; quarantadue = 42; due dozzine = 24; "
        "sono le sei e mezza = 06:30; sono le otto meno un quarto = 07:45"
    ),
    "portuguese": (
        "cinco cinco dois zero = 5520; quarenta e dois = 42; meia dúzia = 6; "
        "às seis e meia = 06:30; quinze para as oito = 07:45"
    ),
    "russian": "пять пять два ноль = 5520",
    "spanish": (
        "cinco cinco dos cero = 5520; cuarenta y dos = 42; una docena = 12; "
        "a las seis y media = 06:30; a las ocho menos cuarto = 07:45; "
        "a las seis y veinte de la tarde = 18:20; diez para las ocho = 07:50"
    ),
    "swedish": "fem fem två noll = 5520",
    "turkish": "beş beş iki sıfır = 5520",
}


@pytest.mark.parametrize("language", SPOKEN)
def test_spoken_number_of_a_language_is_written_too(language: str) -> None:
    for pair in SPOKEN[language].split("; "):
        said, number = pair.split(" = ")
        assert number in words(f"... {said}.", language), pair


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("english", "oh thirty"),
        ("german", "halb so viele wie sechs"),
        ("spanish", "tres y cuatro personas"),
        ("french", "six et trois personnes"),
    ],
)
def test_numbers_without_clock_words_are_no_time(language: str, said: str) -> None:
    assert not any(":" in word for word in words(said, language))


def test_words_of_a_long_number_are_not_asked_for() -> None:
    asked = {word for word, _ in tokens("who has one four two oh", ENGLISH, asked=True)}

    assert asked == {"who", "has", "1420"}


def test_number_of_thousands_of_digits_is_a_word() -> None:
    digits = "7" * 5000

    assert digits in words(f"{digits} dozen")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("the one of us", "1"),
        ("nineteen. Eighty six people", "1986"),
        ("fourteen, fifteen or sixteen", "1415"),
        ("version 3.11.2", "03:11"),
        ("1.2 million", "2000000"),
        ("1.5k", "5000"),
        ("two dozen", "212"),
        ("midnight", "12:00"),
        ("IV is what X and I ask", "4"),
        ("MY ROOM IX", "9"),
        ("in nineteen eighty six two of us", "862"),
    ],
)
def test_words_apart_are_no_number_together(text: str, number: str) -> None:
    assert number not in words(text)


@pytest.mark.parametrize(
    "said",
    [
        "n o v a k",
        "n, o, v, a, k",
        "N. O. V. A. K.",
        "N-O-V-A-K",
        "n o v as in victor a k",
        "n for november o v a k",
    ],
)
def test_spelled_word_is_found_by_the_word(said: str) -> None:
    assert "novak" in words(f"He spells it {said}.")


def test_repeated_letter_of_a_spelled_word_counts() -> None:
    assert "matter" in words("m a double t e r")


@pytest.mark.parametrize("text", ["I'm a dog", "plan a, b and c", "It is I. A dog."])
def test_letters_apart_are_no_spelled_word(text: str) -> None:
    assert words(text).isdisjoint({"ma", "ab", "abc", "ia", "iad"})


@pytest.mark.parametrize(
    ("address", "part"),
    [
        ("https://docs.example.com/guide/setup.html?x=1", "setup"),
        ("/usr/local/share/my_file.txt", "file"),
        (r"C:\Users\anna\report.pdf", "report"),
        ("anna.schmidt@example.com", "schmidt"),
        ("www.example.org", "example"),
        ("get_user_name", "user"),
    ],
)
def test_parts_of_addresses_are_words(address: str, part: str) -> None:
    assert part in words(f"See {address}.")


@pytest.mark.parametrize(
    ("stored", "asked", "other"),
    [
        ("我下周三要去牙医那里拔智齿。", "智齿", "我的猫叫豆豆，今年三岁。"),
        ("我的猫叫豆豆，今年三岁。", "那只猫几岁？", "周末我去爬山。"),
        ("明日は歯医者に行きます。", "歯医者", "猫の名前はタマです。"),
        ("カタカナのコーヒーが好き", "コーヒー", "紅茶が好き"),
        ("ฉันแพ้กุ้งและปลาหมึก", "กุ้ง", "แมวของฉันชื่อส้ม"),
        ("ຂ້ອຍມັກກິນເຂົ້າໜຽວ", "ເຂົ້າໜຽວ", "ແມວຂອງຂ້ອຍ"),
        ("ខ្ញុំចូលចិត្តឆ្មា", "ឆ្មា", "ថ្ងៃនេះភ្លៀង"),
        ("ကျွန်တော် ကြောင်ကို ချစ်တယ်", "ကြောင်", "မိုးရွာတယ်"),
        ("서울에서 고양이를 봤어요", "고양이", "비가 와요"),
    ],
)
def test_words_are_found_without_spaces(stored: str, asked: str, other: str) -> None:
    assert words(asked) & words(stored)
    assert not words(asked) & words(other)


def test_codes_are_words_within_unspaced_text() -> None:
    assert {"ab12345", "12345"} <= words("订单编号是AB12345，请尽快发货。")
    assert "40127" in words("受付番号は\uff14\uff10\uff11\uff12\uff17です。")


@pytest.mark.parametrize(
    ("one", "other"), [("मीना", "मोना"), ("கமலா", "கமலி"), ("রিনা", "রীনা"), ("שָׁלוֹם", "שָׁלֵם")]
)
def test_marks_are_part_of_a_word(one: str, other: str) -> None:
    assert words(one) != words(other)
    assert len(words(one)) == 1


@pytest.mark.parametrize(
    ("text", "emoji"),
    [("Pizza 🍕!", "🍕"), ("ok👍🏽", "👍"), ("❤️", "❤"), ("in 🇩🇪🇫🇷", "🇫🇷"), ("☀️ today", "☀")],
)
def test_emoji_are_words(text: str, emoji: str) -> None:
    assert emoji in words(text)


def test_tokens_of_a_word_share_its_place() -> None:
    found = tokens("Ticket MER-0014 is open", ENGLISH)

    assert [place for word, place in found if word in ("mer", "mer0014")] == [2, 2]
    assert ("open", 5) in found


@given(st.text(), st.sampled_from(sorted(LANGUAGE_NAMES)))
def test_any_text_has_tokens_that_fit_a_tsvector(text: str, language: str) -> None:
    found = tokens(text, language_of(language))

    assert len(set(found)) == len(found)
    for word, place in found:
        assert word
        assert place >= 1
        assert not set("'\\ \t\n\0") & set(word)


@given(st.text(alphabet="ab01 -./,'’()+:", max_size=60))
def test_any_code_asked_as_stored_is_found(text: str) -> None:
    assert set(tokens(text, ENGLISH)) == set(tokens(text.upper(), ENGLISH))


def test_spelled_word_is_embedded_as_it_is_written() -> None:
    assert with_spelled_words("His name is n o v a k.") == "His name is novak."
    assert with_spelled_words("It comes from F-A-R-R-O-W.") == "It comes from FARROW."
    assert with_spelled_words("Back in the U.S.A. today.") == "Back in the U.S.A. today."


# ---------------------------------------------------------------- languages


@pytest.mark.parametrize("configuration", ["simple", "greek", ""])
def test_configuration_without_words_has_an_empty_language(configuration: str) -> None:
    language = language_of(configuration)

    assert language.name == configuration
    assert not language.stop_words | language.not_names | language.calendar
    assert language.possessive.search("Ann's") is None


def test_words_are_in_lower_case() -> None:
    words = ENGLISH.stop_words | ENGLISH.not_names | ENGLISH.openings | ENGLISH.abbreviations

    assert all(word == word.casefold() for word in words)


@pytest.mark.parametrize("name", sorted(LANGUAGE_NAMES))
def test_words_of_a_language_are_as_texts_are_read(name: str) -> None:
    language = language_of(name)

    for word in language.function_words | language.digits.keys() | language.repeats.keys():
        assert language.folded(word) == word


def test_case_is_that_of_the_language() -> None:
    assert language_of("turkish").folded("ISPARTA") == "\u0131sparta"
    assert ENGLISH.folded("ISPARTA") == "isparta"
    assert ENGLISH.folded("\u0130zmir") == language_of("turkish").folded("\u0130zmir") == "izmir"


def test_calendar_and_connectors_are_no_names() -> None:
    assert ENGLISH.calendar | ENGLISH.connectors <= ENGLISH.not_names

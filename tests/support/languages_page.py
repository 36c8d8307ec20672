"""The tables of docs/languages.md: what a question finds by words, in each language, and times."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from pathlib import Path

from serving.domain.languages import language_of
from serving.domain.words.lexemes import asked_lexemes, languages_of, stored_lexemes
from tests.support.times_in_languages import readings

PAGE = Path(__file__).parents[2] / "docs" / "languages.md"

TRIED = {
    "english": [
        ("The dentist pulled two teeth on Monday.", "When does she pull the tooth?"),
        ("He mended the neighbours' roofs.", "Who is mending a roof?"),
        ("I bought a new bicycle.", "Where do I buy one?"),
        ("My e-mail is in the well-known form.", "What is the email?"),
    ],
    "german": [
        ("Die Häuser am See sind verkauft.", "Wem gehört das Haus?"),
        ("Wir haben die Straße gefegt.", "Welche STRASSE?"),
        ("Herr Müller ruft morgen an.", "Wann ruft Mueller an?"),
        ("Die Waschmaschine ist kaputt.", "Welche Maschine?"),
        ("Meine Krankenversicherungsnummer ist neu.", "Wie ist meine Versicherungsnummer?"),
    ],
    "spanish": [
        ("Los vecinos compraron dos bicicletas.", "¿De quién es la bicicleta?"),
        ("La canción es nueva.", "¿De quién es la cancion?"),
        ("Tengo una cita con el médico.", "¿Cuándo son las citas?"),
    ],
    "french": [
        ("J'ai acheté des chevaux.", "Qui achète le cheval ?"),
        ("L'eau de l'école est froide.", "Où est l'eau ?"),
        ("Les réunions sont longues.", "Quand est la reunion ?"),
    ],
    "italian": [
        ("Le riunioni sono spostate a giovedì.", "Quando è la riunione?"),
        ("Ho perso le chiavi dell'ufficio.", "Dove è la chiave?"),
        ("Mia sorella abita a Torino.", "Dove abitano le sorelle?"),
    ],
    "portuguese": [
        ("As reuniões foram canceladas.", "Quando é a reunião?"),
        ("Comprei dois pães.", "Onde está o pão?"),
        ("O carro está na oficina.", "Onde estão os carros?"),
    ],
    "dutch": [
        ("De katten slapen op de banken.", "Waar slaapt de kat?"),
        ("Mijn zus heeft twee fietsen.", "Wie heeft een fiets?"),
        ("De ziektekostenverzekering stopt.", "Waar is de verzekering?"),
    ],
    "swedish": [
        ("Vi köpte två cyklar.", "Var är cykeln?"),
        ("Mötet är på fredag.", "När är mötena?"),
        ("Tandläkaren ringde.", "Vilken läkare?"),
    ],
    "russian": [
        ("Мы купили новые книги.", "Где новая книга?"),
        ("Ёжик живёт в саду.", "Где живет ежик?"),
        ("Встреча перенесена на среду.", "Когда встречи?"),
    ],
    "turkish": [
        ("Arabaları sattık.", "Araba nerede?"),
        ("Ankara'da oturuyorum.", "Ankara'ya kim gidiyor?"),
        ("ISPARTA'dan geldik.", "Isparta nerede?"),
        ("Kitabı masaya koydum.", "Kitap nerede?"),
    ],
    "arabic": [
        ("اشتريت الكتاب الجديد أمس.", "أين كتاب الرياضيات؟"),
        ("رقم الطلب ٤٠١٢٧", "40127"),
        ("الموعد مع طبيب الأسنان غدا", "متى موعد الطبيب؟"),
    ],
    "hindi": [
        ("मैंने दो किताबें खरीदीं।", "मेरी किताब कहाँ है?"),
        ("मेरा फ़ोन नंबर ५५५०१४२ है।", "5550142"),
        ("डॉक्टर के साथ मुलाकात कल है।", "डॉक्टर से मुलाकात कब है?"),
    ],
    "simple (Chinese)": [
        ("我下周三要去牙医那里拔智齿。", "智齿"),
        ("我对花生过敏，不能吃花生酱。", "他对什么过敏？"),
        ("我的猫叫豆豆，今年三岁。", "那只猫几岁？"),
        ("我住在北京。", "首都"),
    ],
    "simple (Japanese)": [
        ("明日は歯医者に行きます。", "歯医者はいつ？"),
        ("コーヒーが好きです。", "ｺｰﾋｰ"),
        ("東京に住んでいます。", "とうきょう"),
    ],
    "simple (Thai)": [
        ("ฉันแพ้กุ้งและปลาหมึก", "กุ้ง"),
        ("พรุ่งนี้ฉันมีนัดกับหมอฟัน", "หมอฟัน"),
        ("แมวของฉันชื่อส้ม", "แมวชื่ออะไร"),
    ],
}
"""By language: what is stored, and what is asked."""


def shared(language: str, stored: str, asked: str) -> list[str]:
    """The lexemes of a question by which it finds what is stored."""
    usual = language_of(language.split()[0])
    lexemes = {lexeme for lexeme, _ in stored_lexemes(stored, *languages_of(stored, usual))}
    question = asked_lexemes(asked, *languages_of(asked, usual))
    return [lexeme for lexeme in question if lexeme in lexemes]


def table() -> str:
    """The table as it is in the page."""
    lines = ["| `text_search_config` | stored | asked | found by |", "| --- | --- | --- | --- |"]
    for language, tried in TRIED.items():
        name, _, written = language.partition(" ")
        for stored, asked in tried:
            answer = " ".join(shared(language, stored, asked)) or "**not found**"
            lines.append(f"| {f'`{name}` {written}'.strip()} | {stored} | {asked} | {answer} |")
    return "\n".join(lines) + "\n"


def times_table() -> str:
    """How many phrases for times of each language are read right, and some of them."""
    lines = ["| language | phrases | read as in English | such as |", "| --- | ---: | ---: | --- |"]
    for language, group in groupby(readings(), key=itemgetter(0)):
        phrases = list(group)
        right = sum(is_right for *_, is_right in phrases)
        some = ", ".join(phrase for _, phrase, _, _ in phrases[3::7])
        lines.append(f"| {language.title()} | {len(phrases)} | {right} | {some} |")
    return "\n".join(lines) + "\n"


def text() -> str:
    """The page with its tables."""
    page = PAGE.read_text(encoding="utf-8")
    for name, made in (("tried", table()), ("times", times_table())):
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->\n"
        before, rest = page.split(begin)
        _, after = rest.split(end)
        page = f"{before}{begin}{made}{end}{after}"
    return page

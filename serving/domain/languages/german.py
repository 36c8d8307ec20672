"""German."""

from __future__ import annotations

import re

from serving.domain.languages.language import Language, any_of, digits_of, word_set

# The list of Snowball, as PostgreSQL has it.
_FUNCTION_WORDS = word_set(
    """
aber alle allem allen aller alles als also am an ander andere anderem anderen anderer anderes
anderm andern anderr anders auch auf aus bei bin bis bist da damit dann das dasselbe dazu daß dein
deine deinem deinen deiner deines dem demselben den denn denselben der derer derselbe derselben
des desselben dessen dich die dies diese dieselbe dieselben diesem diesen dieser dieses dir doch
dort du durch ein eine einem einen einer eines einig einige einigem einigen einiger einiges einmal
er es etwas euch euer eure eurem euren eurer eures für gegen gewesen hab habe haben hat hatte
hatten hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer ihres im in indem ins ist jede
jedem jeden jeder jedes jene jenem jenen jener jenes jetzt kann kein keine keinem keinen keiner
keines können könnte machen man manche manchem manchen mancher manches mein meine meinem meinen
meiner meines mich mir mit muss musste nach nicht nichts noch nun nur ob oder ohne sehr sein seine
seinem seinen seiner seines selbst sich sie sind so solche solchem solchen solcher solches soll
sollte sondern sonst um und uns unse unsem unsen unser unses unter viel vom von vor wann war waren
warst warum was weg weil weiter welche welchem welchen welcher welches wem wen wenn wer werde
werden wessen wie wieder wieso will wir wird wirst wo woher wohin wollen wollte während würde
würden zu zum zur zwar zwischen über
"""
)

_DIGITS = digits_of(
    """
null=0 eins=1 zwei=2 drei=3 vier=4 fünf=5 sechs=6 sieben=7 acht=8 neun=9 zwo=2
"""
)

_CHANGES = any_of(
    r"""
abgesagt ändert geändert doch jetzt korrektur mittlerweile neue[mnrs]? nun statt stattdessen
später umgezogen verkauft verlegt verschiebt verschoben wechselt gewechselt wieder zieht
kein\w*_mehr nicht_mehr ab_(?:jetzt|sofort|heute|morgen) ab_\w+tag ab_mittwoch
""",
    flags=re.NOFLAG,
)

_PAST = any_of(
    r"""
alte[mnrs]? anfangs bevor bisher damals früher hatten? hattest ursprünglich vorher war waren warst
zuerst
"""
)

_SINGLE = any_of(
    r"""
aktuell jetzt noch wann welche[mnrs]? wem wen wer wessen wo woher wohin
wie_(?:alt|groß|hoch|lange?|oft|spät|teuer|viele?) was_(?:ist|kostet)
^(?:bin|darf|dürfen|hat|habe|haben|ist|kann|muss|müssen|sind|soll|sollen|wird)
"""
)

_ASKS_FOR_DAY = any_of(
    r"""
wann wie_(?:früh|oft|spät) um_wie_viel_uhr welche[mnrs]?_(?:datum|monat|tag)
"""
)

_DAYS = any_of(
    r"""
montags? dienstags? mittwochs? donnerstags? freitags? samstags? sonntags? januar februar märz
april mai juni juli august september oktober november dezember abends? halb heute mittags?
mitternacht morgens? nachmittags? uhr viertel woche \d\d?\.(?!\d) \d\d?:\d\d
"""
)

_ASKS_FOR_AMOUNT = any_of(
    r"""
code dosis kostet miete nummer preis wie_viele?
"""
)

_AMOUNTS = any_of(
    r"""
\d+ zwei drei vier fünf sechs sieben acht neun zehn elf zwölf zwanzig dreißig hundert tausend
"""
)

GERMAN = Language(
    "german",
    stop_words=_FUNCTION_WORDS,
    function_words=_FUNCTION_WORDS,
    not_names=_FUNCTION_WORDS,
    changes=_CHANGES,
    past=_PAST,
    single=_SINGLE,
    values=((_ASKS_FOR_DAY, _DAYS), (_ASKS_FOR_AMOUNT, _AMOUNTS)),
    digits=_DIGITS,
    repeats={"doppel": 2},
)

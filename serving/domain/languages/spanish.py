"""Spanish."""

from __future__ import annotations

import re

from serving.domain.languages.language import Language, any_of, digits_of, word_set

# The list of Snowball, as PostgreSQL has it.
_FUNCTION_WORDS = word_set(
    """
a al algo algunas algunos ante antes como con contra cual cuando cuál cuáles cuánta cuántas cuánto
cuántos cómo de del desde donde durante dónde e el ella ellas ellos en entre era erais eran eras
eres es esa esas ese eso esos esta estaba estabais estaban estabas estad estada estadas estado
estados estamos estando estar estaremos estará estarán estarás estaré estaréis estaría estaríais
estaríamos estarían estarías estas este estemos esto estos estoy estuve estuviera estuvierais
estuvieran estuvieras estuvieron estuviese estuvieseis estuviesen estuvieses estuvimos estuviste
estuvisteis estuviéramos estuviésemos estuvo está estábamos estáis están estás esté estéis estén
estés fue fuera fuerais fueran fueras fueron fuese fueseis fuesen fueses fui fuimos fuiste
fuisteis fuéramos fuésemos ha habida habidas habido habidos habiendo habremos habrá habrán habrás
habré habréis habría habríais habríamos habrían habrías habéis había habíais habíamos habían
habías han has hasta hay haya hayamos hayan hayas hayáis he hemos hube hubiera hubierais hubieran
hubieras hubieron hubiese hubieseis hubiesen hubieses hubimos hubiste hubisteis hubiéramos
hubiésemos hubo la las le les lo los me mi mis mucho muchos muy más mí mía mías mío míos nada ni
no nos nosotras nosotros nuestra nuestras nuestro nuestros o os otra otras otro otros para pero
poco por porque que quien quienes qué se sea seamos sean seas sentid sentida sentidas sentido
sentidos seremos será serán serás seré seréis sería seríais seríamos serían serías seáis siente
sin sintiendo sobre sois somos son soy su sus suya suyas suyo suyos sí también tanto te tendremos
tendrá tendrán tendrás tendré tendréis tendría tendríais tendríamos tendrían tendrías tened
tenemos tenga tengamos tengan tengas tengo tengáis tenida tenidas tenido tenidos teniendo tenéis
tenía teníais teníamos tenían tenías ti tiene tienen tienes todo todos tu tus tuve tuviera
tuvierais tuvieran tuvieras tuvieron tuviese tuvieseis tuviesen tuvieses tuvimos tuviste tuvisteis
tuviéramos tuviésemos tuvo tuya tuyas tuyo tuyos tú un una uno unos vosostras vosostros vuestra
vuestras vuestro vuestros y ya yo él éramos
"""
)

_DIGITS = digits_of(
    """
cero=0 uno=1 dos=2 tres=3 cuatro=4 cinco=5 seis=6 siete=7 ocho=8 nueve=9 una=1
"""
)

_CHANGES = any_of(
    r"""
ahora aplazad[ao] cambi(?:a|an|ado|amos|aron|o|os|ó) cancelad[ao] corrección mud(?:ado|amos|é|ó)
nuev[ao]s? pospuest[ao] retras(?:a|ado|ada|ó) vendid[ao] vuelv(?:e|en|o) al_final de_nuevo
desde_(?:ahora|hoy|el) en_(?:lugar|vez)_de más_tarde otra_vez ya_no
""",
    flags=re.NOFLAG,
)

_PAST = any_of(
    r"""
al_principio ante(?:rior|riormente|s) era[ns]? fue(?:ron)? había primero solía[ns]? tenía[ns]?
"""
)

_SINGLE = any_of(
    r"""
ahora aún cuándo cuál(?:es)? cuánt[ao]s? dónde quién(?:es)? todavía
qué_(?:código|día|fecha|hora|número) ^(?:es|está|están|hay|puede|pueden|puedo|son|tiene|tienen)
"""
)

_ASKS_FOR_DAY = any_of(
    r"""
cuándo qué_(?:día|fecha|hora|mes)
"""
)

_DAYS = any_of(
    r"""
lunes martes miércoles jueves viernes sábado domingo enero febrero marzo abril mayo junio julio
agosto septiembre octubre noviembre diciembre hoy mañana mediodía noche semana tarde el_\d\d?
\d\d?:\d\d
"""
)

_ASKS_FOR_AMOUNT = any_of(
    r"""
alquiler código cuánt[ao]s? cuesta número precio
"""
)

_AMOUNTS = any_of(
    r"""
\d+ dos tres cuatro cinco seis siete ocho nueve diez veinte treinta cien mil
"""
)

SPANISH = Language(
    "spanish",
    stop_words=_FUNCTION_WORDS,
    function_words=_FUNCTION_WORDS,
    not_names=_FUNCTION_WORDS,
    changes=_CHANGES,
    past=_PAST,
    single=_SINGLE,
    values=((_ASKS_FOR_DAY, _DAYS), (_ASKS_FOR_AMOUNT, _AMOUNTS)),
    digits=_DIGITS,
    repeats={"doble": 2, "triple": 3},
)

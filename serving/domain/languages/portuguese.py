"""Portuguese."""

from __future__ import annotations

from serving.domain.languages.language import Language, digits_of, word_set

# The list of Snowball, as PostgreSQL has it.
_FUNCTION_WORDS = word_set(
    """
a ao aos aquela aquelas aquele aqueles aquilo as até com como da das de dela delas dele deles
depois do dos e ela elas ele eles em entre era eram essa essas esse esses esta estamos estas
estava estavam este esteja estejam estejamos estes esteve estive estivemos estiver estivera
estiveram estiverem estivermos estivesse estivessem estivéramos estivéssemos estou está estávamos
estão eu foi fomos for fora foram forem formos fosse fossem fui fôramos fôssemos haja hajam
hajamos havemos hei houve houvemos houver houvera houveram houverei houverem houveremos houveria
houveriam houvermos houverá houverão houveríamos houvesse houvessem houvéramos houvéssemos há hão
isso isto já lhe lhes mais mas me mesmo meu meus minha minhas muito na nas nem no nos nossa nossas
nosso nossos num numa não nós o onde os ou para pela pelas pelo pelos por quais qual quando quanto
quantos que quem se seja sejam sejamos sem serei seremos seria seriam será serão seríamos seu seus
somos sou sua suas são só também te tem temos tenha tenham tenhamos tenho terei teremos teria
teriam terá terão teríamos teu teus teve tinha tinham tive tivemos tiver tivera tiveram tiverem
tivermos tivesse tivessem tivéramos tivéssemos tu tua tuas tém tínhamos um uma você vocês vos à às
éramos
"""
)

_DIGITS = digits_of(
    """
zero=0 um=1 dois=2 três=3 quatro=4 cinco=5 seis=6 sete=7 oito=8 nove=9 uma=1 duas=2 meia=6
"""
)

PORTUGUESE = Language(
    "portuguese",
    stop_words=_FUNCTION_WORDS,
    function_words=_FUNCTION_WORDS,
    not_names=_FUNCTION_WORDS,
    digits=_DIGITS,
)

"""How the names in questions are changed."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from bench.harness.collection import Collection, Memory, Query
from bench.quality.variants.mishearing import (
    CONFUSIONS,
    NameChange,
    misheard,
    shortened,
    with_changed_names,
)
from trivium.values import Fact, Segment

NAMES = ("Philip", "Caroline", "Melanie", "Jacqueline", "Theodore", "Quentin", "Schaefer", "Knox")


def collection(*questions: str) -> Collection:
    """Of a talk between Melanie and Philip; both know Karel and his sister Karol."""
    segments = [
        Segment(id="a", text="Karel and Karol will sail with us.", speaker="Melanie"),
        Segment(id="b", text="Where to, Mel? The philharmonic?", speaker="Philip Knox"),
        Segment(id="c", text="To Goa.", title="Plans", entities=("Goa", "sail")),
    ]
    facts = [Fact(id="f", subject="Karel", relation="brother of", object="Karol")]
    queries = [Query(id=f"q{n}", tenant="t", text=text) for n, text in enumerate(questions)]
    return Collection(name="talk", memories={"t": Memory(segments, facts)}, queries=queries)


def texts(of: Collection) -> Sequence[str]:
    return [query.text for query in of.queries]


def test_names_are_misheard_and_all_else_stays() -> None:
    asked = collection("Where did Philip's friend Karel sail?", "What will they do?")

    said, plain = texts(with_changed_names(asked, NameChange.MISHEARD))

    assert said.startswith("Where did ")
    assert said.endswith(" sail?")
    assert "'s friend " in said
    assert "Philip" not in said
    assert "Karel" not in said
    assert plain == "What will they do?"


def test_the_same_seed_changes_a_set_in_the_same_way_and_another_seed_otherwise() -> None:
    asked = collection(*(f"Where is Melanie, and where is Philip, on day {n}?" for n in range(9)))
    first = texts(with_changed_names(asked, NameChange.MISHEARD, 1))

    assert texts(with_changed_names(asked, NameChange.MISHEARD, 1)) == first
    assert texts(with_changed_names(asked, NameChange.MISHEARD, 2)) != first


def test_a_name_is_misheard_alike_throughout_a_question() -> None:
    [said] = texts(with_changed_names(collection("Is Melanie Melanie?"), NameChange.MISHEARD))

    both = said.removeprefix("Is ").removesuffix("?")
    middle = len(both) // 2
    assert both[:middle] == both[middle + 1 :]


def test_what_is_misheard_is_never_a_name_of_the_set() -> None:
    asked = collection(*("Where is Karel?" for _ in range(200)))

    words = {
        word
        for text in texts(with_changed_names(asked, NameChange.MISHEARD))
        for word in text.split()
    }

    assert words.isdisjoint({"Karel?", "Karol?"})


def test_a_name_stays_where_every_variant_is_taken() -> None:
    draw = random.Random(0)
    others = frozenset(misheard("knox", frozenset(), draw) for _ in range(2000))

    assert misheard("knox", others | {"knox"}, draw) == "knox"


@pytest.mark.parametrize("name", NAMES)
def test_what_is_misheard_begins_or_ends_as_the_name_does(name: str) -> None:
    draw = random.Random(name)
    for _ in range(50):
        said = misheard(name.casefold(), frozenset(), draw)

        assert said != name.casefold()
        assert abs(len(said) - len(name)) <= 4


def test_every_confusion_happens_somewhere() -> None:
    names = """philip geoff becker nick quentin max caroline khan schaefer jill george edgar theo
        knox wright wanda elizabeth isabel anna melanie alan sarah hugo ben david robert james fritz
        eve cooper tom susan lucy peel aidan booth paul celine walter martha cecil"""
    words = names.split()

    silent = [each for each in CONFUSIONS if not any(list(each.places(word)) for word in words)]

    assert silent == []


def test_speakers_are_named_by_their_beginning_and_nobody_else_is() -> None:
    asked = collection("Where did Melanie and Philip Knox go with Karel?")

    assert texts(with_changed_names(asked, NameChange.SHORT)) == [
        "Where did Mel and Phil Knox go with Karel?"
    ]


@pytest.mark.parametrize(
    ("name", "taken", "short"),
    [
        ("melanie", "", "mel"),
        ("caroline", "car", "caro"),
        ("stephen", "", "step"),
        ("ann", "", "ann"),
        ("jon", "", "jon"),
        ("anna", "ann", "anna"),
    ],
)
def test_a_short_form_ends_with_a_syllable_and_is_as_long_as_it_takes_to_be_no_other_word(
    name: str, taken: str, short: str
) -> None:
    assert shortened(name, frozenset(taken.split())) == short


def test_the_changed_set_has_a_name_and_a_command_of_its_own_and_the_same_memory() -> None:
    asked = collection("Where is Melanie?")
    said = with_changed_names(asked, NameChange.MISHEARD, 3)

    assert said.name == "talk-misheard"
    assert said.given_as == ("talk", "--names", "misheard", "--seed", "3")
    assert said.memories is asked.memories
    assert with_changed_names(asked, NameChange.SHORT).given_as == ("talk", "--names", "short")

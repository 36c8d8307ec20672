"""How the names in questions are changed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bench.harness.collection import Collection, Memory, Query
from bench.quality.mishearing import NameChange, shortened, with_changed_names
from trivium.values import Fact, Segment


def collection(*questions: str) -> Collection:
    """A conversation of Melanie and Philip; both know Karel and his sister Karol."""
    segments = [
        Segment(id="a", text="Karel and Karol will sail with us.", speaker="Melanie"),
        Segment(id="b", text="Where to, Mel? The philharmonic?", speaker="Philip Knox"),
        Segment(id="c", text="To Goa.", title="Plans", entities=("Goa", "sail")),
    ]
    facts = [Fact(id="f", subject="Karel", relation="brother of", object="Karol")]
    queries = [Query(id=f"q{n}", tenant="t", text=text) for n, text in enumerate(questions)]
    return Collection(name="talk", memories={"t": Memory(segments, facts)}, queries=queries)


def changed(of: Collection, change: NameChange, seed: int = 0) -> Sequence[str]:
    return [query.text for query in with_changed_names(of, change, seed).queries]


def test_misheard_question_differs_in_its_names_only() -> None:
    questions = collection("Where did Philip's friend Karel sail?", "What will they do?")

    named, plain = changed(questions, NameChange.MISHEARD)

    assert named.startswith("Where did ")
    assert named.endswith(" sail?")
    assert "'s friend " in named
    assert "Philip" not in named
    assert "Karel" not in named
    assert plain == "What will they do?"


def test_seed_decides_what_is_misheard() -> None:
    questions = collection(
        *(f"Where is Melanie, and where is Philip, on day {n}?" for n in range(9))
    )
    first = changed(questions, NameChange.MISHEARD, 1)

    assert changed(questions, NameChange.MISHEARD, 1) == first
    assert changed(questions, NameChange.MISHEARD, 2) != first


def test_misheard_name_is_no_name_of_the_set() -> None:
    questions = collection(*("Where is Karel?" for _ in range(200)))

    words = {word for text in changed(questions, NameChange.MISHEARD) for word in text.split()}

    assert words.isdisjoint({"Karel?", "Karol?"})


def test_short_forms_are_of_speakers_only() -> None:
    questions = collection("Where did Melanie and Philip Knox go with Karel?")

    assert changed(questions, NameChange.SHORT) == ["Where did Mel and Phil Knox go with Karel?"]


@pytest.mark.parametrize(
    ("name", "taken", "short"),
    [
        ("melanie", "", "mel"),
        ("caroline", "car", "caro"),
        ("ann", "", "ann"),
        ("anna", "ann", "anna"),
    ],
)
def test_short_form_is_a_free_beginning(name: str, taken: str, short: str) -> None:
    assert shortened(name, frozenset(taken.split())) == short


def test_changed_set_has_its_own_name_and_command() -> None:
    misheard = with_changed_names(collection("Where is Melanie?"), NameChange.MISHEARD, 3)

    assert misheard.name == "talk-misheard"
    assert misheard.given_as == ("talk", "--names", "misheard", "--seed", "3")

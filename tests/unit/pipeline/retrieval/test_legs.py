"""What the classes of the legs say of them, and the evidence that stands for a fact."""

from __future__ import annotations

import pytest

from serving.domain.breaker import DEPENDENCIES, POSTGRES
from serving.domain.items.records import fact_id, segment_id
from serving.domain.ranking.ranked_list import Candidate
from serving.pipeline.retrieval.legs import LEGS
from serving.pipeline.retrieval.legs.facts import evidence_in_order
from serving.pipeline.retrieval.legs.leg import Leg, by_name
from serving.ports.vector_index import IndexAnswer


def test_every_leg_declares_itself() -> None:
    for name, leg in LEGS.items():
        assert leg.name == name
        assert leg.projection in (None, "embedding", "graph")
        assert leg.dependency in ("", *DEPENDENCIES)


def test_leg_without_an_attribute_is_rejected() -> None:
    class Incomplete(Leg):
        name = "incomplete"
        options = frozenset[str]()
        projection = None
        dependency = POSTGRES
        ranks_by_text = True

    with pytest.raises(TypeError, match=r"Incomplete must set by_meaning \(see Leg\)"):
        by_name(Incomplete)  # type: ignore[type-abstract]


def test_words_and_meaning_are_never_shed() -> None:
    assert not {"lexical", "dense"} & {name for name, leg in LEGS.items() if leg.sheddable}


def test_only_words_find_sensitive_items() -> None:
    assert [name for name, leg in LEGS.items() if leg.finds_sensitive] == ["lexical"]


def test_fact_without_evidence_stands_for_itself() -> None:
    facts = [
        Candidate(fact_id(name), score) for name, score in (("a", 0.9), ("b", 0.8), ("c", 0.7))
    ]
    answer = IndexAnswer(facts, epoch=1, evidence={"a": ("s1", "s2"), "c": ("s2",)})

    found = evidence_in_order(facts, answer)

    assert found == [
        Candidate(segment_id("s1"), 0.9, facts=("a",)),
        Candidate(segment_id("s2"), 0.9, facts=("a", "c")),
        Candidate(fact_id("b"), 0.8),
    ]


def test_fact_whose_evidence_is_hidden_is_hidden() -> None:
    fact = Candidate(fact_id("a"), 0.9)

    assert evidence_in_order([fact], IndexAnswer([fact], epoch=1, evidence={"a": ()})) == []

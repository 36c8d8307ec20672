"""What the classes of the legs say of them."""

from __future__ import annotations

from serving.pipeline.retrieval.legs import LEGS


def test_every_leg_declares_itself() -> None:
    for name, leg in LEGS.items():
        assert leg.name == name
        assert isinstance(leg.options, frozenset)
        assert leg.projection in (None, "embedding", "graph")
        assert leg.dependency in ("", "words", "index", "graph")


def test_words_and_meaning_are_never_shed() -> None:
    assert not {"lexical", "dense"} & {name for name, leg in LEGS.items() if leg.sheddable}


def test_only_words_find_sensitive_items() -> None:
    assert [name for name, leg in LEGS.items() if leg.finds_sensitive] == ["lexical"]

"""What a client reads of an answer is all that it takes to work its scores out again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.domain.diversity import jaccard, words_of
from serving.domain.fusion import fuse
from serving.domain.ledger import FusionMethod
from serving.domain.priors import Decay, Importance, ImportanceStyle
from serving.domain.profile import Diversity, LegSpec, Profile, Rerank, SignalSpec
from serving.domain.records import Item, ItemId, segment_id
from serving.pipeline.absence import Absence, Loss
from serving.pipeline.asking import LegState
from serving.pipeline.leg_absence import LegAbsence, Miss
from serving.pipeline.ordering import Hit, Ordering
from serving.rpc import answers
from tests.builders import NOON, days, ranked, scope, segment
from trivium import DiversityTerm, responses
from trivium import Hit as ReadHit
from trivium import Ledger as ReadLedger
from trivium.tuning import Absence as ReadAbsence

SAID = {
    "a": "we fly to Goa in early March",
    "b": "we fly to Goa in late March",
    "c": "the cat of our neighbour is ill",
    "d": "the cat of our aunt is ill",
    "e": "rain on all days in March",
    "f": "bread and salt",
}

LOGITS = {name: 2.5 - place for place, name in enumerate("fbdace")}

names = st.lists(st.sampled_from("abcdef"), unique=True, max_size=6)
profiles = st.builds(
    Profile,
    name=st.just("random"),
    legs=st.builds(
        lambda weight, reserved: (
            LegSpec(name="lexical", weight=weight),
            LegSpec(name="dense", least_score=-1.0, reserved=reserved),
        ),
        st.floats(0.05, 3),
        st.integers(0, 2),
    ),
    fusion=st.sampled_from(FusionMethod),
    rank_constant=st.floats(1, 100),
    limit=st.integers(1, 6),
    fold_from=st.none() | st.just(0.5),
    importance=st.builds(Importance, style=st.sampled_from(ImportanceStyle)),
    decay=st.none() | st.builds(Decay, half_life=st.sampled_from([days(7), days(30)])),
    rerank=st.none() | st.builds(Rerank, head=st.integers(1, 6), weight=st.floats(0, 1)),
    diversity=st.none() | st.builds(Diversity, trade_off=st.floats(0, 1), relative=st.booleans()),
)


def ordered(
    profile: Profile, lexical: Sequence[str], dense: Sequence[str], rows: Mapping[ItemId, Item]
) -> Sequence[Hit]:
    fused = fuse(
        [ranked("lexical", " ".join(lexical)), ranked("dense", " ".join(dense))],
        weights=profile.weights,
        method=profile.fusion,
        rank_constant=profile.rank_constant,
        least_scores=profile.least_scores,
    )
    ordering = Ordering(profile, scope(), fused, thorough=True)
    ordering.take(ordering.next_to_load(), rows)
    if profile.rerank is not None:
        ordering.take_logits(
            {hit.item.item: len(hit.item.item.id) - 2.5 for hit in ordering.head()}
        )
    return ordering.hits()


def read(absence: Absence) -> ReadAbsence:
    """What a client makes of it, by way of the wire."""
    message = answers.from_absence(absence)
    return responses.to_absence(type(message).FromString(message.SerializeToString()))


def read_hit(hit: Hit) -> tuple[ReadHit, ReadLedger]:
    found = read(Absence(loss=Loss.NONE, reason="", rank=1, hit=hit)).hit
    assert found is not None
    assert found.ledger is not None
    return found, found.ledger


@given(
    profile=profiles,
    lexical=names,
    dense=names,
    importances=st.lists(st.floats(0, 1), min_size=6, max_size=6),
    ages=st.lists(st.floats(0, 400), min_size=6, max_size=6),
)
def test_a_client_works_every_score_out_again_from_what_it_reads_of_a_hit(
    profile: Profile,
    lexical: list[str],
    dense: list[str],
    importances: list[float],
    ages: list[float],
) -> None:
    rows: dict[ItemId, Item] = {
        segment_id(name): segment(name, text, importance=importance, event_time=NOON - days(age))
        for (name, text), importance, age in zip(SAID.items(), importances, ages, strict=True)
    }

    hits = ordered(profile, lexical, dense, rows)

    for hit in hits:
        found, ledger = read_hit(hit)
        assert found.score == hit.score
        assert ledger.recompute() == pytest.approx(hit.score, rel=1e-9, abs=1e-9)
        assert ledger.reserved_by == hit.ledger.reserved_by
        assert set(ledger.reserved_by.split()) <= {"dense"}
        if ledger.importance is not None:
            assert ledger.importance.importance == rows[hit.item.item].importance  # type: ignore[union-attr]
        if profile.diversity is not None:
            assert ledger.diversity is not None
            assert_worked_out(found.id, ledger.diversity)


def assert_worked_out(id_: str, term: DiversityTerm) -> None:
    """Holds what diversity did of a hit to the texts, and to its formula."""
    of_closest = words_of(SAID[term.closest_id]) if term.closest_id else frozenset()
    assert term.max_similarity == pytest.approx(jaccard(words_of(SAID[id_]), of_closest))
    relevance = term.trade_off * term.relevance
    assert term.value == pytest.approx(relevance - (1 - term.trade_off) * term.max_similarity)


def test_a_reserved_place_is_read_with_its_leg() -> None:
    legs = (LegSpec(name="lexical"), LegSpec(name="dense", weight=0.1, reserved=1))
    rows: dict[ItemId, Item] = {segment_id(name): segment(name) for name in "abc"}
    profile = Profile(name="p", legs=legs, limit=2, fold_from=None)

    hits = ordered(profile, ["a", "b"], ["c"], rows)

    assert [read_hit(hit)[1].reserved_by for hit in hits] == ["", "dense"]


def test_signals_find_nothing_and_so_are_no_legs_of_a_hit() -> None:
    legs, signals = (LegSpec(name="dense"),), (SignalSpec(name="recency"),)
    profile = Profile(name="p", legs=legs, signals=signals, fold_from=None)
    lists = [ranked("dense", "a"), ranked("recency", "a")]
    ordering = Ordering(profile, scope(), fuse(lists, weights=profile.weights))
    ordering.take(ordering.next_to_load(), {segment_id("a"): segment("a")})

    found, ledger = read_hit(ordering.hits()[0])

    assert found.legs == ("dense",)
    assert [term.leg for term in ledger.leg_terms] == ["dense", "recency"]


@pytest.mark.parametrize("loss", Loss)
def test_a_loss_is_read_with_who_took_the_place_and_what_each_leg_says(loss: Loss) -> None:
    leg = LegAbsence(
        leg="dense",
        state=LegState.PARTIAL,
        rank=7,
        score=0.5,
        depth=5,
        reason="its rank 7 is below the depth 5",
        miss=Miss.BELOW,
    )
    absence = Absence(loss=loss, reason="why", by=segment_id("b"), rank=3, legs=(leg,))

    found = read(absence)

    assert found.loss.name == loss.name
    assert (found.reason, found.by_id, found.rank, found.hit) == ("why", "b", 3, None)
    [of_leg] = found.legs
    assert of_leg.state.name == "PARTIAL"
    assert (of_leg.rank, of_leg.score, of_leg.depth) == (7, 0.5, 5)
    assert of_leg.reason == leg.reason
    assert read(replace(absence, by=None, rank=None, legs=())).by_id == ""

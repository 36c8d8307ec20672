"""What goes over the wire: domain values into messages, bytes, and the client's values again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.domain.briefing import BlockForm, BriefingLimits
from serving.domain.items.records import Item, ItemId, Segment, fact_id, segment_id
from serving.domain.ranking.diversity import jaccard, words_of
from serving.domain.ranking.fusion import fuse
from serving.domain.ranking.ledger import FusionMethod, Ledger, LegTerm
from serving.domain.ranking.priors import Decay, Importance, ImportanceStyle
from serving.domain.ranking.profile import Diversity, LegSpec, Profile, Rerank
from serving.domain.ranking.ranked_list import RankStyle
from serving.pipeline.retrieval.explain_absence import Absence
from serving.pipeline.retrieval.explain_leg_absence import LegAbsence
from serving.pipeline.retrieval.leg_runner import LegState
from serving.pipeline.retrieval.name_correction import NameCorrection
from serving.pipeline.retrieval.order.hit import Hit, Stage
from serving.pipeline.retrieval.order.loss import Loss
from serving.pipeline.retrieval.order.ordering import Ordering
from serving.pipeline.retrieval.steps import Retrieval, Timings
from serving.rpc.answers import from_absence, from_comparison, from_retrieval
from serving.rpc.items import from_reference
from serving.rpc.questions import Coercion, RetrieveCall
from tests.support.builders import NOON, days, fact, ids, query, ranked, segment
from trivium import Absence as AbsenceRead
from trivium import DiversityTerm, ItemKind, ItemRef
from trivium import Hit as RetrievedHit
from trivium import Retrieval as RetrievalRead
from trivium.v1 import retrieval_service_pb2
from trivium.wire import responses

Drawn = TypeVar("Drawn")
DENSE = Profile(name="any", legs=(LegSpec(name="dense"),))
NOTHING_FOUND = Retrieval(
    profile="any",
    time_zone=UTC,
    hits=(),
    reports=(),
    rerank=None,
    timings=Timings(total_s=0, embedding_s=0, loading_s=0, reranking_s=0, ranking_s=0),
    candidates=0,
    folded=0,
    vanished=0,
    index_epoch=1,
)


def call_of(profile: Profile) -> RetrieveCall:
    return RetrieveCall(
        query=query("?"),
        profile=profile,
        time_budget_s=1,
        explain=True,
        briefing=None,
        coercions=(Coercion("limit", "200", "100"),),
    )


def read(
    profile: Profile, hits: Sequence[Hit], briefing: BriefingLimits | None = None, **found: Any
) -> RetrievalRead:
    """The answer as the client has it."""
    call = replace(call_of(profile), briefing=briefing)
    retrieval = replace(NOTHING_FOUND, hits=tuple(hits), **found)
    sent = from_retrieval(call, retrieval).SerializeToString()
    return responses.to_retrieval(retrieval_service_pb2.RetrieveResponse.FromString(sent))


def read_hit(item: Item, **fields: Any) -> RetrievedHit:
    """A hit as the client has it."""
    (hit,) = read(DENSE, [Hit(**{"item": item, "ledger": A_LEDGER, **fields})]).hits
    return hit


def read_absence(absence: Absence) -> AbsenceRead:
    """The explanation as the client has it."""
    sent = from_absence(absence).SerializeToString()
    return responses.to_absence(retrieval_service_pb2.ExplainAbsenceResponse.FromString(sent))


# ---------------------------------------------------------------- the ledger

profiles = st.builds(
    Profile,
    name=st.just("any"),
    legs=st.tuples(
        st.builds(
            LegSpec, name=st.just("lexical"), weight=st.floats(0.1, 9), reserved=st.integers(0, 2)
        ),
        st.builds(
            LegSpec,
            name=st.just("dense"),
            weight=st.floats(0, 9),
            least_score=st.sampled_from([0.0, -1.0]),
        ),
    ),
    limit=st.integers(1, 6),
    fusion=st.sampled_from(FusionMethod),
    rank_constant=st.floats(0.5, 200),
    rank_style=st.sampled_from(RankStyle),
    importance=st.builds(Importance, style=st.sampled_from(ImportanceStyle)),
    decay=st.none() | st.just(Decay()) | st.just(Decay(floor=0.5, facts_are_fresh=True)),
    rerank=st.none() | st.builds(Rerank, head=st.integers(1, 4), weight=st.floats(0, 1)),
    fold_repeats=st.booleans(),
    diversity=st.none()
    | st.builds(
        Diversity, trade_off=st.floats(0, 1), pool=st.integers(1, 9), relative=st.booleans()
    ),
)
NAMES = "abcdef"
names = st.lists(st.sampled_from(NAMES), unique=True, max_size=len(NAMES))


def one_each(values: st.SearchStrategy[Drawn]) -> st.SearchStrategy[list[Drawn]]:
    """A value for each name."""
    return st.lists(values, min_size=len(NAMES), max_size=len(NAMES))


words = st.sampled_from(["we", "saw", "boats", "and", "gulls", "at", "noon"])
texts = one_each(st.lists(words, min_size=1, max_size=5).map(" ".join))


@given(
    profile=profiles,
    lexical=names,
    dense=names,
    texts=texts,
    importances=one_each(st.floats(0, 1)),
    ages=one_each(st.floats(0, 400)),
    logits=one_each(st.floats(-9, 9)),
)
def test_hit_on_the_wire_recomputes_its_score(
    profile: Profile,
    lexical: list[str],
    dense: list[str],
    texts: list[str],
    importances: list[float],
    ages: list[float],
    logits: list[float],
) -> None:
    rows: dict[ItemId, Item] = {
        segment_id(name): segment(name, text, importance=importance, event_time=NOON - days(age))
        for name, text, importance, age in zip(NAMES, texts, importances, ages, strict=True)
    }
    ordering = ordered(profile, {"lexical": lexical, "dense": dense}, rows, logits)

    hits = ordering.hits()
    answer = read(profile, hits)

    assert len(answer.hits) == len(hits) <= profile.limit
    whole_order = ordering.uncut()
    said = {hit.item.id: hit.item.text for hit in whole_order if isinstance(hit.item, Segment)}
    best = max((hit.score for hit in whole_order if hit.ledger.diversity), default=0)
    for sent, hit in zip(hits, answer.hits, strict=True):
        ledger = hit.ledger
        assert ledger is not None
        assert hit.score == sent.score
        assert ledger.recompute() == pytest.approx(hit.score, rel=1e-9, abs=1e-9)
        assert ledger.reserved_by == sent.ledger.reserved_by
        assert ledger.fused_score == sent.ledger.fused_score
        assert sum(term.term for term in ledger.leg_terms) == pytest.approx(ledger.fused_score)
        assert [term.leg for term in ledger.leg_terms] == [t.leg for t in sent.ledger.leg_terms]
        if ledger.importance is not None:
            assert ledger.importance.importance == importances[NAMES.index(hit.id)]
        if ledger.decay is not None:
            halvings = ledger.decay.age / ledger.decay.half_life
            assert ledger.decay.multiplier == pytest.approx(max(ledger.decay.floor, 2**-halvings))
        if ledger.diversity is not None and profile.diversity is not None:
            relative_to = best if profile.diversity.relative and best > 0 else 1
            assert ledger.diversity.relevance == pytest.approx(hit.score / relative_to)
            check_diversity(ledger.diversity, hit.text, said)


def check_diversity(term: DiversityTerm, text: str, said: Mapping[str, str]) -> None:
    """Works a term out again from the text, and that of the hit which it names."""
    closest = said[term.closest.id] if term.closest else ""
    assert term.max_similarity == jaccard(words_of(text), words_of(closest))
    assert term.value == pytest.approx(
        term.trade_off * term.relevance - (1 - term.trade_off) * term.max_similarity
    )


def ordered(
    profile: Profile,
    found: Mapping[str, Sequence[str]],
    rows: Mapping[ItemId, Item],
    logits: Sequence[float],
) -> Ordering:
    """What the legs found on its way to hits, reranked where the profile asks for it."""
    fused = fuse(
        [ranked(leg, " ".join(names)) for leg, names in found.items()],
        weights=profile.weights,
        method=profile.fusion,
        rank_constant=profile.rank_constant,
        rank_style=profile.rank_style,
        least_scores=profile.least_scores,
    )
    ordering = Ordering(profile, query("?"), fused)
    while batch := ordering.next_to_load():
        ordering.add_rows(batch, rows)
    if profile.rerank is not None:
        ordering.add_logits(
            {hit.item.item: of for hit, of in zip(ordering.head(), logits, strict=False)}
        )
    return ordering


# ---------------------------------------------------------------- an absence

TERM = LegTerm(leg="dense", rank=3, weight=0.5, leg_score=0.25, path="a way", facts=("f1",))
A_LEDGER = Ledger(rank_constant=60, leg_terms=(TERM,))
FOUND = LegAbsence(
    leg="dense", state=LegState.OK, rank=3, score=0.25, depth=20, reason="", loss=Loss.NONE
)
LOST = Absence(
    loss=Loss.DISPLACED,
    reason="the item is at rank 3",
    by=segment_id("other"),
    rank=3,
    hit=Hit(item=segment("a"), ledger=A_LEDGER, stage=Stage.COARSE),
    legs=(
        FOUND,
        replace(
            FOUND,
            leg="graph",
            state=LegState.TIMED_OUT,
            rank=None,
            score=None,
            depth=9,
            reason="late",
            loss=Loss.UNANSWERED,
        ),
    ),
)


def test_all_that_was_changed_is_returned() -> None:
    corrected = (NameCorrection("Melony", "Melanie"),)

    changed = read(DENSE, [], name_corrections=corrected, unknown_seeds=("nobody",)).coercions

    assert [(each.field, each.given, each.used) for each in changed] == [
        ("limit", "200", "100"),
        ("query", "Melony", "Melanie"),
        ("seed_ids", "nobody", ""),
    ]


def compared(left: str, right: str) -> retrieval_service_pb2.CompareResponse:
    """The comparison of two answers with these segments."""
    call = call_of(DENSE)
    first, second = (
        replace(NOTHING_FOUND, hits=tuple(Hit(item=segment(each), ledger=A_LEDGER) for each in of))
        for of in (left, right)
    )
    return from_comparison((call, first), (call, second))


def test_item_has_its_rank_in_both_rankings() -> None:
    changes = compared("ab", "ca").rank_changes

    assert list(changes) == [
        retrieval_service_pb2.RankChange(item=from_reference(item), rank=rank, against_rank=against)
        for item, rank, against in zip(ids("a", "b", "c"), [1, 2, None], [2, None, 1], strict=True)
    ]


def test_overlap_is_the_shared_part_of_all_items() -> None:
    assert compared("ab", "bc").overlap == 1 / 3
    assert compared("ab", "ba").overlap == 1.0
    assert compared("", "").overlap == 1.0


def test_an_absence_crosses_the_wire_whole() -> None:
    found = read_absence(LOST)

    assert (found.loss.name, found.reason, found.rank) == ("DISPLACED", "the item is at rank 3", 3)
    assert found.by == ItemRef(ItemKind.SEGMENT, "other")
    assert found.hit is not None
    assert (found.hit.id, found.hit.rank, found.hit.score) == ("a", 3, 0.5 / 63)
    assert found.hit.ledger is not None
    (term,) = found.hit.ledger.leg_terms
    assert (term.path, term.fact_ids, term.leg_score) == ("a way", ("f1",), 0.25)
    assert [
        (each.leg, each.state.name, each.rank, each.score, each.depth, each.reason)
        for each in found.legs
    ] == [("dense", "OK", 3, 0.25, 20, ""), ("graph", "TIMED_OUT", None, None, 9, "late")]


@pytest.mark.parametrize("loss", Loss)
def test_every_loss_has_a_name_that_the_client_knows(loss: Loss) -> None:
    assert read_absence(Absence(loss=loss, reason="")).loss.name == loss.name


def test_item_without_rank_or_rival_is_reported_so() -> None:
    found = read_absence(Absence(loss=Loss.NOT_MATCHED, reason="no leg finds it"))
    folded = read_absence(Absence(loss=Loss.FOLDED, reason="", by=fact_id("f2")))

    assert (found.by, found.rank, found.hit, found.legs) == (None, None, None, ())
    assert folded.by == ItemRef(ItemKind.FACT, "f2")


def test_a_hit_that_is_a_fact_is_read_as_one() -> None:
    hit = read_hit(fact("f1", "Nora", "owns", "a boat"))

    assert (hit.id, hit.text, hit.legs) == ("f1", "Nora owns a boat", ("dense",))


def test_marks_of_a_hit_cross_the_wire() -> None:
    reserved = replace(A_LEDGER, reserved_by="dense")

    hit = read_hit(segment("a"), ledger=reserved, outdated_by=segment_id("b"))

    assert hit.ledger is not None
    assert hit.ledger.reserved_by == "dense"
    assert hit.outdated_by == ItemRef(ItemKind.SEGMENT, "b")


@pytest.mark.parametrize(
    ("form", "days_shown", "line"),
    [
        (BlockForm.DATED, True, '- Sun 1 March 2026, Mia said: "We sailed to Goa."'),
        (BlockForm.DATED, False, '- Mia said: "We sailed to Goa."'),
        (BlockForm.PLAIN, True, '- Mia said: "We sailed to Goa."'),
    ],
)
def test_block_has_the_form_of_the_profile(form: BlockForm, days_shown: bool, line: str) -> None:
    hit = Hit(item=segment("s1", speaker="Mia"), ledger=A_LEDGER)

    answer = read(replace(DENSE, block=form), [hit], BriefingLimits(days=days_shown))

    assert line in answer.briefing.split("\n")

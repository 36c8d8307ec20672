from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.domain.items.period import Period
from serving.domain.items.records import Item, segment_id
from serving.domain.ranking.fusion import Fused, fuse
from serving.domain.ranking.ledger import (
    DecayTerm,
    FusionMethod,
    ImportanceTerm,
    Ledger,
    LegTerm,
    RerankTerm,
    normalised,
    sigmoid,
    worth,
)
from serving.domain.ranking.priors import (
    Decay,
    Importance,
    ImportanceStyle,
    decay_term,
    importance_term,
)
from serving.domain.ranking.ranked_list import (
    Candidate,
    RankedList,
    RankStyle,
    best_first,
    depth_to_read,
    within_depth,
)
from serving.domain.ranking.signals import SIGNALS, Known, Named, Traits, ranked_by
from tests.support.builders import NOON, days, fact, ranked, segment

LEGS = ("lexical", "dense", "facts", "graph")


def names(fused: list[Fused]) -> list[str]:
    return [one.item.id for one in fused]


@st.composite
def ranked_lists(draw: st.DrawFn) -> list[RankedList]:
    ids = st.lists(st.sampled_from("abcdefghij"), unique=True).map(" ".join)
    return [ranked(leg, draw(ids)) for leg in LEGS]


weights = st.fixed_dictionaries({leg: st.floats(0, 1000) for leg in LEGS})


def fused(*lists: RankedList, **weights: float) -> list[Fused]:
    """The lists fused with these weights, or of the weight 1."""
    return fuse(lists, weights=weights or {each.leg: 1 for each in lists}, rank_constant=60)


def test_score_sums_weight_over_k_plus_rank() -> None:
    found = fused(ranked("dense", "a b"), ranked("lexical", "c b"), dense=2.0, lexical=1.0)

    assert names(found) == ["b", "a", "c"]
    assert found[0].score == pytest.approx(2 / 62 + 1 / 62, abs=1e-12)


@given(lists=ranked_lists(), weights=weights, data=st.data())
def test_order_of_the_legs_does_not_matter(
    lists: list[RankedList], weights: dict[str, float], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(lists))

    plain = [(one.item, one.score) for one in fuse(lists, weights=weights, rank_constant=60)]
    other = [(one.item, one.score) for one in fuse(shuffled, weights=weights, rank_constant=60)]
    assert plain == other


def test_a_leg_of_weight_zero_adds_nothing() -> None:
    assert names(fused(ranked("dense", "a"), ranked("graph", "b"), dense=1, graph=0)) == ["a"]


def test_equal_scores_are_ordered_by_id() -> None:
    assert names(fused(ranked("dense", "b"), ranked("lexical", "a"))) == ["a", "b"]


def test_leg_with_equal_scores_changes_no_order() -> None:
    mentions = scored("graph", **dict.fromkeys("abcdefghij", 0.3))

    found = fused(ranked("lexical", "j i"), mentions)

    assert names(found)[:2] == ["j", "i"]
    assert len({one.score for one in found[2:]}) == 1


def scored(leg: str, **scores: float) -> RankedList:
    return RankedList(leg, tuple(Candidate(segment_id(id_), of) for id_, of in scores.items()))


def test_convex_combination_scales_from_theoretical_minimum_to_best() -> None:
    found = fuse(
        [scored("dense", a=0.8, b=0.2), scored("lexical", b=12.0, c=3.0)],
        weights={"dense": 0.6, "lexical": 0.4},
        method=FusionMethod.CONVEX,
        least_scores={"dense": -1.0},
        rank_constant=60,
    )

    assert {one.item.id: one.score for one in found} == pytest.approx(
        {"a": 0.6, "b": 0.6 * 1.2 / 1.8 + 0.4, "c": 0.4 * 3 / 12}
    )
    assert names(found) == ["b", "a", "c"]


def test_by_score_a_single_leg_keeps_its_own() -> None:
    own = scored("dense", a=0.8, b=-0.2)

    found = fuse([own], weights={"dense": 1}, method=FusionMethod.SCORE, rank_constant=60)

    assert [(one.item.id, one.score) for one in found] == [("a", 0.8), ("b", -0.2)]


@given(lists=ranked_lists(), weights=weights, method=st.sampled_from(FusionMethod))
def test_ledger_adds_up_to_every_fused_score(
    lists: list[RankedList], weights: dict[str, float], method: FusionMethod
) -> None:
    for one in fuse(
        lists, weights=weights, method=method, least_scores={"dense": -1.0}, rank_constant=60
    ):
        ledger = Ledger(rank_constant=60, method=method, leg_terms=one.terms)
        assert math.isclose(ledger.score, one.score, rel_tol=1e-12, abs_tol=1e-9)


def test_a_rank_constant_of_zero_is_rejected() -> None:
    with pytest.raises(ValueError, match="rank_constant"):
        fuse([], weights={}, rank_constant=0)


@pytest.mark.parametrize(
    ("scores", "why"),
    [([("a", 0.2), ("a", 0.1)], "twice"), ([("a", 0.1), ("b", 0.2)], "descending")],
)
def test_list_in_disorder_is_rejected(scores: list[tuple[str, float]], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        RankedList("dense", tuple(Candidate(segment_id(id_), score) for id_, score in scores))


# ---------------------------------------------------------------- ranked lists


SCORES = st.lists(st.integers(0, 4).map(float), max_size=40)
DEPTHS = st.integers(1, 20)


def candidates(scores: list[float], names: list[int] | None = None) -> list[Candidate]:
    """Best first; the names decide the order of equal scores."""
    return best_first(
        Candidate(segment_id(f"{name:03}"), score, path=str(place))
        for place, (score, name) in enumerate(zip(scores, names or range(len(scores)), strict=True))
    )


def cut(read: list[Candidate], depth: int) -> set[str]:
    """What a leg gives when its store returns only as many as are to be read."""
    read = read[: depth_to_read(depth, RankStyle.MEAN)]
    return {each.path for each in within_depth(read, depth, RankStyle.MEAN)}


@given(SCORES, DEPTHS, st.data())
def test_items_within_depth_do_not_depend_on_ids(
    scores: list[float], depth: int, data: st.DataObject
) -> None:
    names = data.draw(st.permutations(range(len(scores))))

    assert cut(candidates(scores), depth) == cut(candidates(scores, names), depth)


@given(SCORES, DEPTHS)
def test_reading_more_than_that_changes_nothing(scores: list[float], depth: int) -> None:
    everything = candidates(scores)

    kept = {each.path for each in within_depth(everything, depth, RankStyle.MEAN)}
    assert cut(everything, depth) == kept


@given(SCORES)
def test_mean_ranks_share_the_ordinal_terms(scores: list[float]) -> None:
    ranked = RankedList("lexical", tuple(candidates(scores)))
    shared = ranked.ranks(RankStyle.MEAN)

    assert sum(shared) == sum(ranked.ranks(RankStyle.ORDINAL))
    by_score = dict(zip([each.score for each in ranked.candidates], shared, strict=True))
    assert shared == [by_score[each.score] for each in ranked.candidates]


def test_ranking_style_decides_the_ranks_of_ties() -> None:
    ranked = RankedList("lexical", tuple(candidates([9.0, 5.0, 5.0, 1.0])))

    assert ranked.ranks(RankStyle.ORDINAL) == [1, 2, 3, 4]
    assert ranked.ranks(RankStyle.DENSE) == [1, 2, 2, 3]
    assert ranked.ranks(RankStyle.MEAN) == [1, 2.5, 2.5, 4]
    assert len(within_depth(ranked.candidates, 2, RankStyle.MEAN)) == 1
    assert len(within_depth(ranked.candidates, 2, RankStyle.ORDINAL)) == 2


# ---------------------------------------------------------------- signals


def ranks(signal: str, *known: Known) -> dict[str, float]:
    found = ranked_by(signal, known)
    names = [each.item.id for each in found.candidates]
    return dict(zip(names, found.ranks(RankStyle.MEAN), strict=True))


NOTHING = Named()


def known(item: Item, named: Named = NOTHING, shown: int = 0) -> Known:
    return Known(Traits.of(item), named, shown)


def test_the_latest_segment_is_the_most_recent() -> None:
    since = fact("since", "Mel", "lives in", "Rome", valid_from=NOON - days(1))
    items: list[Item] = [segment("old", event_time=NOON - days(3)), segment("new"), since]

    assert ranks("recency", *map(known, items)) == {"new": 1, "since": 2, "old": 3}


def test_items_shown_equally_often_share_a_rank() -> None:
    shown = [known(segment(name), shown=times) for name, times in (("a", 1), ("b", 7), ("c", 1))]

    assert ranks("access", *shown) == {"b": 1, "a": 2.5, "c": 2.5}


def test_every_signal_ranks_all_candidates() -> None:
    named = Named(frozenset("abc"), (Period(NOON - days(9), NOON + days(9)),))

    for signal in SIGNALS:
        assert len(ranks(signal, *(known(segment(id_, speaker=id_), named) for id_ in "abc"))) == 3


def test_only_speakers_that_the_question_names_are_ranked() -> None:
    named = Named.of("What did Maria's sister tell JÓN?")
    speakers = {"a": "Maria Lopez", "b": "Jón", "c": "Otto", "d": ""}
    said = [segment(id_, speaker=speaker) for id_, speaker in speakers.items()]
    items: list[Item] = [*said, fact("f", "Maria", "likes", "tea")]

    assert ranks("speaker", *(known(item, named) for item in items)) == {"a": 1.5, "b": 1.5}


def test_only_items_near_a_named_time_are_ranked() -> None:
    named = Named(periods=(Period(NOON, NOON + days(1)), Period(NOON + days(60), NOON + days(90))))
    since = {"within": 0.5, "after": 4, "before": -3, "late": 4.1, "early": -3.1, "second": 92}
    said = [segment(id_, event_time=NOON + days(at)) for id_, at in since.items()]
    items: list[Item] = [*said, fact("true", "Mel", "lives in", "Rome", valid_from=NOON)]

    near = dict.fromkeys(("within", "after", "before", "second", "true"), 3)
    assert ranks("time", *(known(item, named) for item in items)) == near


# ---------------------------------------------------------------- priors


@pytest.mark.parametrize(
    ("age_days", "kind", "floor", "factor"),
    [
        (0, "turn", 0, 1.0),
        (30, "turn", 0, 0.5),
        (60, "turn", 0, 0.25),
        (3, "turn", 0, 0.933),
        (-9, "turn", 0, 1.0),
        (3650, "turn", 0, 0.0),
        (3650, "turn", 0.8, 0.8),
        (3650, "person", 0, 0.3),
        (3650, "person", 0.8, 0.3),
        (3650, "place", 0, 0.3),
        (3650, "relationship", 0, 0.3),
    ],
)
def test_score_halves_every_thirty_days_to_a_floor(
    age_days: float, kind: str, floor: float, factor: float
) -> None:
    term = decay_term(Decay(floor=floor), kind=kind, since=NOON - days(age_days), as_of=NOON)

    assert term.multiplier == pytest.approx(factor, abs=5e-4)


BOOST = Importance(style=ImportanceStyle.BOOST, boost_from=0.8)


@pytest.mark.parametrize(
    ("prior", "importance", "term"),
    [
        (Importance(), 0.9, None),
        (Importance(style=ImportanceStyle.MULTIPLY), 0.5, ImportanceTerm(0.5, multiplier=0.85)),
        (BOOST, 0.79, ImportanceTerm(0.79, boost=0)),
        (BOOST, 0.8, ImportanceTerm(0.8, boost=1 / 61 - 1 / 71)),
    ],
)
def test_importance_counts_as_the_prior_says(
    prior: Importance, importance: float, term: ImportanceTerm | None
) -> None:
    assert importance_term(prior, importance, 60) == term


def test_every_term_of_the_ledger_counts() -> None:
    leg = LegTerm(leg="dense", rank=1, weight=2.0, leg_score=0.7)
    ledger = Ledger(
        rank_constant=60,
        leg_terms=(leg,),
        importance=ImportanceTerm(0.9, multiplier=0.97, boost=0.01),
        decay=DecayTerm(3 * 86400, 30 * 86400, 0.0, 0.933),
    )

    assert math.isclose(ledger.score, 2 / 61 * 0.97 * 0.933 + 0.01, abs_tol=1e-9)


# ---------------------------------------------------------------- the ledger


def term(**fields: float) -> LegTerm:
    return LegTerm(**{"leg": "dense", "rank": 3, "weight": 2.0, "leg_score": 0.5, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (FusionMethod.RECIPROCAL_RANK, 2 / 63),
        (FusionMethod.CONVEX, 2 * (0.5 + 1) / (0.9 + 1)),
        (FusionMethod.SCORE, 1.0),
    ],
)
def test_fusion_method_computes_its_own_term(method: FusionMethod, expected: float) -> None:
    assert worth(term(least=-1.0, most=0.9), method, 60) == pytest.approx(expected, abs=1e-12)


def test_a_scale_of_one_point_counts_in_full() -> None:
    assert normalised(0.3, 0.3, 0.3) == 1.0


def test_reranking_mixes_the_coarse_score_with_a_probability() -> None:
    ledger = Ledger(
        rank_constant=60,
        leg_terms=(term(rank=1, weight=1.0),),
        importance=ImportanceTerm(0.5, multiplier=0.85),
        rerank=RerankTerm(logit=1.2, weight=0.7, scale=0.02),
    )

    assert ledger.coarse_score == pytest.approx(0.85 / 61)
    assert ledger.score == pytest.approx(0.3 * (0.85 / 61) / 0.02 + 0.7 / (1 + math.exp(-1.2)))


@given(st.floats(-1e4, 1e4))
def test_probability_is_bounded_and_grows_with_its_logit(logit: float) -> None:
    assert 0 <= sigmoid(logit) <= sigmoid(logit + 1) <= 1
    assert math.isclose(sigmoid(logit) + sigmoid(-logit), 1, abs_tol=1e-12)

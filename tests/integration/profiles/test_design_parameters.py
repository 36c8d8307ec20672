"""How long the lists of each published design are, and every other number that it gives.

Each is asserted on answers of a service whose memory has more than enough of everything. Ranks
by meaning and logits are chosen, as in `test_reference_designs.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.fixtures.shared_service import (
    Remember,
    SharedService,
    ago,
    explained,
    link,
    note,
    without,
)
from tests.support.answers import by_id, counts, ids, ledger, ranks
from trivium import AsyncClient, Fact, FusionMethod, Item, LegOverride, Retrieval, Segment, Stage

pytestmark = [pytest.mark.postgres, pytest.mark.neo4j, pytest.mark.timeout(240)]

FULL = 120
QUESTION = "Zelda's harbour report"


def berth(number: int) -> Segment:
    """A report that has the question's words, mentions its name, and stands for an object."""
    return note(
        f"b{number:03}",
        f"harbour report of berth {number}",
        number / 100,
        entities=("Zelda",),
        entity=f"berth {number}",
    )


def relation(number: int, subject: str, name: str) -> Fact:
    object_ = f"berth {number}"
    return link(f"{name} {number}", subject, name, object_, recorded_at=ago(9))


# More than any design asks for: of words, of meaning, of what a name leads to, and of calls.
HARBOUR: list[Item] = [
    *(berth(number) for number in range(FULL)),
    *(relation(number, "Zelda", "inspects") for number in range(60)),
    *(relation(number, "berth 0", "calls") for number in range(60, FULL)),
]
HARBOUR_COSINES = {f"of berth {number}": 0.9 - number / 200 for number in range(FULL)}
# So improbable that what is reranked scores less than what is not.
HARBOUR_LOGITS = {f"of berth {number}": -9.0 for number in range(FULL)}


@pytest.fixture(scope="module")
async def harbour(shared_service: SharedService) -> AsyncClient:
    return await shared_service.remember("harbour", HARBOUR, HARBOUR_COSINES, HARBOUR_LOGITS)


async def asked(
    memory: AsyncClient, profile: str, *, limit: int = 0, changes: Mapping[str, Any] | None = None
) -> Retrieval:
    return await explained(memory, profile, QUESTION, limit=limit, profile_overrides=changes or {})


# The document of hybrid_recall has no floor, which the profile needs for what it drops.
WITHOUT_FLOOR = {"legs": {"graph": {"floor": 0}}}


# ------------------------------------------------------------------ how long the lists are


@pytest.mark.parametrize(
    ("profile", "changes", "lengths", "hits"),
    [
        ("annie", {}, {"lexical": 20, "dense": 10, "graph": 5}, 5),
        ("hybrid_recall", WITHOUT_FLOOR, {"lexical": 50, "dense": 50, "graph": 50}, 10),
        ("hybrid_recall_reachable", WITHOUT_FLOOR, {"lexical": 50, "dense": 50, "graph": 50}, 10),
        ("two_stage", {}, {"dense": 100}, 10),
        ("two_stage_baseline", {}, {"dense": 100}, 10),
        ("object_graph", {}, {"dense": 25, "graph": 20, "temporal": 12}, 10),
    ],
)
async def test_legs_and_answer_have_the_documented_sizes(
    harbour: AsyncClient,
    profile: str,
    changes: Mapping[str, Any],
    lengths: dict[str, int],
    hits: int,
) -> None:
    answer = await asked(harbour, profile, changes=changes)

    assert counts(answer) == lengths
    assert len(answer.hits) == hits


async def test_lists_of_annie_are_multiples_of_the_limit(harbour: AsyncClient) -> None:
    answer = await asked(harbour, "annie", limit=12)

    assert counts(answer) == {"lexical": 48, "dense": 24, "graph": 12}


async def test_recollection_pools_200_recent_and_50_by_words(remembering: Remember) -> None:
    recent = [note(f"r{n:03}", f"routine note {n}", n / 100) for n in range(260)]
    barometers = [note(f"o{n:03}", f"barometer {n}", 400 + n) for n in range(60)]
    memory = await remembering([*recent, *barometers], {})

    answer = await explained(memory, "recollection", "barometer")

    assert counts(answer) == {"lexical": 50, "dense": 250}
    assert len(answer.hits) == 3


async def test_object_graph_walks_five_relations_in_order(remembering: Remember) -> None:
    relations = ["calls", "imports", "defined_in", "depends_on", "authored_by"]
    objects = [
        note(name, f"the object {name}", 30, entity=name) for name in ["hub", "admires", *relations]
    ]
    # Facts are stored the last relation first, so that their order is of no help.
    facts = [
        link(f"f-{name}", "hub", name, name, recorded_at=ago(9))
        for name in ["admires", *reversed(relations)]
    ]
    memory = await remembering([*objects, *facts], {})

    answer = await explained(
        memory, "object_graph", "?!", seed_ids=["hub"], leg_overrides=without("dense")
    )

    assert ids(answer) == relations
    assert [ranks(hit) for hit in answer.hits] == [{"graph": n} for n in range(1, 6)]


async def test_object_graph_takes_the_latest_of_seven_days(remembering: Remember) -> None:
    said = [note(f"{age:g} days", f"object number {age:g}", age) for age in (6.9, 7.1)]
    memory = await remembering(said, {})

    answer = await explained(memory, "object_graph", "?!")

    assert {hit.id for hit in answer.hits if "temporal" in ranks(hit)} == {"6.9 days"}


# ------------------------------------------------------------------ what words must be worth


async def found_by_words(memory: AsyncClient, question: str) -> set[str]:
    answer = await explained(memory, "hybrid_recall", question, limit=3)
    return {hit.id for hit in answer.hits if "lexical" in ranks(hit)}


def words_besides(number: int) -> list[str]:
    """Words that no text has, without digits: a code counts as several words."""
    pairs = [f"{first}{second}" for first in "bcdfgh" for second in "klmnprstvwxz"]
    return [f"{pair}oo" for pair in pairs[:number]]


# A row with k of n words has a rank of k * 0.608 / n, since a word of the text weighs 1, and one of
# the keywords four tenths.
IN_TEXT = [note("one word", "the barometer fell"), note("two words", "the barometer, the sextant")]
IN_KEYWORDS = [note("keywords", "we sailed at dawn", keywords=("barometer", "sextant"))]


@pytest.mark.parametrize(
    ("said", "most", "found", "found_with_one_more"),
    [
        (IN_TEXT, 60, {"one word", "two words"}, {"two words"}),
        (IN_KEYWORDS, 48, {"keywords"}, set()),
    ],
    ids=["text", "keywords"],
)
async def test_hybrid_recall_drops_words_below_a_hundredth(
    remembering: Remember,
    said: list[Item],
    most: int,
    found: set[str],
    found_with_one_more: set[str],
) -> None:
    memory = await remembering(said, {})

    question = " ".join(["barometer", "sextant", *words_besides(most - 2)])
    assert await found_by_words(memory, question) == found
    assert await found_by_words(memory, f"{question} mast") == found_with_one_more


# ------------------------------------------------------------------ how scores are put together


async def test_convex_combination_maps_cosines_from_minus_one(harbour: AsyncClient) -> None:
    convex = {"fusion": "convex", "signals": {"recency": None, "access": None}, "rerank": None}

    answer = await asked(harbour, "hybrid_recall", changes=convex, limit=20)

    terms = [
        (term.rank, term.term / term.weight)
        for hit in answer.hits
        for term in ledger(hit).leg_terms
        if term.leg == "dense" and term.rank > 1
    ]
    assert terms
    for rank, share in terms:
        cosine = 0.9 - (rank - 1) / 200
        assert share == pytest.approx((cosine + 1) / (0.9 + 1), abs=1e-3)


async def test_reachable_graph_weighs_ranks_like_other_legs(harbour: AsyncClient) -> None:
    answer = await asked(harbour, "hybrid_recall_reachable")

    terms = [term for hit in answer.hits for term in ledger(hit).leg_terms]
    assert {term.leg for term in terms} == {"lexical", "dense", "graph"}
    for term in terms:
        assert term.term == pytest.approx(1 / (60 + term.rank), abs=1e-12)


# ------------------------------------------------------------------ what is reranked


async def test_two_stage_reranks_fifty_before_coarse_order(harbour: AsyncClient) -> None:
    answer = await asked(harbour, "two_stage", limit=60)

    assert answer.rerank is not None
    assert (answer.rerank.stage, answer.rerank.hit_count) == (Stage.RERANKED, 50)
    assert [hit.stage for hit in answer.hits] == [Stage.RERANKED] * 50 + [Stage.COARSE] * 10
    assert ids(answer) == [f"b{number:03}" for number in range(60)]
    # Behind what was reranked, though its score is higher.
    assert answer.hits[50].score > answer.hits[0].score
    assert {ledger(hit).method for hit in answer.hits} == {FusionMethod.SCORE}


# ------------------------------------------------------------------ who made room for whom


# The nineteen nearest are alike, the two after them are like nothing; the rest is alike again.
NOVEL = {20: "barometers fell overnight", 21: "somebody painted lighthouses"}
ALIKE: list[Item] = [
    note(f"place {place}", NOVEL.get(place, f"we saw boat number n{place}x"), 0)
    for place in range(1, 26)
]
ALIKE_COSINES = {NOVEL.get(place, f"n{place}x"): 0.9 - place / 100 for place in range(1, 26)}


async def test_annie_diversifies_the_first_twenty(remembering: Remember) -> None:
    memory = await remembering(ALIKE, ALIKE_COSINES)
    as_far_as_needed = {"dense": LegOverride(depth=25), **without("lexical")}

    answer = await explained(memory, "annie", "anything", leg_overrides=as_far_as_needed)

    assert ids(answer)[:2] == ["place 1", "place 20"]
    assert "place 21" not in ids(answer)
    last = ledger(by_id(answer)["place 20"]).diversity
    assert last is not None
    assert (last.trade_off, last.max_similarity, last.closest) == (0.7, 0.0, None)
    assert last.relevance == by_id(answer)["place 20"].score

from __future__ import annotations

from serving.domain.leg_options import Expansion
from serving.domain.profile import LegSpec, Profile
from serving.domain.records import TenantName
from serving.pipeline.asking import LegState
from serving.pipeline.legs import Leg, RelatedLeg
from serving.pipeline.retrieve import Retrieval
from serving.ports import GraphChanges, GraphSegment
from tests.builders import TENANT, query, segment
from tests.fake_graph import InMemoryGraph
from tests.fakes import BrokenLeg, FixedConsistency, FixedLeg
from tests.unit.pipeline.retrieving import hit_ids, retriever, soon, states, store_of

SEGMENTS = (
    segment("film", "A piano is left on a beach.", entities=("The Piano", "Jane Campion")),
    segment("other-film", "A teacher plants a bomb.", entities=("Heaven", "Tom Tykwer")),
    segment("life", "She was born in Wellington.", entities=("Jane Campion",)),
    segment("other-life", "He comes from Wuppertal.", entities=("Tom Tykwer",)),
)


async def graph_of_all() -> InMemoryGraph:
    graph = InMemoryGraph()
    segments = [GraphSegment(tenant=TenantName(TENANT), segment=each) for each in SEGMENTS]
    await graph.apply(GraphChanges(segments=segments))
    return graph


async def ask(
    *,
    lexical: str,
    dense: str | None,
    seeds: int = 5,
    found_by: tuple[str, ...] = ("lexical", "dense"),
) -> Retrieval:
    """Asks two legs that find what they are told, or break, and the one that leads on."""
    consistency = FixedConsistency()
    legs: dict[str, Leg] = {
        "lexical": FixedLeg(lexical),
        "dense": BrokenLeg(RuntimeError("a bug")) if dense is None else FixedLeg(dense),
        "related": RelatedLeg(await graph_of_all(), consistency),
    }
    expansion = Expansion(found_by=found_by, seeds=seeds)
    profile = Profile(
        name="two steps",
        legs=(
            LegSpec(name="lexical"),
            LegSpec(name="dense"),
            LegSpec(name="related", expansion=expansion),
        ),
    )
    store = await store_of(*SEGMENTS)
    answering = retriever(store, legs, consistency=consistency)
    return await answering.retrieve(query("Where was the director born?"), profile, soon())


async def test_what_no_other_leg_finds_comes_by_what_it_shares_with_their_finds() -> None:
    answer = await ask(lexical="film", dense="film")

    assert hit_ids(answer) == ["film", "life"]
    [term] = answer.hits[1].ledger.leg_terms
    assert (term.leg, term.rank, term.path) == ("related", 1, "Jane Campion")


async def test_it_begins_with_what_the_others_agree_on() -> None:
    answer = await ask(lexical="other-film film", dense="film", seeds=1)

    assert "life" in hit_ids(answer)
    assert "other-life" not in hit_ids(answer)


async def test_where_the_others_find_nothing_it_finds_nothing() -> None:
    answer = await ask(lexical="", dense="")

    assert states(answer)["related"] is LegState.OK
    assert answer.hits == ()


async def test_without_one_of_the_others_it_goes_on_and_says_so() -> None:
    answer = await ask(lexical="film", dense=None)

    assert hit_ids(answer) == ["film", "life"]
    assert answer.reports[2].state is LegState.PARTIAL
    assert answer.reports[2].reason == "without what others find; dense: internal error"


async def test_without_all_of_the_others_it_is_skipped_and_says_why() -> None:
    answer = await ask(lexical="film", dense=None, found_by=("dense",))

    assert states(answer)["related"] is LegState.SKIPPED
    assert answer.reports[2].reason == "nothing to begin with; dense: internal error"

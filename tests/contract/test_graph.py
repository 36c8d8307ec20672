"""What every graph does: the fake, Neo4j, and what is in memory in its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from serving.domain.budget import Deadline
from serving.domain.items.records import (
    Fact,
    Item,
    ItemId,
    Segment,
    TenantName,
    fact_id,
    segment_id,
)
from serving.domain.items.validity import Closing
from serving.domain.questions.query import Exclusion, Filter, TimeRange
from serving.domain.ranking.leg_options import Walk, WalkDirection, WalkOrder
from serving.domain.ranking.profile import Yields
from serving.domain.ranking.ranked_list import Candidate, RankedList
from serving.ports.graph import Graph, GraphChanges
from tests.contract.test_vector_index import KNOWN_TIMES, LATER
from tests.fakes.graph import InMemoryGraph
from tests.fakes.resident_feed import ViewedGraph
from tests.support.builders import (
    NOON,
    OTHER,
    TENANT,
    days,
    fact,
    ids,
    mentioning,
    query,
    scope,
    segment,
)


@pytest.fixture(params=["memory", "view", pytest.param("neo4j", marks=pytest.mark.neo4j)])
def graph(request: pytest.FixtureRequest) -> Graph:
    if request.param == "neo4j":
        neo4j: Graph = request.getfixturevalue("neo4j_graph")
        return neo4j
    return InMemoryGraph() if request.param == "memory" else ViewedGraph()


async def put(graph: Graph, *items: Item, tenant: TenantName = TENANT) -> None:
    """Applies the items as one change."""
    await graph.apply(
        GraphChanges(
            segments=[(tenant, item) for item in items if isinstance(item, Segment)],
            facts=[(tenant, item) for item in items if isinstance(item, Fact)],
        )
    )


async def remove(graph: Graph, *items: ItemId, tenant: TenantName = TENANT) -> None:
    await graph.apply(GraphChanges(removed=[(tenant, item) for item in items]))


async def ask(
    graph: Graph,
    question: str,
    *,
    walk: Walk = Walk(),
    seeds: Sequence[ItemId] | None = None,
    depth: int = 20,
    yields: Yields = Yields.EVIDENCE,
    **of_scope: object,
) -> list[Candidate]:
    asked = query(question, scope=scope(**of_scope))  # type: ignore[arg-type]
    return await graph.search(asked, walk, seeds, depth, yields, Deadline.after(30))


async def ask_facts(graph: Graph, question: str, **how: object) -> list[Candidate]:
    return await ask(graph, question, yields=Yields.FACTS, **how)  # type: ignore[arg-type]


async def walk_from(graph: Graph, *seeds: str, **how: object) -> list[Candidate]:
    """What the question names must not matter where segments are given."""
    return await ask(graph, "Mara", seeds=ids(*seeds), **how)  # type: ignore[arg-type]


def named(found: Sequence[Candidate]) -> list[str]:
    return [candidate.item.id for candidate in found]


MARA_IN_LISBON = (
    segment("work", entities=("Mara", "Lotus Books")),
    segment("city", entities=("Lotus Books", "Lisbon")),
    fact("f1", "Mara", "works at", "Lotus Books", evidence=("work",)),
    fact("f2", "Lotus Books", "is in", "Lisbon", evidence=("city",)),
)


@pytest.mark.parametrize("field", ["expires_at", "evidence_expires_at"])
async def test_walk_goes_over_no_expired_fact(graph: Graph, field: str) -> None:
    last = NOON + days(2)
    work, city, works_at, is_in = MARA_IN_LISBON
    expiring: dict[str, Any] = {field: last}
    await put(graph, work, city, replace(works_at, **expiring), is_in)

    async def walked(after: float) -> set[str]:
        """The facts that are found, and those over which segments are."""
        as_of = NOON + days(after)
        facts = named(await ask_facts(graph, "Where is Mara?", as_of=as_of))
        segments = await ask(graph, "Where is Mara?", as_of=as_of)
        return {*facts, *(id_ for each in segments for id_ in each.facts)}

    assert await walked(1.9) == {"f1", "f2"}
    assert "f1" not in await walked(2)


# ---------------------------------------------------------------- mentions


async def test_mentions_and_turns_of_a_named_person_are_found(graph: Graph) -> None:
    await put(
        graph, segment("a", entities=("Mara",)), segment("b", entities=("Goa",), speaker="Tom")
    )

    for name, id_ in (("Mara", "a"), ("Goa", "b"), ("Tom", "b")):
        assert await ask(graph, f"Where is {name}?") == [Candidate(ids(id_)[0], 1.0, name)]


async def test_segment_of_the_entity_precedes_its_mentions(graph: Graph) -> None:
    mentions = mentioning(m1="parser.py", m2="parser.py")
    await put(graph, *mentions, segment("card", entity="parser.py"))

    assert named(await ask(graph, "what does parser.py do")) == ["card", "m1", "m2"]


NAMES = [
    ("Lotus Books", "who works at LOTUS BOOKS?"),
    ("Mary-Ann", "where is mary ann's boat"),
    ("Mary Ann", "Where’s Mary-Ann?"),
    ("AT&T (Inc.)", "is at&t inc. hiring"),
    ('+-&&||!(){}[]^"~*?:\\/ x', '+-&&||!(){}[]^"~*?:\\/ x'),
    ("'; MATCH (n) DETACH DELETE n //", "what is '; MATCH (n) DETACH DELETE n // doing"),
    ("🦄", "🦄"),
    ("Zoë 🦄", "when did Zoë 🦄 come"),
    ("مريم", "أين مريم"),
    ("שרה כהן", "איפה שרה כהן"),
    ("東京", "東京"),
    ("Straße 7", "what is on STRASSE 7"),
    ("nobody" * 60, "nobody" * 60),
]


async def test_a_name_is_found_however_it_is_written(graph: Graph) -> None:
    for name, question in NAMES:
        tenant = TenantName(f"tenant of {name[:20]}")
        items = (segment("a", entities=(name,)), segment("b", entities=("Goa",)))
        await put(graph, *items, tenant=tenant)

        assert named(await ask(graph, question, tenant=tenant)) in (["a"], ["a", "b"]), name
        assert await graph.count_entities(tenant) == 2


async def test_a_question_that_names_nobody_finds_nothing(graph: Graph) -> None:
    await put(graph, segment("a", entities=("Mara", "the")), segment("b", speaker="Tom"))

    for question in ("", "   ", "what is on the", "?!", "Who is Nadia?", "🐙", "OR"):
        assert await ask(graph, question) == [], question
        assert await ask_facts(graph, question) == [], question


async def test_segment_naming_several_entities_comes_first(graph: Graph) -> None:
    await put(graph, *mentioning(a="Mara", b="Goa", both="Goa, Mara"))

    assert named(await ask(graph, "Did Mara like Goa?")) == ["both", "a", "b"]


async def test_a_rare_name_counts_for_more_than_a_common_one(graph: Graph) -> None:
    common = [segment(f"common {n}", entities=("Tom",)) for n in range(9)]
    await put(graph, *common, segment("rare", entities=("Nadia",)))

    assert named(await ask(graph, "Tom and Nadia"))[0] == "rare"


async def test_longer_name_outweighs_a_name_within_it(graph: Graph) -> None:
    await put(graph, *mentioning(lotus="Lotus", books="Books", shop="Lotus Books"))

    found = await ask(graph, "opening hours of Lotus Books")

    assert named(found) == ["shop", "books", "lotus"]
    assert found[0].score >= 4 * found[1].score


async def test_the_depth_bounds_the_answer_and_the_order_is_total(graph: Graph) -> None:
    await put(graph, *(segment(f"s{n:02}", entities=("Mara",)) for n in range(30)))

    found = await ask(graph, "Mara", depth=7)

    assert named(found) == [f"s{n:02}" for n in range(7)]
    RankedList("graph", tuple(found))


async def test_depth_is_filled_for_a_frequent_entity(graph: Graph) -> None:
    await put(graph, *(segment(f"s{n:03}", entities=("Mara",)) for n in range(300)))

    assert len(await ask(graph, "Mara", depth=250)) == 250


# ---------------------------------------------------------------- facts


@pytest.mark.parametrize(
    ("question", "path"),
    [
        ("What does Mara do?", "Mara -[works at]-> Lotus Books"),
        ("Who is at Lotus Books?", "Lotus Books <-[works at]- Mara"),
    ],
)
async def test_evidence_is_found_from_both_ends_with_path(
    graph: Graph, question: str, path: str
) -> None:
    await put(graph, segment("a"), fact("f", "Mara", "works at", "Lotus Books", evidence=("a",)))

    [found] = await ask(graph, question)

    assert (found.item.id, found.path, found.facts) == ("a", path, ("f",))


async def test_evidence_is_found_within_two_hops_alone(graph: Graph) -> None:
    land = fact("f3", "Lisbon", "is in", "Portugal", evidence=("land",))
    await put(graph, *MARA_IN_LISBON, segment("land"), land)

    found = {c.item.id: c for c in await ask(graph, "In which city is Mara?")}

    assert found["city"].path == "Mara -[works at]-> Lotus Books -[is in]-> Lisbon"
    assert found["city"].facts == ("f2",)
    assert "land" not in found


async def test_evidence_two_hops_away_outranks_hundreds_of_mentions(graph: Graph) -> None:
    mentions = [segment(f"m{n:03}", entities=("Mara",)) for n in range(300)]
    await put(graph, *mentions, *MARA_IN_LISBON)

    assert set(named(await ask(graph, "In which city is Mara?"))[:2]) == {"work", "city"}


async def test_evidence_on_several_paths_comes_first(graph: Graph) -> None:
    await put(
        graph,
        segment("once"),
        segment("twice"),
        fact("f1", "Mara", "likes", "Goa", evidence=("twice",)),
        fact("f2", "Mara", "visited", "Goa", evidence=("twice",)),
        fact("f3", "Mara", "likes", "Tom", evidence=("once",)),
    )

    found = await ask(graph, "Mara")

    assert named(found) == ["twice", "once"]
    assert set(found[0].facts) == {"f1", "f2"}


async def test_a_fact_held_more_strongly_counts_for_more(graph: Graph) -> None:
    await put(
        graph,
        segment("sure"),
        segment("a guess"),
        fact("f1", "Mara", "likes", "Goa", evidence=("a guess",), weight=0.2),
        fact("f2", "Mara", "likes", "Tom", evidence=("sure",), weight=0.9),
    )

    assert named(await ask(graph, "Mara")) == ["sure", "a guess"]


async def test_fact_leads_to_the_segment_of_its_object(graph: Graph) -> None:
    await put(
        graph,
        segment("card", entity="lex"),
        segment("far", entity="scan"),
        fact("f1", "parse", "calls", "lex"),
        fact("f2", "lex", "calls", "scan"),
    )

    found = await ask(graph, "what does parse call")

    assert named(found) == ["card", "far"]
    assert found[1].path == "parse -[calls]-> lex -[calls]-> scan"
    assert found[0].facts == ()


async def test_mentions_of_a_reached_entity_follow_its_evidence(graph: Graph) -> None:
    await put(
        graph,
        segment("evidence"),
        segment("mention", entities=("Lotus Books",)),
        fact("f", "Mara", "works at", "Lotus Books", evidence=("evidence",)),
    )

    found = await ask(graph, "Mara")

    assert named(found) == ["evidence", "mention"]
    assert found[1].facts == ()


async def test_facts_are_found_with_the_path_to_them(graph: Graph) -> None:
    await put(graph, *(item for item in MARA_IN_LISBON if isinstance(item, Fact)))

    found = await ask_facts(graph, "Mara")

    assert await ask(graph, "Mara") == []

    assert [candidate.item for candidate in found] == [fact_id("f1"), fact_id("f2")]
    assert found[1].path == "Mara -[works at]-> Lotus Books -[is in]-> Lisbon"
    assert found[0].score > found[1].score


async def test_a_fact_about_itself_is_kept_and_never_walked(graph: Graph) -> None:
    await put(graph, segment("a"), fact("f", "Mara", "knows", "mara", evidence=("a",)))

    assert await graph.count(TENANT, [fact_id("f")]) == 1
    assert await ask(graph, "Mara") == []
    assert await ask_facts(graph, "Mara") == []


async def test_facts_in_a_circle_are_walked_once_around(graph: Graph) -> None:
    names = ["Ann", "Ben", "Cy"]
    await put(
        graph,
        *(segment(name) for name in names),
        *(
            fact(f"f{n}", name, "knows", names[(n + 1) % 3], evidence=(name,))
            for n, name in enumerate(names)
        ),
    )

    found = await ask(graph, "Whom does Ann know?")

    assert sorted(named(found)) == names
    assert sorted(named(await ask_facts(graph, "Ann"))) == ["f0", "f1", "f2"]


async def test_a_walk_never_goes_back_to_where_it_was(graph: Graph) -> None:
    await put(graph, fact("f1", "Ann", "knows", "Ben"), fact("f2", "Ben", "likes", "Ann"))

    found = await ask_facts(graph, "Whom does Ann know?")

    assert [c.path for c in found] == ["Ann -[knows]-> Ben", "Ann <-[likes]- Ben"]
    assert [c.score for c in found] == pytest.approx([0.5**0.5, 0.5**0.5])


# ---------------------------------------------------------------- time


VALIDITIES: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"valid_from": NOON}, True),
    ({"valid_from": NOON + days(0.001)}, False),
    ({"valid_to": NOON}, False),
    ({"valid_to": NOON + days(0.001)}, True),
    ({"valid_from": NOON - days(9), "valid_to": NOON - days(1)}, False),
    ({"retracted_at": NOON}, False),
    ({"retracted_at": NOON + days(0.001)}, False),
    ({"recorded_at": NOON + days(9)}, True),
    ({"closings": (Closing("x", NOON, NOON),)}, False),
    ({"closings": (Closing("x", NOON + days(0.001), NOON),)}, True),
    ({"closings": (Closing("x", NOON, NOON, NOON),)}, True),
    ({"closings": (Closing("x", NOON, NOON, NOON + days(9)),)}, True),
    ({"closings": (Closing("x", NOON, NOON),), "valid_to": NOON + days(9)}, False),
]


async def test_a_fact_is_walked_while_it_holds(graph: Graph) -> None:
    for number, (times, walked) in enumerate(VALIDITIES):
        tenant = TenantName(f"tenant {number}")
        await put(
            graph,
            segment("near", event_time=NOON - days(99)),
            segment("far", event_time=NOON - days(99)),
            fact("f", "Mara", "works at", "Lotus Books", evidence=("near",), **times),
            fact("g", "Lotus Books", "is in", "Lisbon", evidence=("far",)),
            fact("h", "Tom", "knows", "Lisbon"),
            tenant=tenant,
        )
        at: dict[str, Any] = {"as_of": NOON, "tenant": tenant}

        assert named(await ask(graph, "Mara", **at)) == (["near", "far"] if walked else []), times
        assert named(await ask_facts(graph, "Mara", **at)) == (["f", "g"] if walked else []), times
        assert ("near" in named(await ask(graph, "Lisbon", **at))) is walked, times


async def test_fact_is_walked_only_while_known(graph: Graph) -> None:
    for number, (times, walked) in enumerate(KNOWN_TIMES):
        tenant = TenantName(f"tenant {number}")
        await put(
            graph,
            segment("near", created_at=NOON),
            fact("f", "Mara", "works at", "Lotus Books", evidence=("near",), **times),
            tenant=tenant,
        )
        for walk in (Walk(), Walk(hops=1), Walk(order=WalkOrder.DISTANCE)):
            asked: dict[str, Any] = {"as_of": LATER + days(5), "known_at": LATER, "walk": walk}
            asked["tenant"] = tenant

            assert named(await ask(graph, "Mara", **asked)) == (["near"] if walked else []), times
            assert named(await ask_facts(graph, "Mara", **asked)) == (["f"] if walked else [])


async def test_segment_recorded_after_known_at_is_hidden(graph: Graph) -> None:
    await put(
        graph,
        segment("then", entities=("Mara",), created_at=NOON),
        segment("later", entities=("Mara",), created_at=NOON + days(0.001)),
        segment("later evidence", created_at=NOON + days(1)),
        fact("f", "Mara", "likes", "Goa", evidence=("later evidence", "then")),
    )
    theirs = Filter(kinds=("turn",))

    assert named(await ask(graph, "Mara", known_at=NOON)) == ["then"]
    assert named(await ask_facts(graph, "Mara", known_at=NOON, filter_=theirs)) == ["f"]
    assert len(await ask(graph, "Mara", known_at=NOON + days(1))) == 3


async def test_segment_after_as_of_is_hidden(graph: Graph) -> None:
    await put(
        graph,
        segment("then", entities=("Mara",), event_time=NOON),
        segment("later", entities=("Mara",), event_time=NOON + days(0.001)),
        segment("later evidence", event_time=NOON + days(1)),
        segment("later card", entity="Mara", event_time=NOON + days(1)),
        fact("f", "Mara", "likes", "Goa", evidence=("later evidence",)),
    )

    assert named(await ask(graph, "Mara", as_of=NOON)) == ["then"]
    assert len(await ask(graph, "Mara", as_of=NOON + days(1))) == 4


# ---------------------------------------------------------------- filters


FILTERS = [
    Filter(kinds=("note",)),
    Filter(kinds=("note", "turn")),
    Filter(labels={"project": ("x", "y")}),
    Filter(labels={"project": ("x",), "lang": ("de",)}),
    Filter(speakers=("TOM",)),
    Filter(sessions=("s1", "s3")),
    Filter(entities=("lotus books",)),
    Filter(min_importance=0.6),
    Filter(event_time=TimeRange(NOON - days(3), NOON - days(1))),
    Filter(event_time=TimeRange(start=NOON - days(2))),
    Filter(created_at=TimeRange(end=NOON - days(2))),
    Filter(updated_at=TimeRange(start=NOON - days(2))),
    Filter(kinds=("note",), speakers=("tom",), min_importance=0.3),
    Filter(kinds=("never",)),
    Filter(none_of=Exclusion(kinds=("note",))),
    Filter(none_of=Exclusion(speakers=("TOM",), sessions=("s1",))),
    Filter(kinds=("note", "turn"), none_of=Exclusion(sessions=("s3",))),
    Filter(any_of=(Filter(kinds=("note",), sessions=("s1",)), Filter(min_importance=0.8))),
    Filter(none_of=Exclusion(filters=(Filter(kinds=("note",), speakers=("tom",)),))),
    Filter(labels={"lang": True, "project": TimeRange()}),
]


def varied_segments() -> list[Segment]:
    """Segments about Mara in which every filter accepts some and rejects some."""
    choices = product(("note", "turn"), ("Tom", "Mara", ""), ("s1", "s2", "s3"), ("x", "z"))
    return [
        segment(
            f"s{n:02}",
            kind=kind,
            speaker=speaker,
            session=session,
            labels={"project": project, "lang": "de" if n % 2 else "en"},
            entities=("Mara", "Lotus Books") if n % 3 else ("Mara",),
            importance=n % 10 / 10,
            event_time=NOON - days(n % 5),
            created_at=None if n % 7 == 0 else NOON - days(n % 4),
            updated_at=None if n % 7 == 1 else NOON - days(n % 6),
        )
        for n, (kind, speaker, session, project) in enumerate(choices)
    ]


async def test_filter_holds_for_evidence_and_reached_segments(graph: Graph) -> None:
    cited = [segment(f"cited {each.id}", **fields_of(each)) for each in varied_segments()]
    cards = [
        segment(f"card {each.id}", **fields_of(each), entity="Lotus Books")
        for each in varied_segments()
    ]
    evidence = tuple(each.id for each in cited)
    await put(graph, *cited, *cards, fact("f", "Nadia", "owns", "Lotus Books", evidence=evidence))

    for filter_ in FILTERS:
        found = await ask(graph, "Nadia", depth=200, filter_=filter_)

        accepted = [each.id for each in (*cards, *cited) if filter_.accepts(each)]
        assert sorted(named(found)) == sorted(accepted), filter_


def fields_of(of: Segment) -> dict[str, Any]:
    names = ("kind", "session", "labels", "importance", "event_time", "created_at", "updated_at")
    # Without the names, so that nothing but the fact leads there.
    return {name: getattr(of, name) for name in names} | {"speaker": of.speaker}


async def test_fact_passes_with_evidence_and_overlapping_time(graph: Graph) -> None:
    reference = InMemoryGraph()
    segments = varied_segments()
    facts = [
        fact(
            f"f{n:02}",
            "Nadia",
            "likes",
            f"thing {n}",
            evidence=(segments[n].id, segments[n // 2].id) if n % 4 else (),
            valid_from=None if n % 3 == 0 else NOON - days(n % 4),
            valid_to=None if n % 5 else NOON + days(2),
        )
        for n in range(len(segments))
    ]
    for each in (graph, reference):
        await put(each, *segments, *facts)

    for filter_ in FILTERS:
        found, expected = [
            await ask_facts(each, "Nadia", depth=100, filter_=filter_)
            for each in (graph, reference)
        ]
        assert sorted(named(found)) == sorted(named(expected)), filter_


async def test_a_filter_fills_the_depth_from_whatever_passes(graph: Graph) -> None:
    await put(
        graph,
        *(segment(f"turn {n:03}", entities=("Mara",)) for n in range(400)),
        *(segment(f"note {n:03}", entities=("Mara",), kind="note") for n in range(30)),
        *(segment(f"more {n:03}", entities=("Mara",)) for n in range(400)),
    )

    found = await ask(graph, "Mara", filter_=Filter(kinds=("note",)))

    assert named(found) == [f"note {n:03}" for n in range(20)]


# ---------------------------------------------------------------- what is followed

PROGRAM: tuple[Item, ...] = (
    *(segment(name, kind="symbol", entity=name) for name in ("main", "parse", "lex", "scan")),
    segment("file", kind="file", entity="parser.py"),
    fact("1", "main", "calls", "parse", evidence=("main",)),
    fact("2", "parse", "Calls", "lex", evidence=("parse",)),
    fact("3", "lex", "calls", "scan", evidence=("lex",)),
    fact("4", "parse", "defined_in", "parser.py", evidence=("parse",)),
    fact("5", "lex", "defined_in", "parser.py", evidence=("lex",)),
)
"""main calls parse calls lex calls scan; parse and lex are in one file."""

NEAREST = Walk(order=WalkOrder.DISTANCE)
CALLS = Walk(relations=("CALLS",))


async def test_relations_are_followed_in_the_given_direction(graph: Graph) -> None:
    await put(graph, *PROGRAM)
    reached = {
        WalkDirection.FORWARD: ["lex", "scan"],
        WalkDirection.BACKWARD: ["main"],
        WalkDirection.BOTH: ["lex", "main", "scan"],
    }

    for order, (direction, found) in product(WalkOrder, reached.items()):
        walk = Walk(order=order, direction=direction, relations=("calls",))
        assert sorted(named(await walk_from(graph, "parse", walk=walk))) == found, walk


async def test_only_given_relations_are_followed_in_any_case(graph: Graph) -> None:
    await put(graph, *PROGRAM)

    found = await ask(graph, "main", walk=CALLS)

    assert named(found) == ["main", "parse", "lex"]
    assert found[2].path == "main -[calls]-> parse -[Calls]-> lex"
    assert named(await ask_facts(graph, "main", walk=CALLS)) == ["1", "2"]
    assert named(await ask(graph, "main", walk=Walk(relations=("imports",)))) == ["main"]


async def test_restricted_relations_change_no_score(graph: Graph) -> None:
    await put(graph, *MARA_IN_LISBON)

    usual = await ask(graph, "Mara")

    assert await ask(graph, "Mara", walk=Walk(relations=("works at", "is in"))) == usual
    assert await ask(graph, "Mara", walk=Walk(seeds_from=("dense",))) == usual


# ---------------------------------------------------------------- where it starts


async def test_walk_from_segments_starts_at_their_entities(graph: Graph) -> None:
    await put(graph, *PROGRAM, segment("Mara", entities=("Mara",)))

    found = await walk_from(graph, "main")

    assert named(found) == ["parse", "file", "lex"]
    assert found[2].path == "main -[calls]-> parse -[Calls]-> lex"
    assert named(await ask_facts(graph, "Mara", seeds=ids("main"))) == ["1", "2", "4"]


async def test_a_segment_that_stands_for_nothing_is_no_seed(graph: Graph) -> None:
    await put(graph, *PROGRAM, segment("turn", entities=("main",)))

    for walk in (Walk(), NEAREST):
        assert await walk_from(graph, "turn", "never", walk=walk) == []
        assert await ask(graph, "main", seeds=[fact_id("main")], walk=walk) == []
        assert await ask(graph, "main", seeds=[], walk=walk) == []
        assert "parse" in named(await walk_from(graph, "turn", "main", walk=walk))


@pytest.mark.parametrize("walk", [Walk(), NEAREST], ids=["activation", "distance"])
async def test_a_seed_is_found_only_from_another(graph: Graph, walk: Walk) -> None:
    await put(
        graph,
        segment("a", entity="A", entities=("A", "B", "C")),
        segment("b", entity="B"),
        segment("c", entity="C"),
        fact("1", "A", "calls", "B", evidence=("a",)),
        fact("2", "B", "calls", "thing", evidence=("a",)),
    )

    assert "a" not in named(await walk_from(graph, "a", walk=walk))
    found = {each.item.id: each.path for each in await walk_from(graph, "a", "b", walk=walk)}
    assert found["b"] == "A -[calls]-> B"
    assert found["a"].startswith("B ")


async def test_a_seed_has_the_say_of_its_relations_and_mentions(graph: Graph) -> None:
    await put(graph, *PROGRAM, segment("turn", entities=("main",)))

    found = {each.item.id: each.score for each in await walk_from(graph, "main")}

    onward = 0.5 / 3**0.5
    assert found == pytest.approx(
        {"turn": 1.0, "parse": 1.0 + 2 * onward, "lex": onward, "file": onward}
    )


async def test_segments_that_stand_for_the_same_are_one_seed(graph: Graph) -> None:
    await put(graph, *PROGRAM, segment("main too", entity="MAIN"))

    for walk in (Walk(), NEAREST):
        twice = await walk_from(graph, "main", "main too", "main", walk=walk)
        assert twice == await walk_from(graph, "main", walk=walk) != []


MENTIONS = Walk(mentions=True)
HARMONIUM: tuple[Item, ...] = (
    segment("asked", entities=("harmonium", "Anselm")),
    segment("shared", entities=("Anselm", "chapel")),
    segment("further", entities=("York",)),
    segment("other", entities=("Nora",)),
    segment("file", entity="Nora"),
    fact("f1", "Anselm", "lives in", "York", evidence=("shared",)),
)


async def test_walk_from_mentions_reaches_segments_with_equal_ones(graph: Graph) -> None:
    await put(graph, *HARMONIUM)

    found = await ask(graph, "Who repaired it?", walk=MENTIONS, seeds=ids("asked"))

    assert named(found) == ["shared", "further"]
    assert found[0].path == "Anselm -[lives in]-> York"
    # Once shared by two segments, once by the fact of Anselm that it is evidence of, ...
    assert found[0].score == pytest.approx(1 / 2**0.5 + 1.0, abs=1e-6)
    # ... and half after a hop.
    assert found[1].score == pytest.approx(0.5, abs=1e-6)


async def test_walk_from_mentions_starts_from_names_too(graph: Graph) -> None:
    await put(graph, *HARMONIUM)

    both = await ask(graph, "Who helped Nora?", walk=MENTIONS, seeds=ids("asked"))
    names = await ask(graph, "Who helped Nora?", walk=MENTIONS, seeds=[])

    assert named(both)[:3] == ["shared", "file", "other"]
    assert names == await ask(graph, "Who helped Nora?")
    assert named(names) == ["file", "other"]


async def test_seed_with_mentions_is_found_from_another(graph: Graph) -> None:
    await put(graph, *HARMONIUM)

    alone = await ask(graph, "?", walk=MENTIONS, seeds=ids("other"))
    found = await ask(graph, "?", walk=MENTIONS, seeds=ids("asked", "shared"))

    assert named(alone) == ["file"]
    assert named(found) == ["shared", "asked", "further"]


async def test_filter_and_clock_do_not_hold_for_seeds(graph: Graph) -> None:
    await put(
        graph,
        *PROGRAM,
        segment("later", entity="late", event_time=NOON + days(3)),
        fact("6", "main", "calls", "late", evidence=("main",)),
        fact("7", "main", "calls", "scan", evidence=("main",), valid_to=NOON),
        fact("8", "late", "calls", "lex", evidence=("later",)),
    )
    files = Filter(kinds=("file",))

    for walk in (Walk(), NEAREST):
        assert named(await walk_from(graph, "main", walk=walk, filter_=files)) == ["file"]
        assert set(named(await walk_from(graph, "main", walk=walk))) == {"parse", "lex", "file"}
        assert "lex" in named(await walk_from(graph, "later", walk=walk))


# ---------------------------------------------------------------- by distance


def placed(found: Sequence[Candidate]) -> list[tuple[str, object]]:
    return [(candidate.item.id, pytest.approx(candidate.score)) for candidate in found]


@pytest.mark.parametrize(
    ("relations", "seed", "expected"),
    [
        ((), "parse", "file 1.00 lex 1.00 main 1.00 scan 0.50"),
        (("calls", "Defined_In", "calls"), "parse", "lex 1.00 main 1.00 file 0.75 scan 0.50"),
        (("defined_in", "calls"), "main", "parse 0.75 file 0.50 lex 0.43"),
    ],
    ids=["all relations", "in their order", "the last one counts"],
)
async def test_distance_then_relation_then_id_order_a_walk(
    graph: Graph, relations: tuple[str, ...], seed: str, expected: str
) -> None:
    await put(graph, *PROGRAM)

    found = await walk_from(graph, seed, walk=replace(NEAREST, relations=relations))

    assert " ".join(f"{each.item.id} {each.score:.2f}" for each in found) == expected


async def test_equal_distances_follow_the_order_of_seeds(graph: Graph) -> None:
    callers = [segment(name, entity=name) for name in ("zoe", "abe", "both")]
    await put(
        graph,
        *(segment(name, entity=name) for name in ("first", "second")),
        *callers,
        fact("1", "zoe", "calls", "first"),
        fact("2", "abe", "calls", "second"),
        fact("3", "both", "calls", "second"),
        fact("4", "both", "calls", "first"),
    )
    walk = Walk(order=WalkOrder.DISTANCE, hops=1)

    by_first = await walk_from(graph, "first", "second", walk=walk)
    by_second = await walk_from(graph, "second", "first", walk=walk)

    assert named(by_first) == ["both", "zoe", "abe"]
    assert named(by_second) == ["abe", "both", "zoe"]
    assert {each.item.id: each.path for each in by_first}["both"] == "first <-[calls]- both"
    assert {each.item.id: each.path for each in by_second}["both"] == "second <-[calls]- both"
    assert named(await walk_from(graph, "first", "second", walk=walk, depth=2)) == ["both", "zoe"]


async def test_nearest_of_several_paths_counts(graph: Graph) -> None:
    await put(graph, *PROGRAM, fact("6", "main", "calls", "lex", evidence=("main",)))
    walk = Walk(order=WalkOrder.DISTANCE, relations=("calls",))

    found = {each.item.id: each for each in await walk_from(graph, "main", "scan", walk=walk)}

    assert (found["lex"].score, found["lex"].path) == (1.0, "main -[calls]-> lex")
    assert (found["main"].score, found["main"].path) == (0.5, "scan <-[calls]- lex <-[calls]- main")
    assert placed(await walk_from(graph, "main", walk=Walk(order=WalkOrder.DISTANCE, hops=1))) == [
        ("lex", 1.0),
        ("parse", 1.0),
    ]


async def test_walk_by_distance_starts_at_names_without_mentions(graph: Graph) -> None:
    await put(graph, *PROGRAM, segment("turn", entities=("main", "parse")))

    found = await ask(graph, "what does main call?", walk=NEAREST)

    assert placed(found) == [("parse", 1.0), ("file", 0.5), ("lex", 0.5)]
    assert found[0].facts == ()


async def test_evidence_is_found_if_no_segment_is_the_entity(graph: Graph) -> None:
    await put(graph, *MARA_IN_LISBON)

    found = await ask(graph, "Mara", walk=NEAREST)

    assert placed(found) == [("work", 1.0), ("city", 0.5)]
    assert [each.facts for each in found] == [("f1",), ("f2",)]
    assert found[1].path == "Mara -[works at]-> Lotus Books -[is in]-> Lisbon"


async def test_evidence_is_hidden_if_segment_is_the_entity(graph: Graph) -> None:
    await put(graph, *MARA_IN_LISBON, segment("shop", entity="Lotus Books", kind="note"))

    assert named(await ask(graph, "Mara", walk=NEAREST)) == ["shop", "city"]
    turns = Filter(kinds=("turn",))
    assert named(await ask(graph, "Mara", walk=NEAREST, filter_=turns)) == ["city"]


async def test_facts_can_be_found_by_distance(graph: Graph) -> None:
    await put(graph, *PROGRAM)
    walk = Walk(order=WalkOrder.DISTANCE, relations=("defined_in", "calls"))

    found = await walk_from(graph, "parse", walk=walk, yields=Yields.FACTS)

    assert [each.item for each in found] == [fact_id(id_) for id_ in "41253"]
    assert [each.score for each in found] == pytest.approx([1, 0.75, 0.75, 0.5, 1 / (2 + 1 / 3)])
    assert found[4].path == "parse -[Calls]-> lex -[calls]-> scan"


async def test_facts_by_distance_pass_the_filter_as_others_do(graph: Graph) -> None:
    segments = varied_segments()
    facts = [
        fact(f"f{n:02}", "Mara", "likes", f"thing {n}", evidence=(each.id,), valid_from=NOON)
        for n, each in enumerate(segments)
    ]
    await put(graph, *segments, *facts)

    for filter_ in FILTERS:
        expected = await ask_facts(graph, "Mara", depth=100, filter_=filter_)
        for walk in (NEAREST, Walk(hops=1)):
            found = await ask_facts(graph, "Mara", depth=100, filter_=filter_, walk=walk)
            assert sorted(named(found)) == sorted(named(expected)), filter_


async def test_depth_of_walk_by_distance_is_filled(graph: Graph) -> None:
    symbols = [segment(f"s{n:03}", entity=f"s{n:03}") for n in range(300)]
    await put(
        graph,
        segment("target", entity="target"),
        *symbols,
        *(fact(each.id, each.id, "calls", "target", evidence=(each.id,)) for each in symbols),
    )

    assert len(await walk_from(graph, "target", walk=NEAREST, depth=250)) == 250
    assert len(await walk_from(graph, "target", walk=NEAREST, depth=7)) == 7


# ---------------------------------------------------------------- changes


async def test_a_repeated_change_changes_nothing(graph: Graph) -> None:
    await put(graph, *MARA_IN_LISBON)
    first = await ask(graph, "Mara in Lisbon")
    await put(graph, *MARA_IN_LISBON)

    assert await ask(graph, "Mara in Lisbon") == first
    assert await graph.count_entities(TENANT) == 3


@pytest.mark.parametrize("removed_first", [False, True])
async def test_replaced_segment_loses_names_and_attributes(
    graph: Graph, removed_first: bool
) -> None:
    old = segment("a", kind="note", entities=("Mara", "Goa"), entity="Diary", speaker="Tom")
    new = segment("a", entities=("Goa", "Nadia"), entity="Letter", speaker="Ann")
    await put(graph, old)
    if removed_first:
        await remove(graph, old.item)
    await put(graph, replace(new, event_time=NOON + days(0.5)))

    assert await ask(graph, "Goa", filter_=Filter(kinds=("note",))) == []
    assert await ask(graph, "Goa", as_of=NOON) == []
    names = ("Mara", "Tom", "Diary", "Goa", "Nadia", "Ann", "Letter")
    assert [len(await ask(graph, name)) for name in names] == [0, 0, 0, 1, 1, 1, 1]
    assert await graph.count_entities(TENANT) == 4


async def test_replaced_fact_loses_ends_evidence_and_times(graph: Graph) -> None:
    old = fact("f", "Mara", "likes", "Goa", evidence=("a",), valid_to=NOON)
    await put(graph, segment("a"), segment("b"), old)
    await put(graph, fact("f", "Goa", "hates", "Rome", evidence=("b",)))

    assert await ask(graph, "Mara") == []
    [found] = await ask(graph, "Goa")
    assert (found.item.id, found.path) == ("b", "Goa -[hates]-> Rome")
    assert await graph.count_entities(TENANT) == 2


async def test_removed_segment_goes_with_its_entities(graph: Graph) -> None:
    await put(graph, *MARA_IN_LISBON, segment("other", entities=("Mara",)))
    await remove(graph, *ids("work", "city"), fact_id("f1"), fact_id("f2"), fact_id("never"))

    assert named(await ask(graph, "Mara in Lisbon at Lotus Books")) == ["other"]
    assert await graph.count(TENANT, [*ids("work", "city"), fact_id("f1"), fact_id("f2")]) == 0
    assert await graph.count_entities(TENANT) == 1


async def test_change_can_remove_and_write(graph: Graph) -> None:
    await put(graph, segment("a", entities=("Mara",)), fact("f", "Mara", "likes", "Goa"))
    await graph.apply(
        GraphChanges(
            segments=[(TENANT, segment("b", entities=("Mara",)))],
            removed=[(TENANT, ids("a")[0]), (TENANT, fact_id("f"))],
        )
    )

    assert named(await ask(graph, "Mara")) == ["b"]
    assert await graph.count_entities(TENANT) == 1


async def test_evidence_may_be_written_after_its_fact(graph: Graph) -> None:
    await put(graph, fact("f", "Mara", "likes", "Goa", evidence=("a", "never")))

    assert await graph.count(TENANT, ids("a", "never")) == 0
    assert await ask(graph, "Mara") == []
    await put(graph, segment("a"))
    assert named(await ask(graph, "Mara")) == ["a"]


async def test_count_covers_stored_items_once(graph: Graph) -> None:
    await put(graph, segment("x"), segment("y"), fact("x", "Mara", "likes", "Goa"))

    items = [*ids("x", "x", "z"), fact_id("x"), fact_id("y")]

    assert await graph.count(TENANT, items) == 2
    assert await graph.count(TENANT, []) == 0


# ---------------------------------------------------------------- tenants


async def test_no_tenant_sees_or_changes_another(graph: Graph) -> None:
    ours = (segment("a", entities=("Mara",)), fact("f", "Mara", "likes", "Goa", evidence=("a",)))
    theirs = (
        segment("a", entities=("Mara", "Rome"), kind="note"),
        segment("b", entities=("Mara", "Nadia")),
        fact("f", "Mara", "hates", "Rome", evidence=("b",)),
        fact("g", "Olga", "hates", "Oslo"),
    )
    await put(graph, *ours)
    await put(graph, *theirs, tenant=OTHER)

    assert named(await ask(graph, "Mara")) == ["a"]
    assert [c.path for c in await ask_facts(graph, "Mara")] == ["Mara -[likes]-> Goa"]
    assert await ask(graph, "Nadia or Rome") == []
    assert await ask(graph, "Mara", filter_=Filter(kinds=("note",))) == []
    assert await graph.count(TENANT, [*ids("a", "b"), fact_id("f"), fact_id("g")]) == 2
    assert await graph.count_entities(TENANT) == 2
    assert named(await ask(graph, "Nadia", tenant=OTHER)) == ["b"]

    await remove(graph, *ids("a", "b"), fact_id("f"))
    assert await graph.count(OTHER, [*ids("a", "b"), fact_id("f")]) == 3
    assert await graph.count_entities(OTHER) == 5
    assert await ask(graph, "Mara") == []


@pytest.mark.parametrize("walk", [Walk(), CALLS, NEAREST], ids=["usual", "calls", "distance"])
async def test_no_tenant_walks_from_the_segments_of_another(graph: Graph, walk: Walk) -> None:
    ours = (segment("b", entity="B"), segment("c", entity="C"), fact("1", "B", "calls", "C"))
    theirs = (
        segment("a", entity="B"),
        segment("b", entity="X"),
        segment("d", entity="C"),
        fact("2", "B", "calls", "D", evidence=("d",)),
    )
    await put(graph, *ours)
    await put(graph, *theirs, tenant=OTHER)

    assert named(await walk_from(graph, "a", walk=walk)) == []
    assert named(await walk_from(graph, "b", walk=walk)) == ["c"]
    assert named(await walk_from(graph, "a", walk=walk, tenant=OTHER)) == ["d"]


async def test_an_unknown_tenant_has_nothing(graph: Graph) -> None:
    await graph.apply(GraphChanges())

    assert await ask(graph, "Mara", tenant="nobody") == []
    assert await graph.count(TenantName("nobody"), ids("a")) == 0
    assert await graph.count_entities(TenantName("nobody")) == 0


async def test_no_time_left_is_a_timeout(graph: Graph) -> None:
    late = Deadline.after(-1)

    with pytest.raises(TimeoutError):
        await graph.search(query("Mara"), Walk(), None, 10, Yields.EVIDENCE, late)
    with pytest.raises(TimeoutError):
        await graph.related(query("?"), [segment_id("a")], 10, late)

"""Properties of a real Neo4j: near matches, hubs, planted damage, and outages."""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

import neo4j
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from serving.adapters.neo4j import Neo4jGraph
from serving.adapters.neo4j.graph import Neo4jSettings
from serving.desk.embedded_neo4j import EmbeddedNeo4j
from serving.domain.budget import Deadline
from serving.domain.errors import DependencyError, NotReadyError
from serving.domain.items.records import Fact, ItemId, Segment, TenantName, fact_id, segment_id
from serving.domain.items.validity import Closing
from serving.domain.questions.query import NO_FILTER, Filter, TimeRange
from serving.domain.ranking.leg_options import Walk, WalkDirection, WalkOrder
from serving.domain.ranking.profile import Yields
from serving.ports.graph import GraphChanges
from tests.contract.test_graph import ask, ask_facts, named, put, remove
from tests.fakes.graph import InMemoryGraph
from tests.support.builders import NOON, TENANT, days, fact, ids, query, segment
from tests.support.examples import examples

pytestmark = pytest.mark.neo4j


# ---------------------------------------------------------------- the schema

TOO_LONG = "x" * 40_000


@pytest.fixture
async def searching(
    neo4j_uri: str, neo4j_graph: Neo4jGraph, cypher: neo4j.Driver
) -> AsyncIterator[Neo4jGraph]:
    """The graph of another process; at the end the schema is whole again."""
    await put(neo4j_graph, segment("a", entities=("Mara",)))
    graph = Neo4jGraph(Neo4jSettings(uri=neo4j_uri))
    yield graph
    cypher.execute_query("MATCH (entity:Entity {tenant: 'x'}) DELETE entity")
    await neo4j_graph.prepare()
    await graph.close()


async def test_searches_are_planned_after_indexes_exist(
    neo4j_graph: Neo4jGraph, searching: Neo4jGraph, cypher: neo4j.Driver
) -> None:
    """Another process may be creating them; searches planned meanwhile would never use them."""
    cypher.execute_query("DROP INDEX words_of_entities")

    with pytest.raises(NotReadyError, match="the indexes of the graph are being created"):
        await ask(searching, "Mara")

    await neo4j_graph.prepare()
    assert named(await ask(searching, "Mara")) == ["a"]


async def test_failed_indexes_are_created_again(
    neo4j_graph: Neo4jGraph, searching: Neo4jGraph, cypher: neo4j.Driver
) -> None:
    """As after a full disk; here a value is too long for an index."""
    cypher.execute_query("DROP INDEX entity_words")
    cypher.execute_query("CREATE (:Entity {tenant: 'x', key: 'x', words: $words})", words=TOO_LONG)

    with pytest.raises(DependencyError, match=r"Neo\."):
        await neo4j_graph.prepare()
    with pytest.raises(DependencyError, match="could not create an index"):
        await ask(searching, "Mara")

    cypher.execute_query("MATCH (entity:Entity {tenant: 'x'}) DELETE entity")
    await neo4j_graph.prepare()
    assert named(await ask(searching, "Mara")) == ["a"]


# ---------------------------------------------------------------- names


async def test_names_with_the_same_words_are_separate_entities(neo4j_graph: Neo4jGraph) -> None:
    said = [segment(name, entities=(name,)) for name in ("j.doe", "j-doe", "C#", "मीना", "मोना")]
    await put(neo4j_graph, *said)

    assert await neo4j_graph.count_entities(TENANT) == 5
    assert sorted(named(await ask(neo4j_graph, "where does J Doe live?"))) == ["j-doe", "j.doe"]
    assert named(await ask(neo4j_graph, "मीना कहाँ है?")) == ["मीना"]
    assert named(await ask(neo4j_graph, "who knows C#")) == ["C#"]


async def test_misspelt_name_is_found_without_exact_match(neo4j_graph: Neo4jGraph) -> None:
    await put(neo4j_graph, segment("a", entities=("Lisbon",)), segment("b", entities=("Goa",)))

    assert named(await ask(neo4j_graph, "our trip to Lisbn")) == ["a"]
    assert named(await ask(neo4j_graph, "our trip from Goa to Lisbn")) == ["b"]


async def test_a_name_is_found_by_most_of_its_words(neo4j_graph: Neo4jGraph) -> None:
    await put(neo4j_graph, segment("a", entities=("charity race event",)))
    await put(neo4j_graph, segment("b", entities=("city race of the new year",)))

    assert named(await ask(neo4j_graph, "the charity race")) == ["a"]


async def test_near_names_of_other_tenants_crowd_nothing_out(neo4j_graph: Neo4jGraph) -> None:
    theirs = [segment(f"s{n}", entities=(f"Lisbon {n}", "Lisbon")) for n in range(200)]
    await put(neo4j_graph, *theirs, tenant=TenantName("other"))
    await put(neo4j_graph, segment("ours", entities=("Lisbon Oriente",)))

    assert named(await ask(neo4j_graph, "Lisbn Oriente")) == ["ours"]
    assert await ask(neo4j_graph, "Lisbon", tenant="nobody") == []


async def test_path_has_every_matched_name(neo4j_graph: Neo4jGraph) -> None:
    await put(neo4j_graph, segment("a", entities=("Goa", "Mara")), segment("b", speaker="Mara"))

    [found, _] = await ask(neo4j_graph, "Did Mara like Goa?")

    assert found.path == "Goa, Mara"


async def test_a_name_of_any_length_can_be_kept(neo4j_graph: Neo4jGraph) -> None:
    # One letter that is written with eighteen when folded.
    await put(neo4j_graph, fact("f", "Mara", "said", "\ufdfa" * 340))

    assert named(await ask_facts(neo4j_graph, "Mara")) == ["f"]


# ---------------------------------------------------------------- hubs


async def test_mention_of_rare_name_and_hub_comes_first(neo4j_graph: Neo4jGraph) -> None:
    await put(
        neo4j_graph,
        segment("a", entities=("pottery",)),
        segment("both", entities=("pottery", "Mara")),
        *(segment(f"later {n:03}", speaker="Mara") for n in range(500)),
    )

    found = await ask(neo4j_graph, "When did Mara take up pottery?")

    assert named(found)[:2] == ["both", "a"]
    assert len(found) == 20


async def test_seed_gains_nothing_by_mentioning_itself(neo4j_graph: Neo4jGraph) -> None:
    await put(
        neo4j_graph,
        segment("a", entity="A", entities=("A",)),
        segment("b", entity="B"),
        fact("f", "B", "calls", "A"),
        *(segment(f"mention {n:03}", entities=("A",)) for n in range(500)),
    )

    found = await ask(neo4j_graph, "", seeds=ids("a", "b"), depth=500)

    assert {each.item.id: each.score for each in found}["a"] == 1.0


@pytest.mark.parametrize("first", ["calls", "imports"])
async def test_nearest_of_many_paths_counts(neo4j_graph: Neo4jGraph, first: str) -> None:
    near = fact("near", "A", "calls", "B")
    far = [fact(f"far {n}", "A", "imports", "B") for n in range(40)]
    await put(neo4j_graph, segment("a", entity="A"), segment("b", entity="B"))
    for facts in ([near], far) if first == "calls" else (far, [near]):
        await put(neo4j_graph, *facts)
    walk = Walk(order=WalkOrder.DISTANCE, relations=("calls", "imports"))

    [found] = await ask(neo4j_graph, "", walk=walk, seeds=ids("a"))

    assert (found.score, found.path) == (1.0, "A -[calls]-> B")


async def test_surplus_facts_still_end_in_an_answer(neo4j_graph: Neo4jGraph) -> None:
    hub = [fact(f"f{n}", "Mara", "knows", f"person {n % 9}", evidence=("a",)) for n in range(900)]
    onward = [fact(f"g{n}", f"person {n % 9}", "likes", f"thing {n}") for n in range(900)]
    await put(neo4j_graph, segment("a"), *hub, *onward)

    assert named(await ask(neo4j_graph, "Mara")) == ["a"]
    assert len(await ask_facts(neo4j_graph, "Mara", depth=1000)) <= 2000


async def test_under_a_filter_many_facts_are_looked_through(neo4j_graph: Neo4jGraph) -> None:
    others = [
        fact(f"f{n}", "Mara", "saw", f"thing {n}", evidence=(f"s{n % 5}",)) for n in range(800)
    ]
    await put(
        neo4j_graph,
        segment("note", kind="note"),
        fact("f", "Mara", "met", "Tom", evidence=("note",)),
        *(segment(f"s{n}") for n in range(5)),
        *others,
    )

    assert named(await ask(neo4j_graph, "Mara", filter_=Filter(kinds=("note",)))) == ["note"]


@pytest.mark.parametrize("order", WalkOrder)
async def test_walk_starts_from_the_first_seeds(neo4j_graph: Neo4jGraph, order: WalkOrder) -> None:
    await put(
        neo4j_graph,
        *(segment(f"plain {n}") for n in range(40)),
        *(segment(f"caller {n}", entity=f"caller {n}") for n in range(40)),
        *(segment(f"called {n}", entity=f"called {n}") for n in range(40)),
        *(fact(f"f{n}", f"caller {n}", "calls", f"called {n}") for n in range(40)),
    )
    seeds = [f"{kind} {n}" for n in reversed(range(40)) for kind in ("plain", "caller")]

    found = await ask(neo4j_graph, "", walk=Walk(order=order), seeds=ids(*seeds), depth=100)

    assert sorted(named(found)) == sorted(f"called {n}" for n in range(8, 40))


# ---------------------------------------------------------------- the reference

NAMES = st.sampled_from(["Ann", "Ben", "Ann Lee", "Lee", "Goa", "Old Goa"])
INSTANTS = st.integers(-3, 3).map(lambda count: NOON + days(count))
TIMES = st.none() | INSTANTS
SEGMENTS = st.builds(
    lambda number, **fields: segment(f"s{number}", **fields),
    st.integers(0, 5),
    entities=st.lists(NAMES, max_size=3).map(tuple),
    speaker=NAMES | st.just(""),
    entity=NAMES | st.just(""),
    kind=st.sampled_from(["turn", "note"]),
    event_time=INSTANTS,
    created_at=TIMES,
)
FACTS = st.builds(
    lambda number, *said, **fields: fact(f"f{number}", *said, **fields),
    st.integers(0, 5),
    NAMES,
    st.sampled_from(["knows", "Knows", "likes"]),
    NAMES,
    evidence=st.lists(st.integers(0, 6).map(lambda n: f"s{n}"), max_size=3, unique=True).map(tuple),
    weight=st.sampled_from([0.25, 0.5, 1.0]),
    valid_from=TIMES,
    valid_to=TIMES,
    recorded_at=INSTANTS,
    retracted_at=TIMES,
    closings=st.lists(st.builds(Closing, st.just("f9"), INSTANTS, INSTANTS, TIMES), max_size=2).map(
        tuple
    ),
)
REMOVED = st.builds(segment_id, st.integers(0, 5).map("s{}".format)) | st.builds(
    fact_id, st.integers(0, 5).map("f{}".format)
)
WALKS = st.builds(
    Walk,
    order=st.sampled_from(list(WalkOrder)),
    direction=st.sampled_from(list(WalkDirection)),
    relations=st.sampled_from([(), ("knows",), ("likes", "KNOWS")]),
    hops=st.sampled_from([1, 2]),
)
SEEDS = st.none() | st.lists(st.integers(0, 6).map("s{}".format), max_size=3)
CHANGES = st.lists(st.lists(SEGMENTS | FACTS, max_size=6) | REMOVED, min_size=1, max_size=5)


@settings(
    max_examples=examples(80),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    changes=CHANGES,
    question=st.sampled_from(["Ann", "Ben in Old Goa", "Ann Lee and Goa"]),
    filter_=st.sampled_from(
        [
            Filter(),
            Filter(kinds=("note",)),
            Filter(speakers=("ben",)),
            Filter(event_time=TimeRange(NOON - days(1), NOON + days(1))),
        ]
    ),
    yields=st.sampled_from(list(Yields)),
    walk=st.just(Walk()) | WALKS,
    seeds=SEEDS,
    known_at=TIMES,
)
async def test_graph_after_any_changes_equals_the_reference(
    neo4j_graph: Neo4jGraph,
    changes: list[list[Segment | Fact] | ItemId],
    question: str,
    filter_: Filter,
    yields: Yields,
    walk: Walk,
    seeds: list[str] | None,
    known_at: datetime | None,
) -> None:
    tenant = TenantName(uuid.uuid4().hex)
    reference = InMemoryGraph()
    for change in changes:
        for graph in (reference, neo4j_graph):
            if isinstance(change, ItemId):
                await remove(graph, change, tenant=tenant)
            else:
                last = {item.item: item for item in change}
                await put(graph, *last.values(), tenant=tenant)

    expected, found = [
        await ask(
            graph,
            question,
            walk=walk,
            seeds=None if seeds is None else ids(*seeds),
            as_of=NOON,
            known_at=known_at,
            filter_=filter_,
            yields=yields,
            tenant=tenant,
        )
        for graph in (reference, neo4j_graph)
    ]

    scores = {candidate.item: candidate.score for candidate in found}
    assert scores == pytest.approx({each.item: each.score for each in expected}, abs=1e-6)
    assert {(c.item, frozenset(c.facts)) for c in found} == {
        (c.item, frozenset(c.facts)) for c in expected
    }
    if walk.order is WalkOrder.DISTANCE:
        assert found == expected
    assert await neo4j_graph.count_entities(tenant) == await reference.count_entities(tenant)


# ---------------------------------------------------------------- what is stored


async def test_graph_stores_no_text_and_no_sentence(
    neo4j_graph: Neo4jGraph, cypher: neo4j.Driver
) -> None:
    await put(
        neo4j_graph,
        segment("a", "a secret text", title="a secret title", entities=("Mara",)),
        fact("f", "Mara", "likes", "Goa", sentence="a secret sentence"),
    )

    records, _, _ = cypher.execute_query("MATCH (node) RETURN properties(node) AS properties")
    relations, _, _ = cypher.execute_query("MATCH ()-[r]->() WHERE r <> {} RETURN properties(r)")

    assert "secret" not in repr([record["properties"] for record in records])
    assert all(record[0] == {} for record in relations)


async def test_removed_items_leave_nothing(neo4j_graph: Neo4jGraph, cypher: neo4j.Driver) -> None:
    await put(
        neo4j_graph,
        segment("a", entities=("Mara", "Goa"), speaker="Tom", entity="Diary"),
        fact("f", "Mara", "likes", "Rome", evidence=("a", "cited only")),
        fact("g", "Mara", "is", "mara", evidence=("a",)),
    )
    await remove(neo4j_graph, *ids("a"), *(fact(f, "", "", "").item for f in "fg"))

    records, _, _ = cypher.execute_query("MATCH (node) RETURN labels(node), properties(node)")

    assert records == []


async def test_a_change_that_neo4j_rejects_is_rejected_as_a_whole(neo4j_graph: Neo4jGraph) -> None:
    good = [(TENANT, segment(f"s{n}", entities=(f"e{n}",))) for n in range(1200)]
    # Lists within lists are no property.
    bad = (TENANT, fact("f", "a", "b", "c", weight=[[1]]))

    with pytest.raises(ValueError, match="Neo4j rejects the rows"):
        await neo4j_graph.apply(GraphChanges(segments=good, facts=[bad]))
    assert await neo4j_graph.count(TENANT, [each.item for _, each in good]) == 0

    await neo4j_graph.apply(GraphChanges(segments=good))
    assert await neo4j_graph.count(TENANT, [each.item for _, each in good]) == 1200


async def test_changes_at_the_same_time_all_arrive(neo4j_graph: Neo4jGraph) -> None:
    changes = [
        put(neo4j_graph, segment(f"s{n}", entities=("Mara", f"e{n}")), tenant=TENANT)
        for n in range(8)
    ]
    outcomes = await asyncio.gather(*changes, return_exceptions=True)

    arrived = sum(outcome is None for outcome in outcomes)
    assert await neo4j_graph.count(TENANT, ids(*(f"s{n}" for n in range(8)))) == arrived > 0


# ---------------------------------------------------------------- tenants, once more


async def test_fact_links_to_evidence_of_its_tenant(neo4j_graph: Neo4jGraph) -> None:
    await put(neo4j_graph, segment("a"), tenant=TenantName("other"))
    await put(neo4j_graph, fact("f", "Mara", "likes", "Goa", evidence=("a",)))

    await put(neo4j_graph, segment("a"))

    assert named(await ask(neo4j_graph, "Mara")) == ["a"]


async def test_a_link_into_another_tenant_is_never_followed(
    neo4j_graph: Neo4jGraph, cypher: neo4j.Driver
) -> None:
    """Each tenant check works on its own, whatever put the node there."""
    other = TenantName("other")
    await put(neo4j_graph, segment("ours", entities=("Mara",)), fact("f", "Mara", "likes", "Goa"))
    await put(
        neo4j_graph,
        segment("theirs", entities=("Nadia",)),
        segment("cited"),
        fact("g", "Nadia", "likes", "Rome", evidence=("cited",)),
        tenant=other,
    )
    cypher.execute_query("""
        MATCH (ours:Segment {tenant: 'acme', id: 'ours'}), (mara:Entity {name: 'Mara'}),
              (goa:Entity {name: 'Goa'}), (nadia:Entity {name: 'Nadia'}),
              (theirs:Segment {tenant: 'other', id: 'theirs'}),
              (cited:Segment {tenant: 'other', id: 'cited'}), (g:Fact {id: 'g'}), (f:Fact {id: 'f'})
        CREATE (theirs)-[:MENTIONS]->(mara), (theirs)-[:IS]->(mara), (f)-[:EVIDENCE]->(cited),
               (g)-[:OBJECT]->(goa), (g)-[:OBJECT]->(mara), (g)-[:EVIDENCE]->(ours),
               (ours)-[:MENTIONS]->(nadia)
    """)

    assert named(await ask(neo4j_graph, "Mara")) == ["ours"]
    assert [c.facts for c in await ask(neo4j_graph, "Mara")] == [()]
    assert named(await ask_facts(neo4j_graph, "Mara")) == ["f"]
    assert named(await ask_facts(neo4j_graph, "Goa")) == ["f"]
    assert await ask(neo4j_graph, "Nadia") == []


@pytest.mark.parametrize("order", WalkOrder)
@pytest.mark.parametrize("seeds", [None, ids("ours", "theirs")], ids=["names", "segments"])
async def test_other_walks_stay_in_their_tenant(
    neo4j_graph: Neo4jGraph, cypher: neo4j.Driver, order: WalkOrder, seeds: list[ItemId] | None
) -> None:
    await put(
        neo4j_graph,
        segment("ours", entity="Mara"),
        segment("goa", entity="Goa"),
        segment("cited", kind="note"),
        segment("far", kind="note"),
        segment("beach", entity="Beach"),
        fact("f", "Mara", "likes", "Goa"),
        fact("g", "Goa", "is in", "India", evidence=("cited",)),
        fact("h", "Oslo", "is in", "Norway", evidence=("far",)),
        fact("k", "Beach", "is in", "Goa", evidence=("far",)),
    )
    await put(
        neo4j_graph,
        segment("theirs", entity="Nadia", kind="note"),
        segment("rome", entity="Rome", kind="note"),
        segment("cited there", kind="note"),
        fact("i", "Nadia", "likes", "Rome", evidence=("cited there",)),
        tenant=TenantName("other"),
    )
    walk = Walk(order=order, relations=("likes", "is in"))
    before = await all_found(neo4j_graph, walk, seeds)
    cypher.execute_query("""
        MATCH (ours:Segment {id: 'ours'}), (mara:Entity {key: 'mara'}), (goa:Entity {key: 'goa'}),
              (india:Entity {key: 'india'}), (norway:Entity {key: 'norway'}), (f:Fact {id: 'f'}),
              (g:Fact {id: 'g'}), (h:Fact {id: 'h'}), (k:Fact {id: 'k'}),
              (theirs:Segment {id: 'theirs'}), (cited:Segment {id: 'cited there'}),
              (nadia:Entity {key: 'nadia'}), (rome:Entity {key: 'rome'}), (i:Fact {id: 'i'})
        CREATE (ours)-[:IS]->(nadia), (theirs)-[:IS]->(mara), (theirs)-[:IS]->(goa),
               (theirs)-[:IS]->(india), (theirs)-[:IS]->(norway),
               (theirs)-[:MENTIONS]->(mara), (theirs)-[:MENTIONS]->(goa),
               (i)-[:OBJECT]->(mara), (i)-[:OBJECT]->(goa),
               (f)-[:OBJECT]->(rome), (g)-[:OBJECT]->(rome), (k)-[:OBJECT]->(rome),
               (h)-[:SUBJECT]->(rome), (h)-[:SUBJECT]->(nadia),
               (f)-[:EVIDENCE]->(cited), (g)-[:EVIDENCE]->(cited)
    """)

    after = await all_found(neo4j_graph, walk, seeds)

    assert after == before
    assert len(before) > 4


async def all_found(
    graph: Neo4jGraph, walk: Walk, seeds: list[ItemId] | None
) -> set[tuple[bool, ItemId]]:
    """Segments and facts, with a filter (True) that facts pass by their evidence, and without."""
    notes = Filter(kinds=("note",))
    return {
        (filter_ is notes, candidate.item)
        for filter_ in (NO_FILTER, notes)
        for yields in Yields
        for candidate in await ask(
            graph, "Mara and Nadia", walk=walk, seeds=seeds, yields=yields, filter_=filter_
        )
    }


# ---------------------------------------------------------------- going away


@pytest.fixture
def own_neo4j(tmp_path: Path, jar_cache: Path) -> Iterator[EmbeddedNeo4j]:
    server = EmbeddedNeo4j(tmp_path / "neo4j", jar_cache, heap_mb=256)
    yield server
    server.stop()


@pytest.fixture
async def own_graph(own_neo4j: EmbeddedNeo4j) -> AsyncIterator[Neo4jGraph]:
    graph = Neo4jGraph(Neo4jSettings(uri=own_neo4j.start()))
    try:
        await graph.prepare()
        yield graph
    finally:
        await graph.close()


async def search_within(graph: Neo4jGraph, seconds: float) -> list[str]:
    asked = query("Mara")
    within = Deadline.after(seconds)
    return named(await graph.search(asked, Walk(), None, 10, Yields.EVIDENCE, within))


@pytest.mark.release
@pytest.mark.timeout(240)
async def test_killed_neo4j_is_a_dependency_error_and_heals(
    own_neo4j: EmbeddedNeo4j, own_graph: Neo4jGraph
) -> None:
    await put(own_graph, segment("a", entities=("Mara",)))
    assert own_neo4j.pid is not None
    os.kill(own_neo4j.pid, signal.SIGKILL)

    for call in (
        search_within(own_graph, 20),
        put(own_graph, segment("b")),
        own_graph.count(TENANT, ids("a")),
        own_graph.prepare(),
    ):
        with pytest.raises(DependencyError) as raised:
            await call
        assert str(raised.value) == "graph: Neo4j cannot be reached"

    own_neo4j.stop()
    own_neo4j.start()
    # The log was not closed, so this is also what recovery brings back.
    assert await search_within(own_graph, 60) == ["a"]
    await put(own_graph, segment("b", entities=("Mara",)))
    assert await search_within(own_graph, 60) == ["a", "b"]


async def test_hung_neo4j_costs_only_its_share(
    neo4j_graph: Neo4jGraph, neo4j_suspended: Callable[[], AbstractContextManager[None]]
) -> None:
    await put(neo4j_graph, segment("a", entities=("Mara",)))
    assert await search_within(neo4j_graph, 60) == ["a"]

    with neo4j_suspended():
        async with asyncio.timeout(120):
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    await search_within(neo4j_graph, 0.05)

    assert await search_within(neo4j_graph, 60) == ["a"]


async def test_unused_address_costs_nothing_before_a_search() -> None:
    graph = Neo4jGraph(Neo4jSettings(uri="bolt://127.0.0.1:1"))

    with pytest.raises(DependencyError, match="cannot be reached"):
        await search_within(graph, 5)
    await graph.close()
    await graph.close()


async def test_closing_during_planning_leaves_no_connection(
    neo4j_uri: str, cypher: neo4j.Driver, caplog: pytest.LogCaptureFixture
) -> None:
    cypher.execute_query("CALL db.clearQueryCaches()")
    before = connections_to(neo4j_uri)
    graph = Neo4jGraph(Neo4jSettings(uri=neo4j_uri))

    await graph.prepare()
    await graph.close()
    await asyncio.sleep(0)  # an aborted transport closes its socket in the loop's next iteration

    assert connections_to(neo4j_uri) == before
    assert not caplog.records


def connections_to(uri: str) -> set[int]:
    """The local ports of this process's connections to a server."""
    there = urlsplit(uri).port
    return {
        connection.laddr.port
        for connection in psutil.Process().net_connections("tcp")
        if connection.status == psutil.CONN_ESTABLISHED and connection.raddr.port == there
    }


async def test_slow_walk_is_ended_by_the_server(
    neo4j_graph: Neo4jGraph, cypher: neo4j.Driver
) -> None:
    await put(neo4j_graph, segment("a", entities=("Mara",), event_time=NOON - days(1)))

    with pytest.raises(TimeoutError):
        await search_within(neo4j_graph, 0.0001)

    # Of this tenant, since walks that nobody asked yet are planned meanwhile.
    running, _, _ = cypher.execute_query(
        "SHOW TRANSACTIONS YIELD currentQuery, parameters"
        " WHERE currentQuery STARTS WITH 'CYPHER replan' AND parameters.given.tenant = $tenant"
        " RETURN currentQuery",
        tenant=TENANT,
    )
    assert running == []

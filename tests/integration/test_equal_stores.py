"""What PostgreSQL, Neo4j, the vector index and memory pass and find is the same."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import datetime
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from serving.adapters.neo4j import Neo4jGraph
from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.words.lexical import PostgresLexicalSearch
from serving.adapters.resident import TenantsInMemory
from serving.adapters.vector_index import ExactIndex
from serving.domain.budget import Deadline
from serving.domain.items.period import Period, disjoint
from serving.domain.items.records import Fact, Item, ItemId, ItemKind, Segment, TenantName, fact_id
from serving.domain.items.records import segment_id as named_segment
from serving.domain.questions.query import NO_FILTER, Exclusion, Filter, Query, TimeRange
from serving.domain.ranking.leg_options import Walk, WordsSearch
from serving.domain.ranking.profile import Yields
from serving.domain.ranking.ranked_list import Candidate
from serving.ports.memory_store import Batch, Selector
from serving.ports.vector_index import WantedNeighbours
from tests.contract.test_words import MODES
from tests.fakes.meaning import FAKE_MODEL, segment_row, unit
from tests.integration.postgres.log.following import project_graph
from tests.support.builders import NOON, days, fact, query, scope, segment
from tests.support.examples import examples
from tests.support.filters import FILTERS, VALUES
from tests.support.viewed import brought_up

pytestmark = [pytest.mark.postgres, pytest.mark.neo4j]


MANY = 1000
TIMES = st.integers(-2, 2).map(lambda count: NOON + days(count))
SEGMENTS = st.lists(
    st.builds(
        segment,
        st.integers(0, 30).map("s{}".format),
        st.just("Goa"),
        kind=st.sampled_from(["turn", "note"]),
        speaker=st.sampled_from(["Ann", "Bob", ""]),
        session=st.sampled_from(["one", "two", ""]),
        labels=st.dictionaries(st.sampled_from(["a", "a=", "b"]), st.sampled_from(VALUES)),
        entities=st.sampled_from([("Goa",), ("Goa", "Carl")]),
        importance=st.sampled_from([0.2, 0.3, 0.9]),
        event_time=TIMES,
        created_at=st.none() | TIMES,
    ),
    min_size=5,
    max_size=20,
    unique_by=lambda each: each.id,
)


@settings(
    max_examples=examples(120),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(segments=SEGMENTS, filters=st.lists(FILTERS, min_size=5, max_size=10))
async def test_filter_passes_the_same_in_each_store(
    postgres: Postgres,
    neo4j_graph: Neo4jGraph,
    segments: list[Segment],
    filters: list[Filter],
) -> None:
    tenant, deadline = TenantName(uuid.uuid4().hex), Deadline.after(60)
    await postgres.store.write(Batch(tenant, segments))
    await neo4j_graph.apply(await project_graph(postgres))
    stored = await postgres.catalog.list_segments(tenant, NO_FILTER, "", MANY)
    index = ExactIndex(FAKE_MODEL.dimension)
    index.apply([segment_row(each, unit(1), tenant=tenant) for each in stored], [])
    view = TenantsInMemory(postgres.resident_feed, 2**30)

    for filter_ in filters:
        of = scope(tenant, as_of=NOON + days(9), filter_=filter_)
        asked = query("Goa", scope=of)
        listed = await postgres.catalog.list_segments(tenant, filter_, "", MANY)
        wanted = WantedNeighbours(ItemKind.SEGMENT, of, MANY)
        in_graph = await neo4j_graph.search(asked, Walk(), None, MANY, Yields.EVIDENCE, deadline)
        await brought_up(view, tenant)
        found = {
            "listed": [each.id for each in listed],
            "graph": ids_of(in_graph),
            "index": ids_of(index.search(unit(1), wanted).candidates),
            "words": ids_of(view.find_by_words(asked, WordsSearch(), MANY)),
            "walk": ids_of(view.walk(asked, Walk(), MANY, Yields.EVIDENCE)),
        }
        for mode, (words, enough) in MODES.items():
            by_words = await postgres.lexical.search(asked, words, MANY, enough, deadline)
            found[mode] = ids_of(by_words)

        passing = sorted(each.id for each in stored if filter_.accepts(each))
        assert found == dict.fromkeys(found, passing), filter_


def ids_of(found: list[Candidate] | None) -> list[str]:
    assert found is not None
    return sorted(each.item.id for each in found)


NAMES = st.sampled_from(["Ann", "Bén", "Ann Lee", "Lee", "Old Goa", "O'Hara", "Straße 7", "東京"])
TEXTS = st.lists(
    st.sampled_from(
        [
            *("We sailed", "sailing", "to Goa", "Rome and Goa", "it's", "O'Hara's boat", "东京"),
            *("back\\slash", "'quoted'", "東京", "K-9", "0014", "häuser", "Häuser", "läkare"),
            *("tandläkare", "Who is it", "Will", "will he", "IT", "the the boat"),
        ]
    ),
    max_size=8,
).map(" ".join)
INSTANTS = st.integers(-3, 3).map(lambda count: NOON + days(count))
ANY_TIMES = st.none() | INSTANTS
PERIODS = st.builds(
    lambda begins, length: Period(begins, begins + days(length)),
    INSTANTS,
    st.sampled_from([1, 2, 9]),
)
NAMED_PERIODS = st.lists(
    PERIODS | INSTANTS.map(lambda instant: Period(instant, instant)), min_size=5, max_size=5
)
NUMBERS = st.integers(0, 5)
ANY_SEGMENTS = st.builds(
    lambda number, **fields: segment(f"s{number}", **fields),
    NUMBERS,
    text=TEXTS.map(lambda text: text or "Goa"),
    title=TEXTS | st.just(""),
    keywords=st.lists(NAMES, max_size=2).map(tuple),
    entities=st.lists(NAMES, max_size=3).map(tuple),
    speaker=NAMES | st.just(""),
    entity=NAMES | st.just(""),
    kind=st.sampled_from(["turn", "note"]),
    session=st.sampled_from(["", "monday"]),
    importance=st.sampled_from([0.2, 0.5, 0.9]),
    labels=st.sampled_from([{}, {"project": "goa"}]),
    sensitive=st.integers(0, 20).map(lambda chance: chance == 0),
    event_time=INSTANTS,
    mentions=st.lists(PERIODS, max_size=3).map(disjoint),
    expires_at=ANY_TIMES,
)
FACTS = st.builds(
    lambda number, *said, **fields: fact(f"f{number}", *said, **fields),
    NUMBERS,
    NAMES,
    st.sampled_from(["knows", "lives in", "likes"]),
    NAMES,
    evidence=st.lists(NUMBERS.map("s{}".format), max_size=3, unique=True).map(tuple),
    weight=st.sampled_from([0.25, 0.5, 1.0]),
    valid_from=ANY_TIMES,
    valid_to=ANY_TIMES,
    recorded_at=INSTANTS,
    retracted_at=ANY_TIMES,
    closes=st.lists(NUMBERS.map("f{}".format), max_size=1).map(tuple),
    single_valued=st.booleans(),
    expires_at=ANY_TIMES,
)
ERASED = NUMBERS.map("s{}".format).map(named_segment) | NUMBERS.map("f{}".format).map(fact_id)
CHANGES = st.lists(st.lists(ANY_SEGMENTS | FACTS, max_size=6) | ERASED, min_size=1, max_size=5)
SCOPES = st.sampled_from(
    [
        Filter(),
        Filter(kinds=("note",)),
        Filter(speakers=("bén", "LEE")),
        Filter(entities=("old goa",)),
        Filter(labels={"project": ("goa",)}, min_importance=0.5),
        Filter(event_time=TimeRange(NOON - days(1), NOON + days(1))),
        Filter(none_of=Exclusion(kinds=("note",), sessions=("monday",), ids=("s1",))),
    ]
)
QUESTIONS = st.lists(NAMES | TEXTS, min_size=1, max_size=3).map(" ".join)
WORDS = st.builds(
    WordsSearch,
    title=st.sampled_from([1.0, 2.0, 0.3]),
    keywords=st.sampled_from([1.0, 2.0, 0.0]),
    speaker=st.sampled_from([0.0, 1.0]),
)
LANGUAGES = st.sampled_from(["english", "german", "swedish", "simple"])
SOON = 60.0


async def changed(postgres: Postgres, tenant: TenantName, change: object, language: str) -> None:
    if isinstance(change, ItemId):
        await postgres.store.erase(tenant, Selector(items=(change,)))
    elif isinstance(change, list) and change:
        items: dict[ItemId, Item] = {item.item: item for item in change}
        await postgres.store.write(Batch(tenant, [*items.values()], language))


def scores(found: list[Candidate]) -> list[tuple[ItemId, float]]:
    return [(each.item, each.score) for each in found]


@settings(
    max_examples=examples(200),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    changes=CHANGES,
    later=CHANGES,
    question=QUESTIONS,
    words=WORDS,
    language=LANGUAGES,
    filter_=SCOPES,
    as_of=INSTANTS,
    known_at=ANY_TIMES,
    periods=NAMED_PERIODS,
    depth=st.sampled_from([1, 3, 40]),
)
async def test_memory_answers_as_the_stores(
    postgres: Postgres,
    neo4j_graph: Neo4jGraph,
    changes: list[list[Segment | Fact] | ItemId],
    later: list[list[Segment | Fact] | ItemId],
    question: str,
    words: WordsSearch,
    language: str,
    filter_: Filter,
    as_of: datetime,
    known_at: datetime | None,
    periods: list[Period],
    depth: int,
) -> None:
    tenant = TenantName(uuid.uuid4().hex)
    view = TenantsInMemory(postgres.resident_feed, 2**30)
    asked = query(question, scope=scope(tenant, as_of=as_of, known_at=known_at, filter_=filter_))
    for change in changes:
        await changed(postgres, tenant, change, language)
    await brought_up(view, tenant)
    for change in later:
        await changed(postgres, tenant, change, language)
        await neo4j_graph.apply(await project_graph(postgres))
        if await brought_up(view, tenant):
            await assert_same(view, postgres, neo4j_graph, asked, words, depth)
            await assert_same_by_time(view, postgres, asked, periods, depth)


async def assert_same(
    view: TenantsInMemory,
    postgres: Postgres,
    graph: Neo4jGraph,
    asked: Query,
    words: WordsSearch,
    depth: int,
) -> None:
    """Asserts that memory has the rows, finds and scores of the stores."""
    tenant, deadline = asked.scope.tenant, Deadline.after(SOON)
    items = [make(f"{kind}{n}") for n in range(6) for kind, make in ITEMS]
    # No announcement can come between these.
    rows = view.rows(tenant, items, None)
    has_facts = view.has_facts(tenant, None)
    by_words = view.find_by_words(asked, words, depth)
    walked = view.walk(asked, Walk(), depth, Yields.EVIDENCE)

    stored = await postgres.store.load(tenant, items, deadline)
    assert rows is not None
    assert rows.rows == {item: row for item, row in stored.items() if item in rows.rows}
    assert not rows.complete or rows.rows.keys() == stored.keys()
    assert has_facts in (None, await postgres.store.has_facts(tenant, deadline))

    assert (by_words is None) == any(row.sensitive for row in stored.values())
    if by_words is not None:
        # A search of its own, since counts of words are kept for a while.
        counted = PostgresLexicalSearch(postgres.database, postgres.notifications)
        expected = await counted.search(asked, words, depth, depth, deadline)
        assert scores(by_words) == scores(expected)

    assert walked is not None
    expected = await graph.search(asked, Walk(), None, depth, Yields.EVIDENCE, deadline)
    assert scores(walked) == scores(expected)
    assert [set(each.facts) for each in walked] == [set(each.facts) for each in expected]


async def assert_same_by_time(
    view: TenantsInMemory, postgres: Postgres, asked: Query, periods: list[Period], depth: int
) -> None:
    """Asserts that memory finds what PostgreSQL finds of these times."""
    deadline, timeline = Deadline.after(SOON), postgres.timeline
    for period, earliest_first in product(periods, (False, True)):
        await brought_up(view, asked.scope.tenant)
        within = asked.scope.within(TimeRange(period.begins, period.ends))
        of_period = replace(asked, scope=within)
        latest = view.latest(of_period, depth, earliest_first=earliest_first)
        speaking = view.mentioning(period, asked, depth)

        stored = await timeline.latest(within, depth, deadline, earliest_first=earliest_first)
        assert latest is not None
        assert scores(latest) == scores(stored)
        stored = await timeline.mentioning(period, asked.scope, depth, deadline)
        assert speaking is not None
        assert scores(speaking) == scores(stored)


ITEMS = (("s", named_segment), ("f", fact_id))


async def test_fact_in_memory_follows_expiry_of_evidence(postgres: Postgres) -> None:
    tenant = TenantName(uuid.uuid4().hex)
    view = TenantsInMemory(postgres.resident_feed, 2**30)
    rests = fact("f1", "Ann", "saw", "Goa", evidence=("s1",))
    await changed(postgres, tenant, [segment("s1"), rests], "english")
    await brought_up(view, tenant)

    await changed(postgres, tenant, [segment("s1", expires_at=NOON)], "english")
    await brought_up(view, tenant)

    known = view.rows(tenant, [rests.item], None)
    assert known is not None
    [row] = known.rows.values()
    assert isinstance(row, Fact)
    assert row.evidence_expires_at == NOON


@pytest.mark.parametrize(
    "hidden",
    [segment("s1", sensitive=True), fact("f1", "Ann", "saw", "Goa", sensitive=True)],
    ids=["segment", "fact"],
)
async def test_hidden_row_of_another_tenant_hides_nothing(
    postgres: Postgres, hidden: Segment | Fact
) -> None:
    tenant, other = (TenantName(uuid.uuid4().hex) for _ in range(2))
    view = TenantsInMemory(postgres.resident_feed, 2**30)
    await changed(postgres, other, [hidden], "english")
    await changed(postgres, tenant, [segment("s1")], "english")
    await brought_up(view, tenant)

    known = view.rows(tenant, [segment("s1").item], None)

    assert known is not None
    assert known.complete

"""A filter passes the same segments in PostgreSQL, in Neo4j, in the vector index and in memory."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from serving.adapters.neo4j import Neo4jGraph
from serving.adapters.postgres.assembly import Postgres
from serving.adapters.resident import TenantsInMemory
from serving.adapters.vector_index import ExactIndex
from serving.domain.budget import Deadline
from serving.domain.items.records import ItemKind, Segment, TenantName
from serving.domain.questions.query import NO_FILTER, Filter
from serving.domain.ranking.leg_options import Walk, WordsSearch
from serving.domain.ranking.profile import Yields
from serving.domain.ranking.ranked_list import Candidate
from serving.ports.memory_store import Batch
from serving.ports.vector_index import WantedNeighbours
from tests.contract.test_words import MODES
from tests.fakes.meaning import FAKE_MODEL, segment_row, unit
from tests.integration.postgres.log.following import project_graph
from tests.support.builders import NOON, days, query, scope, segment
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

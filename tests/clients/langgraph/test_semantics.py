"""The store answers each call as LangGraph's own `InMemoryStore` does.

Three differences are left out here, and described in the README: an empty namespace is not listed,
the order without a query, and a comparison with what is no number.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchItem,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from tests.clients.langgraph.fake_client import FakeAsyncClient, FakeClient
from tests.fixtures.local_service import local_service
from tests.fixtures.postgres import fresh_database
from tests.support.examples import examples
from trivium import AsyncClient
from trivium_langgraph import TriviumStore

A, AB, AC, B = ("a",), ("a", "b"), ("a", "c"), ("b", "a", "b")
NESTED = {"text": "Nora eats no meat.", "tags": ["diet", None], "by": {"name": "Zoë", "age": 41}}
PUTS: list[Op] = [
    PutOp(A, "one", {"n": 1, "s": "x"}),
    PutOp(AB, "one", {"n": 2.5, "s": "x", "by": {"name": "Zoë"}}),
    PutOp(AB, "two", NESTED),
    PutOp(AC, "one", {"n": 10, "flag": True, "none": None}),
    PutOp(B, "schlüssel", {"n": "7", "list": [1, {"deep": []}]}),
]
PLACES = [(A, "one"), (AB, "one"), (AB, "two"), (AC, "one"), (B, "schlüssel")]


def found(prefix: tuple[str, ...], **wanted: Any) -> SearchOp:
    return SearchOp(prefix, filter=wanted or None, limit=50)


def named(match_type: Any, *path: str) -> MatchCondition:
    return MatchCondition(match_type, path)


def listed(*conditions: MatchCondition, **options: Any) -> ListNamespacesOp:
    return ListNamespacesOp(conditions or None, **options)


SCENARIOS: dict[str, list[list[Op]]] = {
    "what is put is got": [PUTS, [GetOp(*place) for place in PLACES]],
    "a missing key or namespace": [PUTS, [GetOp(A, "two"), GetOp(("z",), "one")]],
    "a value is replaced whole": [PUTS, [PutOp(AB, "two", {"new": 1})], [GetOp(AB, "two")]],
    "an empty value": [[PutOp(A, "one", {})], [GetOp(A, "one"), found(A)]],
    "a deletion": [PUTS, [PutOp(A, "one", None)], [GetOp(A, "one"), found(()), listed()]],
    "a deletion of nothing": [PUTS, [PutOp(A, "nine", None)], [found(())]],
    "reads before writes": [
        PUTS,
        [PutOp(A, "one", {"n": 3}), GetOp(A, "one"), found(A), PutOp(A, "new", {}), listed()],
        [found(A)],
    ],
    "the last of two writes": [
        [PutOp(A, "one", {"n": 1}), PutOp(A, "one", None), PutOp(A, "one", {"n": 2})],
        [GetOp(A, "one")],
        [PutOp(A, "one", {"n": 3}), PutOp(A, "one", None)],
        [GetOp(A, "one")],
    ],
    "a prefix is of whole levels": [
        [*PUTS, PutOp(("ab",), "one", {}), PutOp(("a.b",), "one", {})],
        [found(()), found(A), found(AB), found(("a", "b", "c")), found(("b",)), found(("a.",))],
    ],
    "equal fields": [
        PUTS,
        [found((), s="x"), found((), n=1.0), found((), flag=True), found((), none=None)],
        [found((), n=1, s="x"), found((), n=1, s="y"), found(AB, s="x"), found((), missing=1)],
    ],
    "nested fields": [
        PUTS,
        [found((), by={"name": "Zoë"}), found((), by={"name": "Zoë", "age": 41}), found((), s={})],
        [found((), tags=["diet", None]), found((), tags=["diet"]), found((), list=[1, {}])],
    ],
    "operators": [
        [*PUTS[:2], *PUTS[3:]],
        [found((), n={each: 2.5}) for each in ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")],
        [found((), n={"$gt": 1, "$lt": 10}), found((), n={"$gt": "1"}), found((), s={"$ne": "x"})],
    ],
    "namespaces": [
        PUTS,
        [listed(), listed(max_depth=1), listed(max_depth=2), listed(limit=2), listed(offset=2)],
        [listed(named("prefix", "a")), listed(named("prefix", "*", "b"))],
        [listed(named("suffix", "b")), listed(named("suffix", "a", "*"), max_depth=1)],
        [listed(named("prefix", "a"), named("suffix", "c")), listed(named("prefix", *"abcd"))],
    ],
    "no room": [PUTS, [SearchOp((), limit=0), SearchOp((), offset=9), listed(limit=0)]],
}


class Peer(InMemoryStore):
    """Lists no namespace without items, such as one that was only looked up."""

    def _handle_list_namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        for namespace in [namespace for namespace, kept in self._data.items() if not kept]:
            del self._data[namespace]
        return super()._handle_list_namespaces(op)


def comparable(result: Any) -> Any:
    """Results without times and scores; items in the order of their places."""
    if isinstance(result, Item):
        return (result.namespace, result.key, result.value)
    if not isinstance(result, list):
        return result
    compared = list(map(comparable, result))
    is_found = bool(result) and isinstance(result[0], SearchItem)
    return sorted(compared, key=lambda each: each[:2]) if is_found else compared


@pytest.fixture(params=[FakeClient, FakeAsyncClient], ids=["blocking", "asyncio"])
def store(request: pytest.FixtureRequest) -> TriviumStore:
    return TriviumStore(request.param())


async def compare(store: BaseStore, scenario: str) -> None:
    peer = Peer()
    for ops in SCENARIOS[scenario]:
        assert comparable(await store.abatch(ops)) == comparable(peer.batch(ops))


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_calls_answer_as_the_in_memory_store(scenario: str, store: BaseStore) -> None:
    await compare(store, scenario)


@pytest.fixture(scope="module")
async def over_stores(postgres_server: str, neo4j_uri: str) -> AsyncIterator[AsyncClient]:
    with fresh_database(postgres_server) as dsn:
        async with local_service(dsn, neo4j_uri) as client:
            yield client


@pytest.mark.postgres
@pytest.mark.neo4j
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_calls_over_postgres_answer_as_the_in_memory_store(
    scenario: str, over_stores: AsyncClient
) -> None:
    await compare(TriviumStore(over_stores.for_tenant(scenario)), scenario)


async def test_an_empty_batch_has_no_answers(store: BaseStore) -> None:
    assert await store.abatch([]) == InMemoryStore().batch([])


async def test_pages_cover_everything_once(store: BaseStore) -> None:
    await store.abatch(PUTS)
    pages = [await store.asearch((), limit=2, offset=offset) for offset in (0, 2, 4, 6)]

    assert [len(page) for page in pages] == [2, 2, 1, 0]
    assert sorted((each.namespace, each.key) for page in pages for each in page) == PLACES


@pytest.mark.parametrize("namespace", [(), ("a.b",), ("",), ("langgraph", "x")])
def test_the_same_namespaces_are_refused(namespace: tuple[str, ...]) -> None:
    for each in (TriviumStore(FakeClient()), InMemoryStore()):
        with pytest.raises(InvalidNamespaceError):
            each.put(namespace, "key", {})


def test_neither_store_has_a_time_to_live() -> None:
    for each in (TriviumStore(FakeClient()), InMemoryStore()):
        assert not each.supports_ttl
        with pytest.raises(NotImplementedError, match="TTL is not supported"):
            each.put(A, "key", {}, ttl=1)


@pytest.mark.parametrize("wanted", [{"n": {"$near": 1}}, {"n": {"$gt": 1, "$in": [1]}}])
def test_unknown_operator_is_rejected_by_both_stores(wanted: dict[str, Any]) -> None:
    for each in (TriviumStore(FakeClient()), InMemoryStore()):
        each.put(A, "key", {"n": 2})
        with pytest.raises(ValueError, match=r"operator"):
            each.search(A, filter=wanted)


names = st.sampled_from("ab")
namespaces = st.lists(names, min_size=1, max_size=3).map(tuple)
prefixes = st.lists(names, max_size=3).map(tuple)
numbers = st.sampled_from([0, 1, 1.5, 2])
scalars = st.sampled_from([0, 1, 1.5, True, None, "1", "x"])
values = st.dictionaries(st.sampled_from("nms"), scalars, max_size=3)
whole = st.fixed_dictionaries({"n": numbers}, optional={"s": scalars, "m": values})
operators = st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"])
filters = st.one_of(
    st.none(),
    st.fixed_dictionaries({}, optional={"s": scalars, "m": values}),
    st.fixed_dictionaries({"n": st.dictionaries(operators, numbers, min_size=1, max_size=2)}),
)
levels = st.lists(st.sampled_from("ab*"), max_size=3).map(tuple)
conditions = st.builds(MatchCondition, st.sampled_from(["prefix", "suffix"]), levels)
ops = st.one_of(
    st.builds(PutOp, namespaces, names, st.one_of(st.none(), whole), st.none(), st.none()),
    st.builds(GetOp, namespaces, names),
    st.builds(SearchOp, prefixes, filters, st.just(100), st.just(0), st.none()),
    st.builds(
        ListNamespacesOp,
        st.one_of(st.none(), st.lists(conditions, max_size=2).map(tuple)),
        st.one_of(st.none(), st.integers(1, 3)),
        limit=st.integers(0, 4),
        offset=st.integers(0, 2),
    ),
)


@settings(max_examples=examples(300))
@given(batches=st.lists(st.lists(ops, max_size=4), max_size=8))
def test_any_calls_answer_as_the_in_memory_store(batches: list[list[Op]]) -> None:
    store, peer = TriviumStore(FakeClient()), Peer()
    for each in batches:
        assert comparable(store.batch(each)) == comparable(peer.batch(each))

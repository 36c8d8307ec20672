"""Neo4j's adapter, without a server."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, LiteralString

import neo4j
import pytest
from hypothesis import given
from hypothesis import strategies as st
from neo4j.exceptions import SessionExpired

from serving.adapters.neo4j import Neo4jGraph, statements, walks
from serving.adapters.neo4j.graph import Neo4jSettings
from serving.adapters.neo4j.names import near_names_query, tenant_token
from serving.adapters.neo4j.planning import BackgroundPlanning
from serving.adapters.neo4j.rows import Row
from serving.adapters.neo4j.search import Search, candidates, relation_places, search_parameters
from serving.desk.ray_environment import LOOPBACK, free_ports
from serving.domain.budget import Deadline
from serving.domain.errors import DependencyError
from serving.domain.items.records import fact_id, segment_id
from serving.domain.items.text import WORD, name_key, name_words
from serving.domain.questions.named_entities import (
    MAX_KEY_CHARACTERS,
    MAX_NAME_WORDS,
    MAX_QUESTION_WORDS,
    MAX_UNSPACED_LETTERS,
    NamedSpan,
    entity_key,
    entity_words,
    near_spans,
    one_letter_apart,
    question_spans,
)
from serving.domain.ranking.leg_options import Walk, WalkOrder
from serving.domain.ranking.profile import Yields
from serving.domain.ranking.ranked_list import Candidate
from serving.ports.graph import GraphChanges
from tests.support.builders import TENANT, query, scope


def nowhere(connect_timeout_s: float = 1) -> Neo4jSettings:
    uri = f"bolt://{LOOPBACK}:{free_ports(1)}"
    return Neo4jSettings(uri=uri, connect_timeout_s=connect_timeout_s)


class Reluctant(Neo4jGraph):
    """A graph that is prepared at the second try."""

    def __init__(self) -> None:
        super().__init__(nowhere())
        self.tries = 0
        self.prepared = asyncio.Event()

    async def prepare(self) -> None:
        self.tries += 1
        if self.tries == 1:
            raise DependencyError("graph", "not yet")
        self.prepared.set()


async def test_lost_graph_is_prepared_again_once_back() -> None:
    graph = Reluctant()
    asked = query("Who is Mara?")
    try:
        for _ in range(2):
            with pytest.raises(DependencyError):
                await graph.search(asked, Walk(), None, 5, Yields.EVIDENCE, Deadline.after(5))
        async with asyncio.timeout(10):
            await graph.prepared.wait()
    finally:
        await graph.close()

    assert graph.tries == 2


class Slow(Neo4jGraph):
    """A graph whose statements return at once, except custom walks, which never end."""

    def __init__(self) -> None:
        super().__init__(nowhere(connect_timeout_s=0))
        self.walks: list[str] = []
        self.custom_begun = asyncio.Event()

    async def _fetch(
        self, query: neo4j.Query, given: Row, access: str = neo4j.READ_ACCESS
    ) -> list[neo4j.Record]:
        if query.text in walks.DEFAULT + walks.CUSTOM:
            self.walks.append(query.text)
        if query.text in walks.CUSTOM:
            self.custom_begun.set()
            await asyncio.Event().wait()
        return []


async def test_walks_are_planned_while_writes_go_on() -> None:
    graph = Slow()
    async with asyncio.timeout(10):
        await graph.prepare()
        when_prepared = list(graph.walks)
        await graph.custom_begun.wait()
        await graph.close()

    assert when_prepared == []
    assert graph.walks == [*walks.DEFAULT, walks.CUSTOM[0]]


class Restarted(Neo4jGraph):
    """A graph after a restart of Neo4j: the first use of the pooled connection fails."""

    def __init__(self) -> None:
        super().__init__(nowhere(connect_timeout_s=0))
        self.is_pooled = True

    def _use_connection(self) -> None:
        if self.is_pooled:
            self.is_pooled = False
            raise SessionExpired("closed by Neo4j")

    async def _fetch(
        self, query: neo4j.Query, given: Row, access: str = neo4j.READ_ACCESS
    ) -> list[neo4j.Record]:
        self._use_connection()
        if query.text != statements.INDEX_STATES:
            return [neo4j.Record({"count": 1})]  # type: ignore[no-untyped-call]
        return [
            neo4j.Record({"name": name, "state": "ONLINE"})  # type: ignore[no-untyped-call]
            for name in statements.INDEXES
        ]

    async def _apply(self, changes: GraphChanges) -> None:
        self._use_connection()


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda graph: graph.prepare(), id="prepare"),
        pytest.param(lambda graph: graph.apply(GraphChanges()), id="apply"),
        pytest.param(lambda graph: graph.count_entities(TENANT), id="read"),
    ],
)
async def test_a_pooled_connection_that_has_died_fails_no_call(
    call: Callable[[Neo4jGraph], Awaitable[object]],
) -> None:
    graph = Restarted()
    async with asyncio.timeout(10):
        await call(graph)
        await graph.close()

    assert not graph.is_pooled


def keys(question: str) -> list[str]:
    return [span.words for span in question_spans(question)]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (
            "Lotus Inn, Rome",
            ["lotus inn rome", "lotus inn", "inn rome", "lotus", "inn", "rome"],
        ),
        ("who is on the", []),
        ("the who", []),
        ("the band", ["the band", "band"]),
        ("Mara, Mara!", ["mara mara", "mara"]),
    ],
)
def test_runs_of_words_are_spans_longest_first(question: str, expected: list[str]) -> None:
    """But none of stop words alone, and each once."""
    assert keys(question) == expected


def test_a_span_knows_its_words_and_weighs_as_many() -> None:
    assert question_spans("where is Mara")[-1] == NamedSpan("mara", 1.0, 2, 3)
    assert question_spans("where is Mara")[0] == NamedSpan("where is mara", 3.0, 0, 3)


@given(st.text(max_size=200), st.text("ab .", max_size=20))
def test_short_name_in_a_question_is_among_spans(name: str, rest: str) -> None:
    of_name = name_words(name)
    words = name_words(f"{rest} {name}")
    found = keys(f"{rest} {name}")

    assert all(len(key.split()) <= MAX_NAME_WORDS for key in found)
    if 0 < len(of_name) <= MAX_NAME_WORDS and words[-len(of_name) :] == of_name:
        assert entity_words(name) in found or key_is_of_stop_words(entity_words(name))


def key_is_of_stop_words(key: str) -> bool:
    return question_spans(key) == []


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("张伟住在哪里", "张伟"),
        ("田中太郎はどこに住んでいますか", "田中太郎"),
        ("คุณส้มอยู่ที่ไหน", "ส้ม"),
        ("민수는 어디에 살아?", "민수"),
    ],
)
def test_name_in_text_without_spaces_is_a_span(question: str, name: str) -> None:
    assert entity_words(name) in keys(question)


def test_parts_of_unspaced_letters_lie_within_one_another() -> None:
    spans = {span.words: span for span in question_spans("王小明说")}

    assert list(spans) == ["王小明说", "王小明", "小明说", "王小", "小明", "明说"]
    assert spans["王小明"] == NamedSpan("王小明", 1.0, 0, 0.75)
    assert (spans["小明"].start, spans["小明"].end) == (0.25, 0.75)


def test_long_question_has_a_bounded_number_of_spans() -> None:
    spaced = question_spans(" ".join(f"w{n}" for n in range(5000)))
    unspaced = question_spans(", ".join("漢字仮名交じり文" * 9 for _ in range(500)))

    assert len(spaced) <= MAX_NAME_WORDS * MAX_QUESTION_WORDS
    assert len(unspaced) <= MAX_NAME_WORDS * (MAX_QUESTION_WORDS + MAX_UNSPACED_LETTERS)


@given(st.text(min_size=1, max_size=600))
def test_entity_key_is_bounded_and_folded(name: str) -> None:
    assert len(entity_key(name)) <= MAX_KEY_CHARACTERS
    assert entity_key("x" * 600 + name) != entity_key("x" * 600 + f"{name}b"), "their ends differ"
    if len(name_key(name)) <= MAX_KEY_CHARACTERS:
        assert entity_key(name) == name_key(name)


@given(st.text(max_size=60), st.text(max_size=300))
def test_question_cannot_be_read_as_lucene_syntax(tenant: str, question: str) -> None:
    query = near_names_query(tenant, question)

    if query is not None:
        terms = re.fullmatch(r"\+tenant_token:t[0-9a-f]{24} \+\((.+)\)", query)
        assert terms is not None
        for term in terms.group(1).split(" "):
            assert re.fullmatch(rf"words:{WORD.pattern}(~1)?", term)


def test_tenants_have_different_tokens() -> None:
    assert len({tenant_token(name) for name in ("a", "A", "a ", "ab", "")}) == 5


@pytest.mark.parametrize(
    ("left", "right", "apart"),
    [
        ("lisbon", "lisbn", True),
        ("lisbon", "lissbon", True),
        ("lisbon", "lisban", True),
        ("lisbon", "isbon", True),
        ("lisbon", "lisbno", False),
        ("lisbon", "lisb", False),
        ("goa", "goal", False),
        ("lisbon", "madrid", False),
    ],
)
def test_words_one_letter_apart_are_similar(left: str, right: str, apart: bool) -> None:
    assert one_letter_apart(left, right) is apart
    assert one_letter_apart(right, left) is apart


def test_near_name_shares_most_words_with_the_question() -> None:
    names = ["charity race event", "race", "city race of the new year", "pottery class"]

    spans = near_spans("When was the charity race?", names)

    assert [span.words for span in spans] == ["charity race event", "race"]
    assert all(span.weight < 1 and (span.start, span.end) == (-1, -1) for span in spans)
    assert [span.words for span in near_spans("a trip to Lisbn", ["lisbon"])] == ["lisbon"]


PATIENCE_S = 10.0


class Planner:
    """Plans searches: fails for a `rejected` one, and blocks on a `slow` one."""

    def __init__(self) -> None:
        self.background = BackgroundPlanning(self.plan)
        self.asked: list[str] = []
        self.planned: list[str] = []
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()
        self.all_planned = asyncio.Event()

    async def plan(self, search: LiteralString) -> None:
        self.asked.append(search)
        if search == "rejected":
            raise DependencyError("graph", "Neo4j did not answer")
        if search == "slow":
            self.begun.set()
            await self.gate.wait()
        self.planned.append(search)
        if search == "last":
            self.all_planned.set()


@pytest.fixture
async def planner() -> AsyncIterator[Planner]:
    planner = Planner()
    yield planner
    await planner.background.stop(within_s=0)


async def test_searches_are_planned_in_turn_without_waiting(planner: Planner) -> None:
    planner.background.start(["slow", "last"])
    at_once = list(planner.asked)
    await planner.begun.wait()
    meanwhile = list(planner.asked)
    planner.gate.set()
    await planner.all_planned.wait()

    assert (at_once, meanwhile, planner.planned) == ([], ["slow"], ["slow", "last"])


async def test_unplannable_search_is_logged_before_the_next(
    planner: Planner, caplog: pytest.LogCaptureFixture
) -> None:
    planner.background.start(["rejected", "last"])
    await planner.all_planned.wait()

    [logged] = caplog.records
    assert logged.getMessage() == "search plan not prepared"
    assert logged.__dict__["reason"] == "graph: Neo4j did not answer"


async def test_restarted_planner_plans_every_search_again(planner: Planner) -> None:
    planner.background.start(["slow", "second", "last"])
    await planner.begun.wait()
    planner.background.start(["first", "second", "last"])
    planner.gate.set()
    await planner.all_planned.wait()

    assert planner.planned == ["slow", "first", "second", "last"]


async def test_stopped_planner_finishes_only_the_current_search(planner: Planner) -> None:
    planner.background.start(["slow", "last"])
    await planner.begun.wait()
    stopping = asyncio.create_task(planner.background.stop(PATIENCE_S))
    await asyncio.sleep(0)
    planner.gate.set()
    await stopping

    assert planner.planned == ["slow"]


async def test_stopped_planner_abandons_a_slow_search(planner: Planner) -> None:
    planner.background.start(["slow"])
    await planner.begun.wait()
    await planner.background.stop(within_s=0)
    planner.gate.set()
    await asyncio.sleep(0)

    assert planner.planned == []


NEAREST = Walk(order=WalkOrder.DISTANCE)
NO_STEP = [None, None, None, None]


def mention(seed: str, gain: float = 1.0) -> list[object]:
    return [gain, seed, *NO_STEP, *NO_STEP, False]


def walk(gain: float, *steps: str, seed: str = "Mara", cited: bool = True) -> list[object]:
    """A trail over facts given as "id relation end", backwards if the id starts with "<"."""
    written: list[object] = []
    for step in steps:
        id_, relation, end = step.split()
        written += [id_.lstrip("<"), relation, "OBJECT" if id_[0] == "<" else "SUBJECT", end]
    return [gain, seed, *written, *NO_STEP * (2 - len(steps)), cited]


def read(*trails: list[object]) -> Candidate:
    [found] = candidates([["s", 1_500_000_000, list(trails)]], Yields.EVIDENCE)
    return found


def test_the_path_of_mentions_names_all_that_are_mentioned() -> None:
    found = read(mention("Mara", 0.1), mention("Goa", 0.4))

    assert found == Candidate(segment_id("s"), 1.5, "Goa, Mara")
    assert read().path == "", "hubs alone have none"


def test_the_path_over_facts_shows_their_direction() -> None:
    found = read(walk(0.5, "f1 owns Shop", "<f2 likes Tom"))

    assert found.path == "Mara -[owns]-> Shop <-[likes]- Tom"
    assert found.facts == ("f2",)


def test_path_belongs_to_the_best_fact() -> None:
    found = read(
        mention("Mara", 9.0),
        walk(0.2, "f1 likes Goa"),
        walk(0.4, "f2 likes Rome"),
        walk(0.1, "f2 likes Rome", seed="Tom"),
        walk(0.9, "f3 likes Oslo", cited=False),
    )

    assert found.path == "Mara -[likes]-> Rome"
    assert found.facts == ("f2", "f1")


def test_fact_candidates_with_equal_scores_follow_ids() -> None:
    trails = [walk(0.2, "f1 likes Goa", cited=False)]

    found = candidates([["b", 2, trails], ["a", 2, trails], ["c", 3, trails]], Yields.FACTS)

    assert [candidate.item for candidate in found] == [fact_id("c"), fact_id("a"), fact_id("b")]
    assert found[0].facts == ()
    assert found[0].path == "Mara -[likes]-> Goa"


def test_nearest_path_of_the_first_seed_scores() -> None:
    trails = [
        walk(0.5, "f1 calls scan", cited=False),
        walk(1.0, "f2 calls lex", seed="parse"),
        walk(1.0, "f3 calls scan", seed="main", cited=False),
    ]

    [found] = candidates([["s", 7, trails]], Yields.EVIDENCE, WalkOrder.DISTANCE)

    assert found == Candidate(segment_id("s"), 1.0, "parse -[calls]-> lex", ("f2",))


def test_equal_distances_keep_the_order_of_seeds() -> None:
    trails = [walk(1.0, "f1 calls scan", cited=False)]

    found = candidates([["b", 9, trails], ["a", 9, trails]], Yields.EVIDENCE, WalkOrder.DISTANCE)

    assert [candidate.item.id for candidate in found] == ["b", "a"]


# ---------------------------------------------------------------- the statement for a walk


def search(walk: Walk = Walk(), **fields: Any) -> Search:
    given = {"seeds": None, "depth": 5, "yields": Yields.EVIDENCE, **fields}
    return Search(scope=scope(), walk=walk, **given)


@pytest.mark.parametrize("default", [Walk(), Walk(seeds_from=("dense",))])
def test_default_walk_has_statements_of_its_own(default: Walk) -> None:
    spans = [NamedSpan("mara", 1.0, 0, 1)]

    assert search(default).statement is walks.FIND_SEGMENTS
    assert search(default, yields=Yields.FACTS).statement is walks.FIND_FACTS
    assert search(default).parameters(spans) == search_parameters(scope(), spans, 5)
    for parameter in ("$given.segments", "$given.by_name", "$given.places", "$given.hops"):
        assert parameter not in walks.FIND_SEGMENTS + walks.FIND_FACTS


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (search(Walk(hops=1)), walks.FOLLOW_TO_SEGMENTS),
        (search(Walk(relations=("calls",))), walks.FOLLOW_TO_SEGMENTS),
        (search(seeds=("s1",)), walks.FOLLOW_TO_SEGMENTS),
        (search(seeds=(), yields=Yields.FACTS), walks.FOLLOW_TO_FACTS),
        (search(NEAREST), walks.NEAREST_SEGMENTS),
        (search(NEAREST, yields=Yields.FACTS), walks.NEAREST_FACTS),
    ],
)
def test_a_custom_walk_has_a_statement_with_more_parameters(asked: Search, expected: str) -> None:
    assert asked.statement is expected
    assert expected in walks.DEFAULT + walks.CUSTOM


def test_search_is_planned_by_parameters_of_any_other() -> None:
    custom = search(Walk(relations=("calls",)), seeds=("s1",)).parameters()

    assert search().parameters().keys() < custom.keys()


def test_later_relation_adds_less_than_a_hop() -> None:
    assert relation_places(("Calls", "imports", "CALLS")) == {"calls": 0.0, "imports": 1 / 3}
    assert relation_places(()) == {}
    assert max(relation_places([f"r{n}" for n in range(99)]).values()) < 1

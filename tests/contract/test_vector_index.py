"""The contract of index engines: the exact index, and the tiered index."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from serving.adapters.vector_index import ExactIndex, TieredIndex
from serving.adapters.vector_index.lists.inverted_lists import ListsLibrary
from serving.domain.items.records import (
    Fact,
    ItemId,
    ItemKind,
    Segment,
    fact_id,
    segment_id,
)
from serving.domain.items.validity import Closing
from serving.domain.questions.query import Exclusion, Filter, NumberRange, Scope, TimeRange
from serving.domain.questions.visibility import visible
from serving.domain.ranking.holds.likeness import scale_of
from serving.domain.ranking.ranked_list import Candidate, best_first
from serving.domain.ranking.signals import Traits
from serving.ports.index_engine import IndexEngine, IndexRow, Neighbours
from serving.ports.vector_index import CONTEXT, Turn, VectorKind, WantedNeighbours
from tests.fakes.lists.eager_lists import LISTS_AT_ONCE, MaintainedIndex, WatchedLibrary
from tests.fakes.meaning import FAKE_MODEL, fact_row, segment_row, unit
from tests.support.builders import NOON, OTHER, TENANT, days, fact, ids, scope, segment
from tests.support.filters import nested, some
from tests.support.visibility import is_shown

DIMENSION = FAKE_MODEL.dimension

MakeEngine = Callable[[], IndexEngine]


def tiered(
    kind: type[TieredIndex], device: str = "cpu", library: ListsLibrary | None = None
) -> TieredIndex:
    """Lists from five rows on."""
    return kind(DIMENSION, WatchedLibrary(library=library), LISTS_AT_ONCE, device=device)


def tiered_on_gpu() -> TieredIndex:
    pytest.importorskip("cuvs")
    from serving.gpu.cuvs_lists import CuvsLibrary

    return tiered(MaintainedIndex, "cuda", CuvsLibrary(torch.device("cuda")))


needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
on_gpu = [pytest.mark.gpu, needs_cuda]

ENGINES = [
    pytest.param(partial(ExactIndex, DIMENSION), id="exact"),
    pytest.param(partial(tiered, TieredIndex), id="tiered-exact"),
    pytest.param(partial(tiered, MaintainedIndex), id="tiered-lists"),
    pytest.param(partial(tiered, MaintainedIndex, "cpu:0"), id="tiered-torch"),
    pytest.param(partial(ExactIndex, DIMENSION, device="cuda"), id="exact-cuda", marks=on_gpu),
    pytest.param(tiered_on_gpu, id="tiered-cuda", marks=on_gpu),
]
"""All scanned, or from five rows on in lists, which are maintained after every change or never."""


@pytest.fixture(scope="session", params=ENGINES)
def make_engine(request: pytest.FixtureRequest) -> MakeEngine:
    make: MakeEngine = request.param
    return make


@pytest.fixture
def engine(make_engine: MakeEngine) -> IndexEngine:
    return make_engine()


def near(seed: int, others: Iterable[int] = ()) -> np.ndarray:
    vector = unit(seed) + 0.1 * sum((unit(other) for other in others), np.zeros(DIMENSION))
    return np.asarray(vector / np.linalg.norm(vector), np.float32)


def store(engine: IndexEngine, *rows: IndexRow) -> None:
    engine.apply(rows, [])


def find(
    engine: IndexEngine,
    seed: int = 1,
    kind: VectorKind = ItemKind.SEGMENT,
    depth: int = 100,
    only: Collection[ItemId] | None = None,
    **of_scope: object,
) -> Neighbours:
    in_scope = scope(**of_scope)  # type: ignore[arg-type]
    return engine.search(unit(seed), WantedNeighbours(kind, in_scope, depth, only))


def names(found: Neighbours) -> list[ItemId]:
    return [candidate.item for candidate in found.candidates]


# ---------------------------------------------------------------- what is nearest


def test_the_nearest_comes_first_and_its_score_is_the_cosine(engine: IndexEngine) -> None:
    store(engine, segment_row(segment("far"), unit(2)), segment_row(segment("near"), near(1, [2])))

    found = find(engine)

    assert names(found) == ids("near", "far")
    cosines = [candidate.score for candidate in found.candidates]
    assert cosines == pytest.approx(
        [float(near(1, [2]) @ unit(1)), float(unit(2) @ unit(1))], abs=1e-3
    )


@pytest.mark.parametrize("device", ["cpu", "cpu:0"])
def test_first_rows_are_found_among_many_equal_ones(device: str) -> None:
    engine = ExactIndex(DIMENSION, device=device)
    store(engine, *(segment_row(segment(f"s{n:03}"), unit(1)) for n in range(300)))

    assert names(find(engine, depth=10)) == ids(*(f"s{n:03}" for n in range(10)))


def test_an_item_counts_once_by_its_best_window(engine: IndexEngine) -> None:
    windows = [unit(2), unit(1), unit(3)]
    store(
        engine, segment_row(segment("long"), *windows), segment_row(segment("short"), near(1, [2]))
    )

    found = find(engine)

    assert names(found) == ids("long", "short")
    assert found.candidates[0].score == pytest.approx(1, abs=1e-3)
    assert [each.path for each in found.candidates] == ["part 2 of 3", ""]


def test_part_found_is_that_of_the_text_stored_last(engine: IndexEngine) -> None:
    for windows in ([unit(1), unit(2), unit(3)], [unit(2), unit(1)]):
        store(engine, segment_row(segment("long"), *windows))

    assert [each.path for each in find(engine).candidates] == ["part 2 of 2"]


def test_depth_is_filled_despite_many_windows(engine: IndexEngine) -> None:
    others = [segment_row(segment(f"s{n}"), unit(100 + n)) for n in range(30)]
    store(engine, segment_row(segment("book"), *[near(1, [n]) for n in range(2, 300)]), *others)

    assert len(names(find(engine, depth=20))) == 20


def test_context_is_searched_apart_from_the_text(engine: IndexEngine) -> None:
    late = segment("late", event_time=NOON + days(2))
    store(
        engine,
        segment_row(segment("a"), unit(1), context=unit(2)),
        segment_row(segment("b"), unit(2)),
        segment_row(late, unit(3), context=unit(2)),
    )

    assert names(find(engine, 2, CONTEXT)) == ids("a")
    assert names(find(engine, 2, CONTEXT, filter_=Filter(kinds=("other",)))) == []
    assert names(find(engine, 2))[0] == segment_id("b")
    assert engine.vector_count == 5


def test_context_goes_with_its_row_or_before(engine: IndexEngine) -> None:
    for id_ in "ab":
        store(engine, segment_row(segment(id_), unit(1), context=unit(2)))
    engine.apply([segment_row(segment("a"), unit(1))], [(TENANT, segment_id("b"))])

    assert names(find(engine, 2, CONTEXT)) == []
    assert engine.count(TENANT, ids("a", "b")) == 1


# ---------------------------------------------------------------- changes


def test_token_states_go_with_their_row_or_before(engine: IndexEngine) -> None:
    rows = [
        segment_row(segment(f"{number}"), unit(number), context=unit(1), states=b"%d" % number)
        for number in range(70)
    ]
    engine.apply(rows, [])
    engine.apply([segment_row(segment("1"), unit(1), states=b"new")], [])
    engine.apply([segment_row(segment("2"), unit(2))], [])
    engine.apply([], [(TENANT, item) for item in ids("3")])
    engine.apply([], [(TENANT, segment_id(f"{number}")) for number in range(4, 69)])

    held = [engine.states(TENANT, segment_id(f"{number}")) for number in range(70)]

    assert held == [b"0", b"new", *[b""] * 67, b"69"]
    assert engine.states(OTHER, segment_id("0")) == b""


def test_a_row_takes_the_place_of_the_one_of_its_name(engine: IndexEngine) -> None:
    store(engine, segment_row(segment("a", kind="old"), unit(1), unit(2)))
    store(engine, segment_row(segment("a", kind="new"), unit(3)))

    assert names(find(engine, filter_=Filter(kinds=("old",)))) == []
    found = find(engine, 3, filter_=Filter(kinds=("new",)))
    assert found.candidates[0].score == pytest.approx(1, abs=1e-3)
    assert engine.vector_count == 1


@pytest.mark.parametrize("windows", [(), (1,)], ids=["without vectors", "with a vector"])
def test_filters_see_the_last_of_repeated_segments(
    engine: IndexEngine, windows: tuple[int, ...]
) -> None:
    earlier = segment_row(segment("a", kind="old"), *() if windows else [unit(1)])
    later = segment_row(segment("a", kind="new"), *map(unit, windows))
    store(engine, earlier, later, fact_row(fact("f", "x", "is", "y", evidence=("a",)), unit(1)))

    assert names(find(engine, kind=ItemKind.FACT, filter_=Filter(kinds=("old",)))) == []
    assert names(find(engine, kind=ItemKind.FACT, filter_=Filter(kinds=("new",)))) == [fact_id("f")]


def test_the_last_row_of_a_tenant_can_go(engine: IndexEngine) -> None:
    store(engine, segment_row(segment("a"), unit(1)))
    engine.apply([], [(TENANT, segment_id("a")), (TENANT, segment_id("never there"))])

    assert names(find(engine)) == []
    assert engine.count(TENANT, ids("a")) == 0
    assert engine.scan_size(TENANT, ItemKind.SEGMENT) == 0


def test_removal_of_many_rows_keeps_the_rest(engine: IndexEngine) -> None:
    rows = [
        segment_row(segment(f"s{n}", kind=f"k{n % 7}"), unit(n), near(n, [n + 1]))
        for n in range(500)
    ]
    store(engine, *rows)
    engine.apply([], [(TENANT, segment_id(f"s{n}")) for n in range(500) if n % 5])

    kept = [n for n in range(500) if n % 5 == 0]
    assert engine.vector_count == 2 * len(kept)
    assert engine.count(TENANT, ids(*(f"s{n}" for n in range(500)))) == len(kept)
    for n in kept[::10]:
        best = find(engine, n, depth=1, filter_=Filter(kinds=(f"k{n % 7}",)))
        assert names(best) == ids(f"s{n}")
    engine.apply([], [(TENANT, segment_id(f"s{n}")) for n in kept])
    assert engine.vector_count == 0


def test_tenants_do_not_see_each_other(engine: IndexEngine) -> None:
    store(
        engine,
        segment_row(segment("mine"), unit(1)),
        segment_row(segment("theirs"), unit(1), tenant=OTHER),
    )

    assert names(find(engine)) == ids("mine")
    assert names(find(engine, tenant=OTHER)) == ids("theirs")
    assert engine.count(OTHER, ids("mine", "theirs")) == 1


def test_searches_at_once_answer_as_alone(engine: IndexEngine) -> None:
    rows = [segment_row(segment(f"s{seed}", importance=seed / 20), near(seed)) for seed in range(9)]
    store(engine, *rows)
    scopes = [scope(), scope(filter_=Filter(min_importance=0.2)), scope(tenant=OTHER)]
    searches = [
        (unit(seed), WantedNeighbours(ItemKind.SEGMENT, in_scope, depth))
        for seed, in_scope, depth in product(range(4), scopes, (1, 5))
    ]

    assert engine.search_all(searches) == [engine.search(*search) for search in searches]


def test_vectors_of_another_dimension_are_rejected(engine: IndexEngine) -> None:
    rows = [segment_row(segment("a"), unit(1)), segment_row(segment("b"), unit(1, 3))]

    with pytest.raises(ValueError, match=f"{DIMENSION} dimensions, got 3"):
        store(engine, *rows)
    assert engine.vector_count == 0


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
def test_vectors_without_a_direction_are_refused_and_change_nothing(
    engine: IndexEngine, bad: float
) -> None:
    vector = np.full(DIMENSION, bad, np.float32)
    rows = [segment_row(segment("a"), unit(1)), segment_row(segment("b"), unit(1), vector)]

    with pytest.raises(ValueError, match="a vector of 'b' is zero or not finite"):
        store(engine, *rows)
    assert engine.vector_count == 0


# ---------------------------------------------------------------- only some of them


def test_only_the_given_items_are_considered(engine: IndexEngine) -> None:
    store(engine, *(segment_row(segment(f"s{n}"), near(1, [n])) for n in range(2, 60)))
    store(engine, segment_row(segment("windows"), unit(70), near(1, [71])))
    store(engine, segment_row(segment("theirs"), unit(1), tenant=OTHER))
    asked = ids("s7", "windows", "s50", "unknown", "theirs")

    found = find(engine, only=asked)

    assert set(names(found)) == set(ids("s7", "windows", "s50"))
    assert found.candidates == [c for c in find(engine).candidates if c.item in asked]
    assert names(find(engine, only=asked, depth=1)) == names(found)[:1]
    assert names(find(engine, only=set(asked))) == names(found)
    assert names(find(engine, only=())) == []


def test_an_id_asked_for_means_the_item_of_its_kind(engine: IndexEngine) -> None:
    store(
        engine,
        segment_row(segment("a"), unit(1)),
        fact_row(fact("a", "x", "is", "y", evidence=("b",)), unit(1)),
        fact_row(fact("b", "x", "is", "y", evidence=("a",)), unit(1)),
    )

    assert names(find(engine, only=[fact_id("a")])) == []
    assert names(find(engine, only=[segment_id("a")], kind=ItemKind.FACT)) == []
    found = find(engine, only=[fact_id("a"), segment_id("a")], kind=ItemKind.FACT)
    assert names(found) == [fact_id("a")]


# ---------------------------------------------------------------- evidence


@pytest.mark.parametrize(
    ("filter_", "as_of", "evidence"),
    [
        (Filter(), NOON + days(3), ("turn", "note", "unseen")),
        (Filter(), NOON + days(1), ("turn", "unseen")),
        (Filter(kinds=("turn", "note")), NOON + days(3), ("turn", "note")),
        (Filter(kinds=("note",)), NOON + days(3), ("note",)),
        (Filter(kinds=("note",)), NOON + days(1), None),
        (Filter(kinds=("other",)), NOON + days(3), None),
        (Filter(event_time=TimeRange(start=NOON + days(1))), NOON + days(3), ("note",)),
        (Filter(event_time=TimeRange(start=NOON + days(9))), NOON + days(3), ()),
    ],
)
def test_a_fact_brings_the_evidence_that_the_scope_accepts(
    engine: IndexEngine, filter_: Filter, as_of: datetime, evidence: tuple[str, ...] | None
) -> None:
    later, rests_on = NOON + days(2), ("turn", "note", "unseen")
    store(
        engine,
        segment_row(segment("turn", kind="turn"), unit(2)),
        segment_row(segment("note", kind="note", event_time=later), unit(3)),
        fact_row(fact("f", "x", "is", "y", evidence=rests_on), unit(1)),
    )

    found = find(engine, kind=ItemKind.FACT, filter_=filter_, as_of=as_of)

    assert found.evidence == ({} if evidence is None else {"f": evidence})


def test_segment_without_vectors_supports_facts(engine: IndexEngine) -> None:
    stored = fact("f", "x", "is", "y", evidence=("note",))
    note = segment("note", kind="note")
    store(engine, segment_row(note), fact_row(stored, unit(1)))
    notes = Filter(kinds=("note",))

    assert names(find(engine)) == []
    assert find(engine, kind=ItemKind.FACT, filter_=notes).evidence == {"f": ("note",)}
    assert engine.count(TENANT, [note.item]) == 1

    store(engine, segment_row(note, unit(2)))
    assert names(find(engine)) == [note.item]
    store(engine, segment_row(note))
    assert names(find(engine)) == []
    engine.apply([], [(TENANT, note.item)])
    assert names(find(engine, kind=ItemKind.FACT, filter_=notes)) == []
    assert engine.count(TENANT, [note.item]) == 0


LATER = NOON + days(3)
KNOWN_TIMES: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"recorded_at": LATER}, True),
    ({"recorded_at": LATER + days(1)}, False),
    ({"retracted_at": LATER}, False),
    ({"retracted_at": LATER + days(1)}, True),
    ({"closings": (Closing("x", NOON, LATER),)}, False),
    ({"closings": (Closing("x", NOON, LATER + days(1)),)}, True),
    ({"closings": (Closing("x", NOON, LATER + days(1)),), "valid_to": NOON}, False),
    ({"closings": (Closing("x", NOON, LATER), Closing("y", NOON, LATER + days(1)))}, False),
    ({"closings": (Closing("x", NOON, NOON, LATER),)}, True),
    ({"closings": (Closing("x", NOON, NOON, LATER + days(1)),)}, False),
    ({"closings": (Closing("x", LATER + days(6), NOON),)}, True),
]
"""Times of a fact, and whether it counts at `LATER` for who asks about some days after."""


@pytest.mark.parametrize(("times", "known"), KNOWN_TIMES)
def test_fact_brings_only_known_evidence(
    engine: IndexEngine, times: dict[str, Any], known: bool
) -> None:
    stored = fact("f", "x", "is", "y", evidence=("turn",), **times)
    store(engine, segment_row(segment("turn", created_at=NOON), unit(2)), fact_row(stored, unit(1)))

    found = find(engine, kind=ItemKind.FACT, as_of=LATER + days(5), known_at=LATER)

    assert found.evidence == ({"f": ("turn",)} if known else {})


JUST = timedelta(microseconds=1)


@pytest.mark.parametrize("asked", [(-JUST, 0 * JUST), (0 * JUST, -JUST), (JUST, -JUST, JUST)])
@pytest.mark.parametrize(
    ("times", "event_time"),
    [
        ({"valid_from": LATER}, NOON),
        ({"valid_to": LATER}, NOON),
        ({"retracted_at": LATER}, NOON),
        ({"closings": (Closing("x", LATER, NOON),)}, NOON),
        ({"closings": (Closing("x", NOON, NOON, retracted_at=LATER),)}, NOON),
        ({}, LATER),
    ],
)
def test_cached_view_is_not_used_for_another_time(
    make_engine: MakeEngine,
    times: dict[str, Any],
    event_time: datetime,
    asked: tuple[timedelta, ...],
) -> None:
    stored = fact("f", "x", "is", "y", evidence=("note",), **times)
    note = segment("note", kind="note", event_time=event_time)

    def filled() -> IndexEngine:
        engine = make_engine()
        store(engine, segment_row(note, unit(2)), fact_row(stored, unit(1)))
        return engine

    once_filled = filled()
    for filter_, kind in product((Filter(), Filter(kinds=("note",))), ItemKind):
        found, expected = (
            [
                names(find(engine, kind=kind, filter_=filter_, as_of=LATER + after))
                for engine, after in zip(engines, asked, strict=True)
            ]
            for engines in ([once_filled] * len(asked), [filled() for _ in asked])
        )
        assert found == expected


def test_facts_keep_closings_and_evidence_when_many_go(engine: IndexEngine) -> None:
    closed = (Closing("x", NOON, LATER),)
    evidence = {f"f{n}": ("turn" if n % 2 else "note",) for n in range(300)}
    store(
        engine,
        segment_row(segment("note", kind="note"), unit(2)),
        segment_row(segment("turn", kind="turn"), unit(3)),
        *(
            fact_row(
                fact(id_, "x", "is", "y", evidence=rests_on, closings=closed if n % 3 else ()),
                unit(n),
            )
            for n, (id_, rests_on) in enumerate(evidence.items())
        ),
    )
    engine.apply([], [(TENANT, fact_id(f"f{n}")) for n in range(285)])

    def found(**of_scope: Any) -> dict[str, tuple[str, ...]]:
        return dict(find(engine, kind=ItemKind.FACT, **of_scope).evidence)

    left = range(285, 300)
    assert found(known_at=LATER - days(1)) == {f"f{n}": evidence[f"f{n}"] for n in left}
    assert found() == {f"f{n}": evidence[f"f{n}"] for n in left if not n % 3}
    assert found(filter_=Filter(kinds=("note",))) == {f"f{n}": ("note",) for n in left if not n % 6}


# ---------------------------------------------------------------- against Filter.accepts

INSTANTS = st.integers(0, 4).map(lambda n: NOON + days(n))
SOME_INSTANT = st.none() | INSTANTS
NAMES = st.sampled_from(["Ann", "ANN", "ann's", "Bob"])

segments = st.builds(
    Segment,
    id=st.sampled_from([f"s{n}" for n in range(12)]),
    text=st.just("text"),
    event_time=INSTANTS,
    kind=st.sampled_from(["turn", "note"]),
    speaker=NAMES | st.just(""),
    session=st.sampled_from(["", "one", "two"]),
    importance=st.sampled_from([0.0, 0.3, 0.7]),
    labels=st.dictionaries(st.sampled_from(["project", "source"]), st.sampled_from(["x", "y"])),
    entities=st.lists(NAMES, max_size=2).map(tuple),
    entity=NAMES | st.just(""),
    created_at=SOME_INSTANT,
    updated_at=SOME_INSTANT,
)


CLOSINGS = st.builds(Closing, st.just("f9"), INSTANTS, INSTANTS, SOME_INSTANT)


@st.composite
def facts(draw: st.DrawFn) -> Fact:
    start, end = draw(SOME_INSTANT), draw(SOME_INSTANT)
    return fact(
        draw(st.sampled_from([f"f{n}" for n in range(6)])),
        *("x", "is", "y"),
        valid_from=start,
        valid_to=end if start is None or end is None or end > start else None,
        recorded_at=draw(INSTANTS),
        retracted_at=draw(SOME_INSTANT),
        closings=tuple(draw(st.lists(CLOSINGS, max_size=2))),
        evidence=tuple(draw(st.lists(st.sampled_from([f"s{n}" for n in range(12)]), max_size=3))),
    )


RANGES = st.just(TimeRange()) | st.builds(TimeRange, SOME_INSTANT, SOME_INSTANT)

flat_filters = st.builds(
    Filter,
    kinds=some(["turn", "note"]),
    labels=st.just({})
    | st.dictionaries(st.sampled_from(["project", "source"]), some(["x", "y", "z"]), max_size=1),
    speakers=some(["ANN", "bob"]),
    sessions=some(["one", "two"]),
    entities=some(["ann", "Bob", "Carl"]),
    min_importance=st.sampled_from([0.0, 0.0, 0.3, 0.7]),
    event_time=RANGES,
    created_at=RANGES,
    updated_at=RANGES,
    none_of=st.just(Exclusion())
    | st.builds(
        Exclusion,
        kinds=some(["note"]),
        speakers=some(["Ann", "BOB"]),
        sessions=some(["one", "two"]),
        ids=some([f"s{n}" for n in range(6)]),
        fact_ids=some(["f0", "f1"]),
    ),
)


filters = nested(flat_filters)


class Corpus:
    """Items with the directions of their vectors, and the expected results."""

    def __init__(self) -> None:
        self.segments: dict[str, Segment] = {}
        self.facts: dict[str, Fact] = {}
        self.seeds: dict[ItemId, list[int]] = {}

    def put(self, item: Segment | Fact, seeds: list[int]) -> IndexRow:
        self.seeds[item.item] = seeds
        if isinstance(item, Segment):
            self.segments[item.id] = item
            return segment_row(item, *map(unit, seeds))
        self.facts[item.id] = item
        self.seeds[item.item] = seeds or [1]
        return fact_row(item, *map(unit, seeds or [1]))

    def remove(self, item: ItemId) -> None:
        self.segments.pop(item.id, None)
        self.facts.pop(item.id, None)

    def expected(
        self, kind: ItemKind, in_scope: Scope, only: Collection[ItemId] | None
    ) -> Neighbours:
        def asked(item: ItemId) -> bool:
            return only is None or item in only

        if kind is ItemKind.SEGMENT:
            placed = [s for s in self.segments.values() if self.seeds[s.item]]
            segments = [s for s in placed if visible(s, in_scope)]
            return Neighbours(self.scored([s.item for s in segments if asked(s.item)]))
        facts = [
            fact
            for fact in self.facts.values()
            if asked(fact.item) and is_shown(fact, in_scope, self.segments)
        ]
        evidence = {
            f.id: tuple(self.evidence(f, in_scope))
            for f in facts
            if not self.segments.keys().isdisjoint(f.evidence)
        }
        return Neighbours(self.scored([f.item for f in facts]), evidence)

    def scored(self, items: list[ItemId]) -> list[Candidate]:
        def score(item: ItemId) -> float:
            stored = (unit(seed).astype(np.float16).astype(np.float32) for seed in self.seeds[item])
            return round(max(float(vector @ unit(1)) for vector in stored), 4)

        return best_first(Candidate(item, score(item)) for item in items)

    def evidence(self, fact: Fact, in_scope: Scope) -> Iterable[str]:
        for id_ in fact.evidence:
            if id_ not in self.segments:
                if not in_scope.filter.selects:
                    yield id_
            elif visible(self.segments[id_], in_scope):
                yield id_


seeds = st.lists(st.integers(1, 6), max_size=3)
"""Of the vectors; a segment may be without."""
puts = st.lists(st.tuples(segments | facts(), seeds), max_size=12)
item_ids = st.integers(0, 11).map(lambda n: segment_id(f"s{n}")) | st.integers(0, 5).map(
    lambda n: fact_id(f"f{n}")
)
removals = st.lists(item_ids, max_size=4)


def test_narrow_filter_finds_all_that_pass(engine: IndexEngine) -> None:
    segments = [segment(f"s{n}", labels={"day": str(n)}) for n in range(400)]
    engine.apply([segment_row(each, unit(n)) for n, each in enumerate(segments)], [])
    few = Filter(any_of=(Filter(labels={"day": NumberRange(201, 202)}), Filter(speakers=("x",))))

    found = engine.search(unit(1), WantedNeighbours(ItemKind.SEGMENT, scope(filter_=few), 3))

    assert sorted(each.item.id for each in found.candidates) == ["s201", "s202"]


@pytest.mark.parametrize("kind", list(ItemKind))
@given(
    changes=st.lists(st.tuples(puts, removals), min_size=1, max_size=3),
    filter_=filters,
    as_of=INSTANTS,
    known_at=SOME_INSTANT,
    depth=st.integers(1, 20),
    only=st.none() | st.lists(item_ids) | st.frozensets(item_ids),
)
def test_search_finds_rows_of_filter_and_clock(
    make_engine: MakeEngine,
    kind: ItemKind,
    changes: list[tuple[list[tuple[Segment | Fact, list[int]]], list[ItemId]]],
    filter_: Filter,
    as_of: datetime,
    known_at: datetime | None,
    depth: int,
    only: Collection[ItemId] | None,
) -> None:
    engine, corpus = make_engine(), Corpus()
    in_scope = scope(filter_=filter_, as_of=as_of, known_at=known_at)
    wanted = WantedNeighbours(kind, in_scope, depth)
    for put, removed in changes:
        engine.search(unit(1), wanted)  # what it may keep must not go stale
        for item in removed:
            corpus.remove(item)
        engine.apply([], [(TENANT, item) for item in removed])
        store(engine, *(corpus.put(item, directions) for item, directions in put))

    found = engine.search(unit(1), replace(wanted, only=only))

    expected = corpus.expected(kind, in_scope, only)
    assert names(found) == names(expected)[:depth]
    kept = {item.id for item in names(found)}
    assert dict(found.evidence) == {k: v for k, v in expected.evidence.items() if k in kept}


# ---------------------------------------------------------------- traits


def test_traits_are_those_of_the_stored_rows(engine: IndexEngine, tmp_path: Path) -> None:
    said = segment("a", speaker="Mara", event_time=NOON - days(3))
    became_true = fact("f", "Mara", "likes", "tea", valid_from=NOON - days(2))
    recorded = fact("g", "Mara", "likes", "tea", recorded_at=NOON - days(1))
    store(engine, segment_row(said, unit(1), unit(2)))
    store(engine, fact_row(became_true, unit(1)), fact_row(recorded, unit(1)))
    asked = [segment_id("a"), fact_id("f"), fact_id("g"), segment_id("unknown")]

    traits = engine.traits(TENANT, asked)

    vectors = {item: each.vector for item, each in traits.items()}
    assert {item: each._replace(stored=None, scale=1.0) for item, each in traits.items()} == {
        item.item: Traits.of(item) for item in (said, became_true, recorded)
    }
    scaled = unit(1) * scale_of(np.stack([unit(1), unit(2)]))
    assert all(
        vector is None or np.allclose(vector, scaled, atol=1e-3) for vector in vectors.values()
    )
    assert engine.traits(OTHER, asked) == {}
    engine.apply([], [(TENANT, segment_id("a"))])
    assert segment_id("a") not in engine.traits(TENANT, asked)


# ---------------------------------------------------------------- closed facts


def lived(id_: str, *evidence: str, **fields: Any) -> IndexRow:
    return fact_row(fact(id_, "Nora", "lives in", id_, evidence=evidence, **fields), unit(1))


def closed_by(engine: IndexEngine, **of_scope: Any) -> dict[str, str]:
    """Each turn whose facts are all closed, with the evidence of those that closed them."""
    asked = [*ids("york", "leeds", "both", "other"), fact_id("york")]
    closed = engine.closed(scope(**of_scope), asked)
    return {item.id: " ".join(by.id for by in newer) for item, newer in closed.items()}


def moved(*, retracted_at: datetime | None = None) -> list[IndexRow]:
    """York was closed by Leeds at noon, which was recorded a day later; by Dover it will be."""
    recorded_at = NOON + days(1)
    closing = Closing("leeds", NOON, recorded_at, retracted_at)
    later = Closing("dover", NOON + days(99), NOON)
    leeds = {"valid_from": NOON, "recorded_at": recorded_at, "retracted_at": retracted_at}
    return [
        lived("york", "york", "both", valid_from=NOON - days(9), closings=(closing, later)),
        lived("dover", "dover", valid_from=later.at),
        lived("leeds", "leeds", "both", "later", **leeds),
        lived("bath", "other", valid_to=NOON),
    ]


def test_turns_of_closed_facts_alone_are_closed(engine: IndexEngine) -> None:
    turns = (segment_row(segment(id_), unit(2)) for id_ in ("york", "leeds", "both", "other"))
    store(engine, *turns, *moved())

    after = NOON + days(2)

    closed = {"york": "both later leeds", "other": ""}
    assert closed_by(engine, as_of=after) == closed
    assert closed_by(engine, as_of=NOON - days(1)) == {}
    assert closed_by(engine, as_of=after, known_at=NOON + days(1)) == closed
    assert closed_by(engine, as_of=after, known_at=NOON) == {"other": ""}
    left_out = Filter(none_of=Exclusion(fact_ids=("york",)))
    assert closed_by(engine, as_of=after, filter_=left_out) == {"other": ""}
    assert closed_by(engine, tenant=OTHER, as_of=after) == {}


def test_retracted_closings_close_no_turns(engine: IndexEngine) -> None:
    store(engine, *moved())
    assert closed_by(engine, as_of=NOON + days(9)).keys() == {"york", "other"}

    store(engine, *moved(retracted_at=NOON + days(3)))

    known = closed_by(engine, as_of=NOON + days(9), known_at=NOON + days(2))
    assert closed_by(engine, as_of=NOON + days(9)).keys() == {"other"}
    assert known.keys() == {"york", "other"}


def test_closed_turn_remains_when_the_later_fact_goes(engine: IndexEngine) -> None:
    store(engine, *moved())
    engine.apply([], [(TENANT, fact_id("leeds"))])

    assert closed_by(engine, as_of=NOON + days(2)) == {"york": "", "both": "", "other": ""}


# ---------------------------------------------------------------- turns next to others


def turn(id_: str, minute: int, text: str = "Yes.", *, session: str = "call") -> Segment:
    return segment(id_, text, session=session, event_time=NOON + timedelta(minutes=minute))


def neighbours(engine: IndexEngine, asked: str, **of_scope: object) -> dict[str, str]:
    """The turns before and after each, in one text, where "?" is behind those that ask."""

    def named(found: Turn | None) -> str:
        return "-" if found is None else found.item.id + "?" * found.asks

    adjacent = engine.adjacent(scope(**of_scope), ids(*asked))  # type: ignore[arg-type]
    return {
        item.id: f"{named(of.before)} {named(of.after)}{' asks' if of.asks else ''}"
        for item, of in adjacent.items()
    }


def test_adjacent_turns_are_those_by_time_and_id(engine: IndexEngine) -> None:
    turns = [turn("d", 3), turn("c", 2, "Where?"), turn("b", 2), turn("a", 1)]
    others = [turn("x", 2, session="other"), turn("y", 2, session="")]
    store(engine, *(segment_row(each, unit(1), unit(2)) for each in (*turns, *others)))

    found = neighbours(engine, "abcdxyz")

    assert found == {
        "a": "- b",
        "b": "a c?",
        "c": "b d asks",
        "d": "c? -",
        "x": "- -",
        "y": "- -",
    }


def test_adjacent_turns_of_one_time_are_as_stored(engine: IndexEngine) -> None:
    stored = (NOON + timedelta(microseconds=place) for place in range(3))
    turns = [replace(turn(id_, 0), created_at=at) for id_, at in zip("cab", stored, strict=True)]
    store(engine, *(segment_row(each, unit(1)) for each in reversed(turns)))

    assert neighbours(engine, "abc") == {"a": "c b", "b": "a -", "c": "- a"}


def test_changed_turn_has_other_neighbours(engine: IndexEngine) -> None:
    store(engine, *(segment_row(turn(id_, at), unit(1)) for at, id_ in enumerate("abcd")))
    assert neighbours(engine, "b") == {"b": "a c"}

    engine.apply([segment_row(turn("a", 9), unit(1))], [(TENANT, segment_id("c"))])

    assert neighbours(engine, "abc") == {"a": "d -", "b": "- d"}
    assert engine.adjacent(scope(OTHER), ids("a")) == {}


def test_adjacent_turns_must_be_in_scope(engine: IndexEngine) -> None:
    later = replace(turn("c", 2), speaker="Ben")
    store(engine, *(segment_row(each, unit(1)) for each in (turn("a", 0), turn("b", 1), later)))

    as_of = NOON + timedelta(minutes=1)

    assert neighbours(engine, "b", as_of=NOON + days(1)) == {"b": "a c"}
    assert neighbours(engine, "b", as_of=as_of) == {"b": "a -"}
    only = Filter(speakers=("Ben",))
    assert neighbours(engine, "b", filter_=only, as_of=NOON + days(1)) == {"b": "- c"}

"""PostgreSQL's adapter, without a server."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import PoolTimeout, TooManyRequests

from serving.adapters.postgres.connection.dsn import parses, with_defaults
from serving.adapters.postgres.connection.errors import StatementRejectedError, store_errors
from serving.adapters.postgres.log.positions import covers
from serving.adapters.postgres.tables.content import content_hash, text_hash
from serving.adapters.postgres.tables.filters import conditions_of, tags_of, terms_of
from serving.adapters.postgres.tables.rows import array_literal
from serving.domain.consistency import Snapshot, position_after
from serving.domain.errors import OverloadedError, StoreUnavailableError
from serving.domain.items.records import Fact, Item, Segment
from serving.domain.items.validity import Closing
from serving.domain.questions.filters import segment_terms
from serving.domain.questions.query import NO_FILTER, Filter, TimeRange
from serving.domain.words.query_plan import (
    MAX_WORDS,
    Budget,
    QueryPlan,
    WordStatistics,
    plan_query,
    quoted,
)
from tests.support.builders import NOON, days, fact, segment

SEGMENT = segment("a", title="Trip", speaker="Ann", labels={"p": "1", "q": "2"}, entities=("Goa",))
FACT = fact("f", "Ann", "likes", "Goa", evidence=("a", "b"), valid_from=NOON)
SEGMENT_CHANGES: dict[str, Any] = {
    "id": "b",
    "text": "We flew to Goa.",
    "title": "",
    "kind": "note",
    "speaker": "Bob",
    "session": "s",
    "event_time": NOON + days(1),
    "importance": 0.6,
    "sensitive": True,
    "labels": {"p": "1"},
    "entities": (),
    "entity": "Goa",
}
FACT_CHANGES: dict[str, Any] = {
    "subject": "Bob",
    "relation": "hates",
    "object": "Rome",
    "sentence": "Ann likes Goa.",
    "valid_from": None,
    "valid_to": NOON + days(1),
    "recorded_at": NOON + days(1),
    "retracted_at": NOON,
    "evidence": ("b", "a"),
    "weight": 0.5,
    "sensitive": True,
    "closes": ("g",),
    "single_valued": True,
}


def hashed(item: Item, config: str = "english", **options: bool) -> bytes:
    return content_hash(item, config, **options)


@pytest.mark.parametrize(
    ("item", "field", "value"),
    [
        *((SEGMENT, field, value) for field, value in SEGMENT_CHANGES.items()),
        *((FACT, field, value) for field, value in FACT_CHANGES.items()),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_content_hash_covers_every_field(item: Item, field: str, value: Any) -> None:
    assert hashed(replace(item, **{field: value})) != hashed(item)


def test_content_hash_covers_kind_and_configuration() -> None:
    assert hashed(SEGMENT) != hashed(SEGMENT, "german")
    assert hashed(segment("a")) != hashed(fact("a", "x", "y", "z"))


@pytest.mark.parametrize(
    ("item", "begins"),
    [
        (Segment(id="a", text="Tea at noon", event_time=NOON), "d8a7d6806ce83a36"),
        (
            Fact(id="a", subject="Mara", relation="likes", object="tea", recorded_at=NOON),
            "6315b594471eb8f0",
        ),
    ],
)
def test_content_hash_is_that_of_stored_rows(item: Item, begins: str) -> None:
    # With another one, all that is stored counts as changed when it is written again.
    assert hashed(item).hex().startswith(begins)


@pytest.mark.parametrize(
    ("same", "item"),
    [
        (replace(SEGMENT, created_at=NOON, updated_at=NOON), SEGMENT),
        (replace(FACT, closings=(Closing("g", NOON, NOON),)), FACT),
        (replace(SEGMENT, labels={"q": "2", "p": "1"}), SEGMENT),
        (replace(SEGMENT, event_time=NOON.astimezone(timezone(timedelta(hours=5)))), SEGMENT),
        (replace(SEGMENT, extracted=True), replace(SEGMENT, entities=())),
    ],
    ids=["times of writes", "closings", "order of labels", "time zone", "extracted entities"],
)
def test_content_hash_ignores_additions_of_the_service(same: Item, item: Item) -> None:
    assert hashed(same) == hashed(item)


@pytest.mark.parametrize("item", [SEGMENT, FACT], ids=["segment", "fact"])
def test_a_time_that_the_service_set_does_not_count(item: Any) -> None:
    field = "event_time" if item is SEGMENT else "recorded_at"
    later = replace(item, **{field: NOON + days(1)})

    assert hashed(later, undated=True) == hashed(item, undated=True)


def test_text_hash_covers_only_title_speaker_and_text() -> None:
    others = [replace(SEGMENT, title="x"), replace(SEGMENT, speaker="x"), replace(SEGMENT, text="")]

    assert text_hash(replace(SEGMENT, importance=1.0)) == text_hash(SEGMENT)
    assert len({text_hash(item) for item in (SEGMENT, *others)}) == 4


@pytest.mark.parametrize(
    ("dsn", "is_valid"),
    [
        ("host=/run user=me password='two words'", True),
        ("postgresql://me@host", True),
        ("host=/run password=two words", False),
        ("postgresql://me@[host", False),
    ],
)
def test_only_a_valid_string_parses(dsn: str, is_valid: bool) -> None:
    assert parses(dsn) is is_valid


def test_a_connection_string_keeps_its_own_settings() -> None:
    given = "host=db options='-c search_path=memory' connect_timeout=1 application_name=mine"

    used = conninfo_to_dict(with_defaults(given))

    assert used["host"] == "db"
    assert used["options"] == "-c search_path=memory -c TimeZone=UTC"
    assert (str(used["connect_timeout"]), used["application_name"]) == ("1", "mine")


def test_an_unresponsive_server_is_given_up() -> None:
    used = conninfo_to_dict(with_defaults("postgresql://user@db/memory"))

    assert used["connect_timeout"]
    assert used["tcp_user_timeout"]


SECRET = "Failing row contains (my secret)"


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (errors.QueryCanceled(SECRET), TimeoutError),
        (TooManyRequests(SECRET), OverloadedError),
        (PoolTimeout(SECRET), StoreUnavailableError),
        (psycopg.OperationalError(SECRET), StoreUnavailableError),
        (psycopg.InterfaceError(SECRET), StoreUnavailableError),
        (errors.AdminShutdown(SECRET), StoreUnavailableError),
        (errors.ReadOnlySqlTransaction(SECRET), StoreUnavailableError),
        (errors.CheckViolation(SECRET), StatementRejectedError),
        (psycopg.DataError(SECRET), StatementRejectedError),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value.__name__,
)
def test_an_error_becomes_ours_without_its_text(
    raised: Exception, expected: type[Exception]
) -> None:
    with pytest.raises(expected) as caught, store_errors():
        raise raised

    assert SECRET not in str(caught.value)
    assert caught.value.__suppress_context__
    if expected is StatementRejectedError:
        assert caught.value.__cause__ is None, "it quotes a row"


def test_errors_that_are_not_psycopgs_pass() -> None:
    with pytest.raises(KeyError), store_errors():
        raise KeyError("a")


instants = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))


def weeks_of(range_: TimeRange, as_of: datetime | None = None) -> list[str] | None:
    """The week terms of a filter by time; None if it has none."""
    values = conditions_of(Filter(event_time=range_), as_of).values.values()
    return next((value for value in values if isinstance(value, list)), None)


def test_tags_are_the_terms_and_the_week() -> None:
    tags = tags_of(segment("a", speaker="Ann"))

    assert terms_of(tags) == segment_terms(segment("a", speaker="Ann"))
    assert [tag for tag in tags if tag.startswith("w:")] == ["w:2930"]


@given(start=instants, length=st.timedeltas(timedelta(0), timedelta(days=150)), data=st.data())
def test_the_weeks_of_a_range_hold_every_instant_in_it(
    start: datetime, length: timedelta, data: st.DataObject
) -> None:
    within = start + length * data.draw(st.floats(0, 1))

    asked = weeks_of(TimeRange(start, start + length))

    assert asked is not None
    assert not set(asked).isdisjoint(tags_of(segment("a", event_time=within)))


def test_only_short_closed_ranges_ask_for_weeks() -> None:
    assert str(conditions_of(NO_FILTER)) == ""
    assert weeks_of(TimeRange(None, NOON)) is None
    assert weeks_of(TimeRange(NOON, None)) is None
    assert weeks_of(TimeRange(NOON, NOON + days(200))) is None
    assert weeks_of(TimeRange(NOON, None), as_of=NOON + days(7)) == ["w:2930", "w:2931"]


XIDS = range(3, 40)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    xmax = draw(st.integers(3, 40))
    return Snapshot(xmax, frozenset(xid for xid in range(3, xmax) if draw(st.booleans())))


@st.composite
def later_snapshots(draw: st.DrawFn) -> tuple[Snapshot, Snapshot]:
    earlier = draw(snapshots())
    xmax = draw(st.integers(earlier.xmax, 40))
    running = frozenset(
        xid for xid in range(3, xmax) if not earlier.includes(xid) and draw(st.booleans())
    )
    return earlier, Snapshot(xmax, running)


@given(later_snapshots(), st.data())
def test_stopped_reader_has_seen_only_handled_changes(
    taken: tuple[Snapshot, Snapshot], data: st.DataObject
) -> None:
    position, now = taken
    logged = [xid for xid in XIDS if now.includes(xid) and not position.includes(xid)]
    if not logged:
        return
    newest = data.draw(st.sampled_from(logged))

    reached = position_after(position, now, newest)

    unhandled = [xid for xid in logged if xid > newest]
    expected = now.without(unhandled)
    assert [xid for xid in XIDS if reached.includes(xid)] == [
        xid for xid in XIDS if expected.includes(xid)
    ]


def test_position_stays_short_for_any_backlog() -> None:
    reached = position_after(Snapshot(3), Snapshot(1_000_000), newest=10)

    assert str(reached) == "11:11:"


@given(snapshots(), snapshots())
def test_snapshot_covers_another_only_if_complete(left: Snapshot, right: Snapshot) -> None:
    if covers(left, right):
        assert all(left.includes(xid) for xid in XIDS if right.includes(xid))


@given(later_snapshots())
def test_a_later_snapshot_covers_an_earlier_one(taken: tuple[Snapshot, Snapshot]) -> None:
    earlier, later = taken

    assert covers(later, earlier)


USUAL = Budget()
SMALL = Budget(all_rows=100, candidates=50, postings=1000)


def statistics(**frequencies: int) -> WordStatistics:
    """The statistics of a thousand segments, with the words in the given numbers of them."""
    return WordStatistics(1000, frequencies)


def once(*words: str) -> dict[str, int]:
    return dict.fromkeys(words, 1)


def planned(budget: Budget = USUAL, /, **frequencies: int) -> QueryPlan:
    return plan_query(once(*frequencies), statistics(**frequencies), budget)


@pytest.mark.parametrize(
    ("frequencies", "candidates"),
    [
        ({"goa": 60, "sail": 40}, "'sail' | 'goa'"),
        ({"goa": 10, "sail": 120, "day": 150}, "'goa' | ('sail' & ('day'))"),
        ({"goa": 40, "sail": 300, "day": 400}, "'goa'"),
        ({"day": 900, "time": 800}, "'time'"),
    ],
    ids=["few rows", "common words in pairs", "pairs of too many rows", "common words alone"],
)
def test_rows_of_candidates_stay_within_the_budget(
    frequencies: dict[str, int], candidates: str
) -> None:
    plan = planned(SMALL, **frequencies)

    assert plan.candidates == candidates
    assert plan.complete == (sum(frequencies.values()) <= SMALL.all_rows)


def test_a_complete_plan_leaves_no_word_out_whatever_the_budget() -> None:
    plan = plan_query(once("day", "time"), statistics(day=900, time=800), SMALL, complete=True)

    assert plan.complete
    assert plan.candidates == "'time' | 'day'"


def test_a_long_question_keeps_its_rarest_words() -> None:
    frequencies = {f"word{place:02}": place for place in range(1, 41)}

    plan = planned(**frequencies)

    assert plan.words == [f"word{place:02}" for place in range(1, MAX_WORDS + 1)]


def test_a_word_weighs_its_inverse_document_frequency() -> None:
    plan = planned(goa=10, sail=40)

    assert plan.weights == [
        pytest.approx(1.645 * math.log(1 + (10 + 40 + 0.5) / (10 + 0.5))),
        pytest.approx(1.645 * math.log(1 + (10 + 40 + 0.5) / (40 + 0.5))),
    ]


def test_a_weight_does_not_depend_on_segments_without_the_words() -> None:
    few, many = (WordStatistics(segments, {"goa": 10, "sail": 40}) for segments in (50, 5000))

    assert few.weights(["goa", "sail"]) == many.weights(["goa", "sail"])


def test_typical_length_of_a_text_changes_no_score() -> None:
    plan = planned(goa=10)

    assert plan.base + plan.slope * 60.0 == pytest.approx(1.9)  # 1 + k1


def test_words_of_an_empty_tenant_weigh_the_same() -> None:
    plan = plan_query(once("goa", "sail"), WordStatistics(0), Budget())

    assert plan.complete
    assert plan.weights[0] == plan.weights[1] > 0


@pytest.mark.parametrize(
    ("word", "written"),
    [("goa", "'goa'"), ("o'brien", "'o''brien'"), ("a\\b", "'a\\\\b'"), ("a & b", "'a & b'")],
)
def test_a_word_has_no_other_meaning_in_a_query(word: str, written: str) -> None:
    assert quoted(word) == written


words = st.dictionaries(
    st.text("abcdefgh'\\", min_size=1, max_size=4), st.integers(0, 1000), min_size=1, max_size=40
)


@given(words)
def test_expected_rows_of_single_words_stay_within_the_budget(frequencies: dict[str, int]) -> None:
    known = statistics(**frequencies)

    plan = planned(SMALL, **frequencies)

    alone = re.sub(r"\([^()]*\([^()]*\)\)", "a pair", plan.candidates).split(" | ")
    single = [word for word in frequencies if quoted(word) in alone]
    assert plan.complete or len(alone) == 1 or sum(map(known.frequency, single)) <= 50


@given(words)
def test_plan_has_candidates_and_weights_for_all_words(frequencies: dict[str, int]) -> None:
    plan = planned(SMALL, **frequencies)

    assert plan.candidates
    assert len(plan.words) == len(plan.weights) == min(len(frequencies), MAX_WORDS)
    assert all(weight > 0 for weight in plan.weights)


def test_a_repeated_word_weighs_twice() -> None:
    plan = plan_query({"goa": 2, "sail": 1}, statistics(goa=10, sail=10), Budget())

    weights = dict(zip(plan.words, plan.weights, strict=True))
    assert weights["goa"] == pytest.approx(2 * weights["sail"])


def test_texts_are_written_as_postgresql_writes_an_array() -> None:
    written = array_literal(["a b", 'say "hi"', "back\\slash", "{x,y}", "NULL", ""])

    assert written == r'{"a b","say \"hi\"","back\\slash","{x,y}","NULL",""}'
    assert array_literal([]) == "{}"

"""What a scope shows of the segments: the same in each statement that reads them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from serving.domain.budget import Deadline
from serving.domain.items.records import TenantName
from serving.domain.questions.query import NO_FILTER, Exclusion, Filter, TimeRange
from tests.contract.test_access_log import show
from tests.contract.test_lexical import MODES
from tests.fixtures.memory_or_postgres import Stored
from tests.support.builders import NOON, TENANT, days, ids, query, scope, segment

# So that the tests notice a statement without its tenant.
pytestmark = pytest.mark.without_row_security

OTHER = TenantName("other")


async def shown(stored: Stored, **of_scope: object) -> str:
    """The ids of what is found in the scope, by words that all have and by their times."""
    of, deadline = scope(**of_scope), Deadline.after(60)  # type: ignore[arg-type]
    found = {"accesses": await stored.access.recently_accessed(of, 100, deadline)}
    found["times"] = [each.item for each in await stored.timeline.latest(of, 100, deadline)]
    for mode, (words, enough) in MODES.items():
        hits = await stored.lexical.search(query("Goa", scope=of), words, 100, enough, deadline)
        found[mode] = [each.item for each in hits]
    by_name = {by: " ".join(sorted(item.id for item in items)) for by, items in found.items()}
    assert by_name == dict.fromkeys(found, by_name["times"])
    return by_name["times"]


FILTERS = [
    (NO_FILTER, "a b c"),
    (Filter(kinds=("note",)), "b"),
    (Filter(kinds=("note", "turn")), "a b c"),
    (Filter(speakers=("ANN",)), "a"),
    (Filter(sessions=("monday", "sunday")), "a b"),
    (Filter(entities=("mary  ann",)), "b c"),
    (Filter(entities=("mary-ann",)), ""),
    (Filter(labels={"project": ("goa",), "stage": ("one", "two")}), "a"),
    (Filter(labels={"project": ("goa",)}), "a b"),
    (Filter(min_importance=0.6), "c"),
    (Filter(event_time=TimeRange(NOON, NOON + days(1))), "a b"),
    (Filter(event_time=TimeRange(NOON + days(1), None)), "c"),
    (Filter(event_time=TimeRange(None, NOON)), ""),
    (Filter(created_at=TimeRange(None, NOON)), ""),
    (Filter(updated_at=TimeRange(NOON, None)), "a b c"),
    (Filter(kinds=("turn",), sessions=("sunday",)), ""),
    (Filter(none_of=Exclusion(kinds=("note",))), "a c"),
    (Filter(none_of=Exclusion(speakers=("ANN",), sessions=("sunday",))), "c"),
    (Filter(none_of=Exclusion(ids=("a", "c"), fact_ids=("b",))), "b"),
    (Filter(labels={"stage": True}), "a"),
    (Filter(labels={"stage": False}), "b c"),
    (Filter(any_of=(Filter(kinds=("note",)), Filter(min_importance=0.6))), "b c"),
    (Filter(all_of=(Filter(labels={"project": ("goa",)}), Filter(kinds=("turn",)))), "a"),
    (Filter(none_of=Exclusion(filters=(Filter(sessions=("monday", "sunday")),))), "c"),
]


async def test_filters_hold(stored: Stored) -> None:
    goa = {"project": "goa"}
    ann = segment("a", speaker="Ann", session="monday", labels={**goa, "stage": "one"})
    note = segment("b", kind="note", session="sunday", labels=goa, entities=("MARY Ann",))
    later = segment("c", importance=0.6, event_time=NOON + days(1), entity="Mary Ann")
    await stored.write(ann, note, later)
    await show(stored, note.item)

    for filter_, passing in FILTERS:
        listed = await stored.catalog.list_segments(TENANT, filter_, "", 100)
        assert " ".join(each.id for each in listed) == passing, filter_
        assert await shown(stored, filter_=filter_) == passing, filter_


async def test_segment_after_the_clock_is_hidden(stored: Stored) -> None:
    await stored.write(*(segment(name, event_time=NOON + days(2)) for name in ("later", "seen")))
    await stored.write(segment("now"))
    await show(stored, *ids("seen"))

    assert await shown(stored, as_of=NOON + days(1)) == "now"
    assert await shown(stored, as_of=NOON + days(2)) == "later now seen"


async def test_segment_recorded_after_known_at_is_hidden(stored: Stored) -> None:
    await stored.write(segment("a"))
    [first] = await stored.load(*ids("a"))
    await stored.write(segment("b"), segment("c"))
    await show(stored, *ids("a", "b"))

    assert first.created_at is not None
    assert await shown(stored, known_at=first.created_at - timedelta(microseconds=1)) == ""
    assert await shown(stored, known_at=first.created_at) == "a"
    assert await shown(stored, known_at=first.created_at + days(1)) == "a b c"


async def test_tenants_do_not_see_each_other(stored: Stored) -> None:
    await stored.write(segment("mine"), segment("a"))
    await stored.write(segment("theirs"), segment("a"), tenant=OTHER)
    await show(stored, *ids("a"))

    assert await shown(stored) == "a mine"
    assert await shown(stored, tenant=OTHER) == "a theirs"
    assert await shown(stored, tenant="nobody") == ""

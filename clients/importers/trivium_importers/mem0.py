"""mem0: what `Memory.get_all` and `MemoryClient.get_all` return, as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import MAXYEAR, timedelta

from trivium.files.reading import Found, stable_id
from trivium.files.records import Record
from trivium.values import Fact, Item, Segment
from trivium_importers.attributes import keywords, labels, times
from trivium_importers.exported import elements
from trivium_importers.translation import Exported, Translation

OWNERS = ("user_id", "agent_id", "app_id")


def items(records: Iterable[Record], translation: Translation) -> Iterator[Found[Item]]:
    """Memories become segments; relations, which mem0 1.x had, become facts."""
    for record in records:
        if "results" in record.fields:
            yield from _page(record, translation)
        else:
            yield from translation.items("memory", record, _memory)


def _page(page: Record, translation: Translation) -> Iterator[Found[Item]]:
    report = translation.problems.append
    for memory in elements(page, "results", report):
        yield from translation.items("memory", memory, _memory)
    for relation in elements(page, "relations", report):
        yield from translation.items("relation", relation, _relation)
    for name, value in page.fields.items():
        if name not in ("results", "relations"):
            translation.leave_out("page", page.place, value, name)


def _memory(memory: Exported) -> Iterator[Found[Item]]:
    created, changed = times(memory)
    # The last day of the calendar stands for never.
    last_day = memory.time("expiration_date")
    expires_at = last_day + timedelta(days=1) if last_day and last_day.year < MAXYEAR else None
    segment = Segment(
        id=memory.needed("id"),
        text=memory.needed("memory"),
        kind="memory",
        speaker=memory.string("actor_id"),
        session=memory.string("run_id"),
        event_time=created,
        labels=labels(memory, *OWNERS, "role", "attributed_to", "metadata", given=changed),
        keywords=keywords(memory, "categories"),
        expires_at=expires_at,
    )
    yield memory.found(segment, memory.first(*OWNERS))


def _relation(relation: Exported) -> Iterator[Found[Item]]:
    triple = [relation.needed(name) for name in ("source", "relationship", "target")]
    subject, name, object_ = triple
    fact = Fact(id=stable_id("mem0", *triple), subject=subject, relation=name, object=object_)
    yield relation.found(fact)

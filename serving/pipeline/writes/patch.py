"""Changes some fields of a stored item, and leaves the others as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo

from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import (
    InvalidRequestError,
    ItemNotFoundError,
    VersionConflictError,
    Violation,
)
from serving.domain.items.records import (
    MAX_LABELS,
    Fact,
    Item,
    ItemId,
    Segment,
    TenantName,
    is_expired,
)
from serving.pipeline.writes.ingest import Ingestor
from serving.ports.memory_store import Batch, MemoryStore

ATTEMPTS = 100
"""Attempts of a patch without a version, while others write the same item. Each lost race is a
change of another call, so that as many calls at once are all applied."""

READ_S = 5.0
"""The timeout of reading the row to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """The fields to change; those that are None stay. A fact has no title, importance or labels.

    Attributes:
        text: The text of a segment, or the sentence of a fact.
        set_labels: Labels to add or to replace.
        remove_labels: The keys of labels to remove.
        never_expires: Whether to remove the expiry, in place of `expires_at`.
    """

    text: str | None = None
    title: str | None = None
    importance: float | None = None
    set_labels: Mapping[str, str] = field(default_factory=dict)
    remove_labels: tuple[str, ...] = ()
    expires_at: datetime | None = None
    never_expires: bool = False

    def applied_to(self, item: Item) -> Item:
        """The item with the changes; entities that the service found in a former text are gone.

        Raises:
            InvalidRequestError: The segment would have too many labels.
        """
        expires_at = None if self.never_expires else self.expires_at or item.expires_at
        if isinstance(item, Fact):
            sentence = item.sentence if self.text is None else self.text
            return replace(item, sentence=sentence, expires_at=expires_at)
        kept = {key: value for key, value in item.labels.items() if key not in self.remove_labels}
        labels = {**kept, **self.set_labels}
        if len(labels) > MAX_LABELS:
            would_be = f"would make {len(labels)} labels of the segment, at most {MAX_LABELS} fit"
            raise InvalidRequestError([Violation("set_labels", would_be)])
        changed = replace(
            item,
            text=item.text if self.text is None else self.text,
            title=item.title if self.title is None else self.title,
            importance=item.importance if self.importance is None else self.importance,
            labels=labels,
            expires_at=expires_at,
        )
        found_anew = _is_retold(changed, item) and item.extracted
        return replace(changed, entities=()) if found_anew else changed


def _is_retold(item: Item, former: Item) -> bool:
    """Whether a segment says something else than before."""
    return (
        isinstance(item, Segment)
        and isinstance(former, Segment)
        and (item.text, item.title) != (former.text, former.title)
    )


@dataclass(frozen=True, slots=True)
class Patched:
    """The item as it is stored now, and the token of the write."""

    item: Item
    token: ConsistencyToken


class Patcher:
    """Changes stored items by the same writes as an update by `Ingestor`."""

    def __init__(self, store: MemoryStore, ingestor: Ingestor, now: Callable[[], datetime]) -> None:
        self._store = store
        self._ingestor = ingestor
        self._now = now

    async def patch(
        self,
        tenant: TenantName,
        item: ItemId,
        patch: Patch,
        *,
        if_version: int | None = None,
        time_zone: tzinfo | None = None,
    ) -> Patched:
        """Changes an item; without `if_version` whatever its version is.

        A new text is read again for entities and times, as if it was said in `time_zone`.

        Raises:
            ItemNotFoundError: It is not stored, or has expired.
            VersionConflictError: It has another version, or others change it again and again.
            InvalidRequestError: The segment would have too many labels.
            OverloadedError, StoreUnavailableError: Nothing was changed.
        """
        for attempt in range(1, ATTEMPTS + 1):
            row = await self._row(tenant, item)
            if if_version not in (None, row.version):
                raise VersionConflictError(item.kind, item.id, row.version)
            changed = patch.applied_to(row)
            batch = Batch(tenant, [changed], time_zone=time_zone, versions={item: row.version})
            try:
                receipt = await self._ingestor.write(batch, retold=_is_retold(changed, row))
            except VersionConflictError:
                if if_version is not None or attempt == ATTEMPTS:
                    raise
            else:
                return Patched(await self._row(tenant, item), receipt.token)
        raise AssertionError("the last attempt returns or raises; this is a bug")

    async def _row(self, tenant: TenantName, item: ItemId) -> Item:
        rows = await self._store.load(tenant, [item], Deadline.after(READ_S))
        row = rows.get(item)
        if row is None or is_expired(row, self._now()):
            raise ItemNotFoundError(item.kind, item.id)
        return row

"""A memory store that lives in memory: the reference that PostgreSQL is held against."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from itertools import islice

from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import (
    InvalidRequestError,
    ItemNotFoundError,
    StoreUnavailableError,
    TextSearchConfigConflictError,
    VersionConflictError,
    Violation,
)
from serving.domain.items.records import (
    Fact,
    Item,
    ItemId,
    ItemKind,
    Segment,
    TenantName,
    expiry_of,
    is_expired,
)
from serving.domain.items.superseding import closings_of
from serving.domain.items.text import name_key
from serving.domain.items.validity import Clocks
from serving.domain.questions.query import Filter
from serving.ports.change_log import DeadLetter
from serving.ports.embedding import EmbeddingModel
from serving.ports.memory_store import (
    SAMPLED,
    Batch,
    ErasedItem,
    EraseReceipt,
    Outcome,
    Selected,
    Selector,
    TenantCounts,
    TenantSummary,
    WriteReceipt,
)

EPOCH = "in-memory"
TEXT_SEARCH_CONFIGS = ("english", "german", "simple")


@dataclass(slots=True)
class _Row:
    item: Item
    sent: Item | None
    xid: int


@dataclass(slots=True)
class _Tenant:
    text_search_config: str
    time_zone: tzinfo
    rows: dict[ItemId, _Row] = field(default_factory=dict)


class InMemoryStore:
    """The ports `MemoryStore` and `Catalog`.

    `available = False` makes it fail as if PostgreSQL were away. Nothing is ever embedded, and
    there are no dead letters but what a test puts into `notes`.
    """

    def __init__(self) -> None:
        self.available = True
        self.notes: dict[TenantName, list[DeadLetter]] = {}
        self._tenants: dict[TenantName, _Tenant] = {}
        self._xid = 100
        self._erasures: list[int] = []

    # ------------------------------------------------------------ MemoryStore

    async def write(self, batch: Batch) -> WriteReceipt:
        if batch.at is not None:
            items = tuple(item.item for item in batch.items)
            await self.erase(batch.tenant, Selector(items=items, expired_by=batch.at))
        before = self._rows(batch.tenant)
        for item, version in batch.versions.items():
            _require_version(item, before.get(item), version)
        rows = self._tenant(batch.tenant, batch.text_search_config, batch.time_zone).rows
        self._xid += 1
        outcomes = [self._put(rows, item, batch) for item in batch.items]
        _close(rows)
        _expire(rows)
        xids = {rows[item.item].xid for item in batch.items}
        return WriteReceipt(outcomes, ConsistencyToken.of(EPOCH, xids))

    async def erase(self, tenant: TenantName, selector: Selector) -> EraseReceipt:
        found = self._tenants.get(tenant)
        if found is None:
            return EraseReceipt([], ConsistencyToken.of(EPOCH, self._erasures[-1:]))
        self._xid += 1
        if selector.expired_by is not None:
            named = [row.item for item, row in found.rows.items() if item in (selector.items or ())]
            items = tuple(item.item for item in named if is_expired(item, selector.expired_by))
            selector = replace(selector, items=items)
        before = {item: row.item for item, row in found.rows.items()}
        known = await self.known_names(tenant)
        selected = [item for item, row in found.rows.items() if _is_selected(row.item, selector)]
        erased = [found.rows.pop(item).item.item for item in selected]
        gone = {item.id for item in (*erased, *(selector.items or ())) if item.kind == "segment"}
        changed = self._withdraw(found.rows, gone, erased)
        _close(found.rows)
        _expire(found.rows)
        if selector.everything:
            del self._tenants[tenant]
        if erased or changed:
            self._erasures.append(self._xid)
        names = sorted(known.keys() - (await self.known_names(tenant)).keys())
        token = ConsistencyToken.of(EPOCH, self._erasures[-1:])
        return EraseReceipt(erased, token, names=names, sample=_sample(erased, before))

    async def expired(self, by: datetime, limit: int) -> list[tuple[TenantName, ItemId]]:
        self._check_available()
        due = [
            (row.item.expires_at, tenant, item)
            for tenant, of in self._tenants.items()
            for item, row in of.rows.items()
            if row.item.expires_at is not None and row.item.expires_at <= by
        ]
        return [(tenant, item) for _, tenant, item in sorted(due)][:limit]

    async def count_selected(self, tenant: TenantName, selector: Selector) -> Selected:
        items = [row.item for row in self._rows(tenant).values()]
        selected = [item for item in items if _is_selected(item, selector)]
        segments = [item for item in selected if isinstance(item, Segment)]
        gone = {item.id for item in segments}
        gone |= {item.id for item in selector.items or () if item.kind == "segment"}
        facts = sum(
            isinstance(item, Fact)
            and (item in selected or (bool(item.evidence) and gone.issuperset(item.evidence)))
            for item in items
        )
        return Selected(Counter(segment.speaker for segment in segments), facts)

    async def load(
        self, tenant: TenantName, items: Sequence[ItemId], deadline: Deadline
    ) -> dict[ItemId, Item]:
        rows = self._rows(tenant)
        return {item: rows[item].item for item in items if item in rows}

    async def has_facts(self, tenant: TenantName, deadline: Deadline) -> bool:
        return any(item.kind is ItemKind.FACT for item in self._rows(tenant))

    def known_time_zone(self, tenant: TenantName) -> tzinfo | None:
        return self._tenants[tenant].time_zone if tenant in self._tenants else None

    async def read_time_zone(self, tenant: TenantName, deadline: Deadline) -> tzinfo:
        return self.known_time_zone(tenant) or UTC

    async def known_names(self, tenant: TenantName) -> Mapping[str, str]:
        items = [row.item for row in self._rows(tenant).values()]
        sensitive = _sensitive(items)
        names = [
            name for item in items if not _is_hidden(item, sensitive) for name in _names_of(item)
        ]
        return {name_key(name): name for name in reversed(names)}

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        return len(self._rows(tenant).keys() & set(items))

    async def count_derived(self, keys: Sequence[int]) -> Mapping[str, int]:
        return {}

    async def ready(self) -> bool:
        return self.available

    # ---------------------------------------------------------------- Catalog

    async def list_segments(
        self, tenant: TenantName, filter_: Filter, after: str, limit: int
    ) -> list[Segment]:
        items = self._lasting(tenant)
        segments = [item for item in items if isinstance(item, Segment) and item.id > after]
        return sorted(filter(filter_.accepts, segments), key=lambda item: item.id)[:limit]

    async def list_facts(
        self,
        tenant: TenantName,
        entities: Sequence[str],
        valid_at: datetime | None,
        after: str,
        limit: int,
    ) -> list[Fact]:
        keys = {name_key(name) for name in entities}
        items = self._lasting(tenant)
        facts = [
            item
            for item in items
            if isinstance(item, Fact)
            and item.id > after
            and (not keys or keys & {name_key(item.subject), name_key(item.object)})
            and (valid_at is None or item.holds(Clocks(valid_at)))
        ]
        return sorted(facts, key=lambda item: item.id)[:limit]

    async def tenant_counts(self, tenant: TenantName, model: EmbeddingModel | None) -> TenantCounts:
        found = self._tenants.get(tenant)
        if found is None:
            return TenantCounts(0, 0, 0, 0, 0, "", "")
        items = self._lasting(tenant)
        segments = [item for item in items if isinstance(item, Segment)]
        sensitive = {segment.id for segment in segments if segment.sensitive}
        facts = [item for item in items if isinstance(item, Fact)]
        visible = [f for f in facts if not f.sensitive and sensitive.isdisjoint(f.evidence)]
        return TenantCounts(
            segments=len(segments),
            sensitive_segments=len(sensitive),
            facts=len(facts),
            embedded=0,
            embeddable=len(segments) - len(sensitive) + len(visible),
            text_search_config=found.text_search_config,
            time_zone=str(found.time_zone),
            newest=max((each.event_time for each in segments if not each.sensitive), default=None),
        )

    async def list_tenants(self, after: str, limit: int) -> list[TenantSummary]:
        """The time of the last write is not known here."""
        names = sorted(name for name in self._tenants if name > after)[:limit]
        return [self._summary(name, self._tenants[name]) for name in names]

    def _summary(self, name: TenantName, tenant: _Tenant) -> TenantSummary:
        items = [row.item for row in tenant.rows.values()]
        segments = [item for item in items if isinstance(item, Segment)]
        facts = [item for item in items if isinstance(item, Fact)]
        texts = [*(item.text for item in segments), *(item.sentence for item in facts)]
        return TenantSummary(
            name,
            tenant.text_search_config,
            str(tenant.time_zone),
            segments=len(segments),
            facts=len(facts),
            text_bytes=sum(len(text.encode()) for text in texts),
            newest=max((each.event_time for each in segments if not each.sensitive), default=None),
        )

    async def dead_letters(self, tenant: TenantName, limit: int) -> list[DeadLetter]:
        return self.notes.get(tenant, [])[:limit]

    # --------------------------------------------------------------- the rest

    def _check_available(self) -> None:
        if not self.available:
            raise StoreUnavailableError("it was stopped by the test")

    def _rows(self, tenant: TenantName) -> dict[ItemId, _Row]:
        self._check_available()
        return self._tenants[tenant].rows if tenant in self._tenants else {}

    def _lasting(self, tenant: TenantName) -> list[Item]:
        now = datetime.now(UTC)
        items = [row.item for row in self._rows(tenant).values()]
        return [item for item in items if not is_expired(item, now)]

    def _tenant(self, name: TenantName, text_search_config: str, zone: tzinfo | None) -> _Tenant:
        tenant = self._tenants.get(name)
        if tenant is None:
            if text_search_config not in ("", *TEXT_SEARCH_CONFIGS):
                raise InvalidRequestError([Violation("text_search_config", "does not exist")])
            tenant = self._tenants[name] = _Tenant(text_search_config or "english", zone or UTC)
        if text_search_config not in ("", tenant.text_search_config):
            raise TextSearchConfigConflictError(name, tenant.text_search_config, text_search_config)
        return tenant

    def _put(self, rows: dict[ItemId, _Row], item: Item, batch: Batch) -> Outcome:
        undated = item.item in batch.undated
        sent: Item | None = _as_sent(item, undated)
        if item.item in batch.expiring:
            sent = _as_sent(replace(item, expires_at=None), undated)
        stored = rows.get(item.item)
        is_sent_again = stored is not None and stored.sent == sent
        if item.item in batch.versions:  # what is stored then is not what a client sent
            is_sent_again, sent = False, None
        if stored is not None and (is_sent_again or _repeats(item, stored.item, undated)):
            return "unchanged"
        now = datetime.now(UTC)
        created_at = item.created_at or now if stored is None else stored.item.created_at
        version = 1 if stored is None else stored.item.version + 1
        item = replace(item, created_at=created_at, updated_at=now, version=version)
        rows[item.item] = _Row(item, sent, self._xid)
        return "created" if stored is None else "updated"

    def _withdraw(
        self, rows: dict[ItemId, _Row], gone: set[str], erased: list[ItemId]
    ) -> list[ItemId]:
        """Takes evidence away; facts left without go to `erased`. Returns the others."""
        resting = [
            row.item
            for row in rows.values()
            if isinstance(row.item, Fact) and not gone.isdisjoint(row.item.evidence)
        ]
        changed: list[ItemId] = []
        for fact in resting:
            left = tuple(id_ for id_ in fact.evidence if id_ not in gone)
            if left:
                now, version = datetime.now(UTC), fact.version + 1
                shorter = replace(fact, evidence=left, updated_at=now, version=version)
                rows[fact.item] = _Row(shorter, shorter, self._xid)
                changed.append(fact.item)
            else:
                del rows[fact.item]
                erased.append(fact.item)
        return changed


def _sensitive(items: Iterable[Item]) -> set[str]:
    return {item.id for item in items if isinstance(item, Segment) and item.sensitive}


def _is_hidden(item: Item, sensitive: set[str]) -> bool:
    """Whether it is sensitive or, as a fact, rests on one of the `sensitive` segments."""
    return item.sensitive or (
        not isinstance(item, Segment) and not sensitive.isdisjoint(item.evidence)
    )


def _sample(erased: Sequence[ItemId], before: Mapping[ItemId, Item]) -> list[ErasedItem]:
    """The first segments and facts that were erased."""
    sensitive = _sensitive(before.values())
    return [
        ErasedItem(item, _is_hidden(item, sensitive))
        for kind in ItemKind
        for item in islice((before[each] for each in sorted(erased) if each.kind is kind), SAMPLED)
    ]


def _require_version(item: ItemId, stored: _Row | None, version: int) -> None:
    if stored is None:
        raise ItemNotFoundError(*item)
    if stored.item.version != version:
        raise VersionConflictError(*item, stored.item.version)


def _as_sent(item: Item, undated: bool) -> Item:
    """The item without what the service gave it."""
    item = replace(item, created_at=None)
    if isinstance(item, Segment):
        item = replace(item, mentions=())
        item = replace(item, entities=()) if item.extracted else item
        return replace(item, event_time=datetime.min) if undated else item
    return replace(item, recorded_at=datetime.min) if undated else item


def _repeats(item: Item, stored: Item, undated: bool) -> bool:
    """Whether the item says what is stored, with what the service gave it."""
    pair: list[Item] = []
    for each in (item, stored):
        each = replace(each, created_at=None, updated_at=None)
        if isinstance(each, Fact):
            each = replace(each, sentence=each.statement, closings=(), evidence_expires_at=None)
        if isinstance(each, Segment):
            each = replace(each, extracted=False)
        pair.append(_as_sent(each, undated))
    return pair[0] == pair[1]


def _is_selected(item: Item, selector: Selector) -> bool:
    if selector.everything:
        return True
    if selector.items is not None:
        return item.item in selector.items
    if not isinstance(item, Segment):
        return False
    if selector.filter is not None:
        return selector.filter.accepts(item)
    if selector.session is not None:
        return bool(item.session) and item.session == selector.session
    return bool(item.speaker) and name_key(item.speaker) == name_key(selector.speaker or "")


def _close(rows: dict[ItemId, _Row]) -> None:
    """Writes down what ends each fact, all of them being there."""
    facts = [row.item for row in rows.values() if isinstance(row.item, Fact)]
    closings = closings_of(facts, facts)
    for fact in facts:
        rows[fact.item].item = replace(fact, closings=closings[fact.id])


def _expire(rows: dict[ItemId, _Row]) -> None:
    """Writes down when the evidence of each fact has expired, all of it being there."""
    expiries = {
        item.id: expiry_of(row.item) for item, row in rows.items() if item.kind == "segment"
    }
    for row in rows.values():
        if isinstance(row.item, Fact):
            ends = [expiries.get(id_) for id_ in row.item.evidence]
            known = [end for end in ends if end is not None]
            last = max(known) if known and len(known) == len(ends) else None
            row.item = replace(row.item, evidence_expires_at=last)


def _names_of(item: Item) -> list[str]:
    if isinstance(item, Segment):
        return [*item.entities, *([item.entity] if item.entity else [])]
    return [item.subject, item.object]

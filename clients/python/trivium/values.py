"""The values of the client: items, request options and results.

All times are timezone-aware; those in results are in UTC.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeAlias

# ---------------------------------------------------------------- items


@dataclass(frozen=True, slots=True)
class Embedding:
    """A vector that you have computed with the model of the service.

    Args:
        model_fingerprint: The model: `client.stats().service.model_fingerprint`.
        values: The vector, of the dimension of the model and of length 1.
    """

    model_fingerprint: str
    values: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A turn of a conversation, a note or a passage.

    Args:
        id: Your id, unique within the tenant. Writing an id again replaces the segment. Empty means
            that the service makes one, which the outcome has.
        text: The text, at most 32 KiB.
        event_time: The time of the event; None means when the server receives it.
        importance: From 0 to 1; None means 0.5.
        sensitive: Found by the lexical leg only: never embedded, never in the graph.
        labels: Labels to filter by.
        entities: The names of the entities it mentions; empty means that the server
            extracts them.
        entity: The name of the entity that it represents, such as a file.
        keywords: Words that it is to be found by, besides those of its text; not embedded.
        embedding: The vector of its text; None means that the server computes it. Never in results.
        created_at: When it was first stored. Set by the server, unless a new segment brings an
            earlier time, such as that of its export.
        updated_at: Set by the server.
        mentions: The times that the text speaks of, such as the day of "tomorrow", in order. Set
            by the server.
        expires_at: When it expires, and is erased within a minute; must be in the future. None
            means after the time that the service sets for its kind, if it sets one, else never.
        version: 1 when it is first stored, and one more with each change. Set by the server.
    """

    text: str
    id: str = ""
    title: str = ""
    kind: str = ""
    speaker: str = ""
    session: str = ""
    event_time: datetime | None = None
    importance: float | None = None
    sensitive: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    entities: Sequence[str] = ()
    entity: str = ""
    keywords: Sequence[str] = ()
    embedding: Embedding | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    mentions: Sequence[TimeRange] = ()
    expires_at: datetime | None = None
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FactClosing:
    """The end of a fact's validity, set by another fact.

    Attributes:
        fact_id: The closing fact.
        at: When the closed fact stopped being true.
        recorded_at: When the closing fact was recorded.
        retracted_at: When the closing fact was retracted; None means not.
    """

    fact_id: str
    at: datetime
    recorded_at: datetime
    retracted_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A relation between two entities, with its validity in time.

    Args:
        id: Your id, unique within the tenant. Empty means that the service makes one.
        sentence: What is embedded; empty means "subject relation object".
        valid_from: When it became true; None means always.
        valid_to: When it stopped being true; None means that it is still true.
        recorded_at: When it was recorded; None means when the server receives it.
        retracted_at: When it was found never to have been true.
        evidence: The ids of the segments that support it, strongest first.
        weight: The confidence in it, above 0 and at most 1; None means 1.
        sensitive: Never embedded, never in the graph.
        closes: The ids of the facts that it closes, as of when it becomes true.
        single_valued: Whether subject and relation have one value at a time: it then
            closes every fact with the same two that began before it.
        closings: The closings by other facts, earliest first. Set by the server.
        created_at: Set by the server.
        updated_at: Set by the server.
        expires_at: When it expires, as a segment does; at the latest with the last of its evidence.
        version: As of a segment. Set by the server.
    """

    subject: str
    relation: str
    object: str
    id: str = ""
    sentence: str = ""
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    recorded_at: datetime | None = None
    retracted_at: datetime | None = None
    evidence: Sequence[str] = ()
    weight: float | None = None
    sensitive: bool = False
    closes: Sequence[str] = ()
    single_valued: bool = False
    closings: Sequence[FactClosing] = ()
    created_at: datetime | None = None
    updated_at: datetime | None = None
    expires_at: datetime | None = None
    version: int = 0

    @property
    def statement(self) -> str:
        """The fact as a sentence."""
        return self.sentence or f"{self.subject} {self.relation} {self.object}"


Item = Segment | Fact


class ItemKind(StrEnum):
    """The kind of an item."""

    SEGMENT = "segment"
    FACT = "fact"


@dataclass(frozen=True, slots=True)
class ItemRef:
    """The id of an item and its kind: a segment and a fact may have the same id."""

    kind: ItemKind
    id: str


class ChangeKind(StrEnum):
    """The outcome of writing an item."""

    UNKNOWN = "unknown"
    """Something that this version of the client does not know."""
    STORED = "stored"
    """It was created or updated, or closed by another fact, or a turn next to it changed."""
    ERASED = "erased"


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemChange:
    """A change of an item, and the token to go on from after it."""

    item: ItemRef
    change: ChangeKind
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Changes in their order, and the token to go on from after them.

    There may be none: in the first response, and in the last.
    """

    changes: tuple[ItemChange, ...]
    token: str


# ---------------------------------------------------------------- request options


@dataclass(frozen=True, slots=True)
class TimeRange:
    """The times from `start` on and before `end`; None is open."""

    start: datetime | None = None
    end: datetime | None = None


@dataclass(frozen=True, slots=True)
class NumberRange:
    """The numbers from `min` to `max`, both included; None is open."""

    min: float | None = None
    max: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """Items to leave out: those that match any value of any field.

    `ids` are those of segments. A fact is left out with all of its evidence, or by its own id. A
    segment is left out if it passes one of `filters`.
    """

    kinds: Sequence[str] = ()
    speakers: Sequence[str] = ()
    sessions: Sequence[str] = ()
    ids: Sequence[str] = ()
    fact_ids: Sequence[str] = ()
    filters: Sequence[Filter] = ()


LabelCondition: TypeAlias = Sequence[str] | NumberRange | TimeRange | bool
"""A condition on a label: one of these values, a number or a date in a range, existence or
absence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """The segments to consider: fields are combined with AND, the values of a field with OR.

    `labels` maps keys to conditions; `none_of` says what to leave out. Filters nest, at most 4
    deep: a segment must pass each of `all_of`, and one of `any_of`.
    """

    kinds: Sequence[str] = ()
    labels: Mapping[str, LabelCondition] = field(default_factory=dict)
    speakers: Sequence[str] = ()
    sessions: Sequence[str] = ()
    entities: Sequence[str] = ()
    min_importance: float = 0.0
    event_time: TimeRange | None = None
    created_at: TimeRange | None = None
    updated_at: TimeRange | None = None
    none_of: Exclusion = Exclusion()
    all_of: Sequence[Filter] = ()
    any_of: Sequence[Filter] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LegOverride:
    """Changes to one leg for one call; None keeps the profile's value, weight 0 turns it off."""

    weight: float | None = None
    depth: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BriefingOptions:
    """Options of the prompt block.

    Attributes:
        max_chars: The maximum length of the block; 0 means 2000.
        max_line_chars: The maximum length of a line; 0 means 200, and more for long texts as far as
            the other lines leave room.
        without_days: Whether to leave out the day of the question and those of the lines.
    """

    max_chars: int = 0
    max_line_chars: int = 0
    without_days: bool = False


# ---------------------------------------------------------------- results


class FusionMethod(StrEnum):
    """The rule by which the rank or score of a leg becomes a term."""

    UNKNOWN = "unknown"
    """A method that this version of the client does not know."""
    RECIPROCAL_RANK = "reciprocal rank"
    """weight / (rank constant + rank)."""
    CONVEX = "convex"
    """weight * (leg score - min score) / (max score - min score), or weight if both are equal."""
    SCORE = "score"
    """weight * leg score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LegTerm:
    """The term of one leg or signal, by the ledger's method.

    `min_score` is the lowest score that the leg can give, `max_score` the highest that it gave.
    """

    leg: str
    rank: float
    weight: float
    leg_score: float
    term: float
    path: str = ""
    fact_ids: tuple[str, ...] = ()
    min_score: float = 0.0
    max_score: float = 1.0

    def recompute(self, method: FusionMethod, rank_constant: float) -> float:
        """Computes the term from the other fields.

        Raises:
            ValueError: The method is unknown.
        """
        match method:
            case FusionMethod.RECIPROCAL_RANK:
                return self.weight / (rank_constant + self.rank)
            case FusionMethod.CONVEX:
                width = self.max_score - self.min_score
                share = (self.leg_score - self.min_score) / width if width > 0 else 1
                return self.weight * share
            case FusionMethod.SCORE:
                return self.weight * self.leg_score
        raise ValueError("the fusion method is unknown to this version of the client")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportanceTerm:
    """The effect of importance: the score times `multiplier`, plus `boost`."""

    importance: float
    multiplier: float
    boost: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DecayTerm:
    """The effect of age: the score times `multiplier`."""

    age: timedelta
    half_life: timedelta
    floor: float
    multiplier: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankTerm:
    """The effect of reranking: (1 - weight) * coarse score / scale + weight * sigmoid(logit)."""

    logit: float
    weight: float
    scale: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AdjacentTerm:
    """The share of the score of `by`, a turn next to the hit, that is added to its own."""

    share: float
    score: float
    by: ItemRef


class CurrencyReason(StrEnum):
    """Why a score is multiplied by a factor of currency."""

    UNKNOWN = "unknown"
    """A reason that this version of the client does not know."""
    ASKS = "asks"
    """The item only asks something, or repeats the question."""
    LACKS_CODE = "lacks the code"
    """Other hits have the code or number of the question, and this one has not."""
    CLOSED = "closed"
    """The hit is a fact that holds no more, or evidence of such facts alone."""
    TAKES_PLACE = "takes the place"
    """The hit probably answers in place of another statement about the same thing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrencyTerm:
    """The effect of what holds now: the score times `factor`.

    `by` is the statement whose place the hit takes; None if the reason lies in the hit alone.
    """

    factor: float
    reason: CurrencyReason
    by: ItemRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiversityTerm:
    """Maximal marginal relevance when the hit was chosen.

    `closest` is the most similar hit chosen before; None if none is similar.
    """

    trade_off: float
    relevance: float
    max_similarity: float
    value: float
    closest: ItemRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The computation of a score; `recompute` is the whole formula.

    `reserved_by` is the leg whose reserved place the hit took; empty if it needed none.
    `tenant_weight` is that of the hit's tenant, if several were asked.
    """

    leg_terms: tuple[LegTerm, ...]
    fused_score: float
    rank_constant: float
    method: FusionMethod = FusionMethod.RECIPROCAL_RANK
    adjacent: tuple[AdjacentTerm, ...] = ()
    importance: ImportanceTerm | None = None
    decay: DecayTerm | None = None
    rerank: RerankTerm | None = None
    currency: tuple[CurrencyTerm, ...] = ()
    diversity: DiversityTerm | None = None
    reserved_by: str = ""
    tenant_weight: float | None = None

    def recompute(self) -> float:
        """Computes the score from ranks, weights and leg scores.

        Raises:
            ValueError: The fusion method is unknown.
        """
        score = math.fsum(
            term.recompute(self.method, self.rank_constant) for term in self.leg_terms
        )
        score += math.fsum(term.share * term.score for term in self.adjacent)
        if self.importance is not None:
            score *= self.importance.multiplier
        if self.decay is not None:
            score *= max(self.decay.floor, 2 ** -(self.decay.age / self.decay.half_life))
        if self.importance is not None:
            score += self.importance.boost
        if self.rerank is not None:
            probability = 0.5 * (1 + math.tanh(self.rerank.logit / 2))
            coarse = (1 - self.rerank.weight) * score / self.rerank.scale
            score = coarse + self.rerank.weight * probability
        score *= math.prod(term.factor for term in self.currency)
        return score if self.tenant_weight is None else score * self.tenant_weight


class Stage(StrEnum):
    """Whether a hit was reranked."""

    UNKNOWN = "unknown"
    """A stage that this version of the client does not know."""
    NONE = "none"
    """The profile does not rerank."""
    RERANKED = "reranked"
    COARSE = "coarse"
    """It was below the reranked head, or is sensitive, or there was not enough time."""
    COARSE_FALLBACK = "coarse_fallback"
    """Reranking failed; the hits are in coarse order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankReport:
    """The outcome of reranking; `reason` says why nothing was reranked."""

    stage: Stage
    reason: str
    hit_count: int
    elapsed: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """An item found.

    `score` is the score before diversification, comparable only within one retrieval; `legs` are
    those that found the item; `folded` are older items in which the same speaker says the same,
    from the times `folded_times`; `ledger` is set if `explain` was.
    `outdated_by` is the later statement about the same thing that took the item's place.
    `tenant` is whose the item is, if several tenants were asked.
    """

    item: Item
    rank: int
    score: float
    legs: tuple[str, ...] = ()
    folded: tuple[ItemRef, ...] = ()
    folded_times: tuple[datetime, ...] = ()
    ledger: Ledger | None = None
    stage: Stage = Stage.NONE
    outdated_by: ItemRef | None = None
    tenant: str = ""

    @property
    def id(self) -> str:
        """The id of the item."""
        return self.item.id

    @property
    def ref(self) -> ItemRef:
        """The reference to the item."""
        kind = ItemKind.SEGMENT if isinstance(self.item, Segment) else ItemKind.FACT
        return ItemRef(kind, self.item.id)

    @property
    def text(self) -> str:
        """The segment's text, or the fact as a sentence."""
        return self.item.text if isinstance(self.item, Segment) else self.item.statement


class LegState(StrEnum):
    """The final state of a leg."""

    UNKNOWN = "unknown"
    """A state that this version of the client does not know."""
    OK = "ok"
    TIMED_OUT = "timed out"
    FAILED = "failed"
    SKIPPED = "skipped"
    STALE = "stale"
    PARTIAL = "partial"
    """Its results are incomplete: a leg that it depends on failed, or a shard is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LegReport:
    """The outcome of one leg; `reason` says why it is not OK.

    `pending_count` is how many changed rows of the tenant the leg cannot find yet. `in_memory` is
    whether it was answered from the memory of the replica, and no store was asked. `tenant` is the
    tenant that was searched, if several were.
    """

    leg: str
    state: LegState
    reason: str
    candidate_count: int
    below_floor_count: int
    elapsed: timedelta
    dead_letter_count: int
    pending_count: int = 0
    in_memory: bool = False
    tenant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Timings and counts of a call."""

    total: timedelta
    embedding: timedelta
    loading: timedelta
    ranking: timedelta
    reranking: timedelta
    candidate_count: int
    folded_count: int
    vanished_count: int
    index_epoch: int


@dataclass(frozen=True, slots=True)
class Coercion:
    """A value of the request that was changed."""

    field: str
    given: str
    used: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieval:
    """The result of a query: hits, best first, and a report of each leg."""

    hits: tuple[Hit, ...]
    leg_reports: tuple[LegReport, ...]
    statistics: Statistics
    briefing: str
    coercions: tuple[Coercion, ...]
    profile: str
    rerank: RerankReport | None = None

    @property
    def complete(self) -> bool:
        """Whether every leg that was searched answered completely."""
        return all(report.state in (LegState.OK, LegState.SKIPPED) for report in self.leg_reports)

    def rank_of(self, ids: Sequence[str]) -> int | None:
        """The rank of the first hit with one of `ids`, or with one folded into it; None if none."""
        wanted = set(ids)
        return next(
            (
                hit.rank
                for hit in self.hits
                if hit.id in wanted or any(each.id in wanted for each in hit.folded)
            ),
            None,
        )


@dataclass(frozen=True, slots=True)
class Transcript:
    """The words of a speaker so far, or all of them if they are final.

    `timeout` is that of its search, in seconds; None means that of the stream.
    """

    text: str
    final: bool = False
    timeout: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedRetrieval:
    """An answer while somebody speaks: to the transcript of this number, from 1.

    A final one is the answer to the final transcript, and the last.
    """

    retrieval: Retrieval
    transcript_number: int
    final: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """The facts and statements that hold now about somebody, as far as the block has room.

    Attributes:
        facts: The facts that hold, the last to begin first.
        statements: The newest statement of each subject, newest first.
        briefing: Both as a `<memory>` block; empty if there are none.
        elapsed: The time that the service took.
    """

    facts: tuple[Fact, ...]
    statements: tuple[Segment, ...]
    briefing: str
    elapsed: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmPart:
    """The names of a tenant, its items in memory, or a leg: whether the next query waits for it."""

    part: str
    warm: bool
    reason: str
    elapsed: timedelta


class ItemState(StrEnum):
    """Whether an item was stored."""

    UNKNOWN = "unknown"
    """A state that this version of the client does not know."""
    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemOutcome:
    """The outcome for one item; `violations` (field, description) say why it was rejected.

    `item` is None if the item was neither a segment nor a fact.
    """

    index: int
    item: ItemRef | None
    state: ItemState
    violations: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestResult:
    """The outcome for each item, and the token of the write."""

    outcomes: tuple[ItemOutcome, ...]
    consistency_token: str

    @property
    def rejected(self) -> tuple[ItemOutcome, ...]:
        """The outcomes of the items that were not stored."""
        return tuple(each for each in self.outcomes if each.state is ItemState.REJECTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchResult:
    """The item as it is stored now, and the token of the change.

    `item` is None for a caller that may not read.
    """

    item: Item | None
    consistency_token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamResult:
    """The outcome of a stream of items; `rejected` has the first 100 rejected items."""

    created_count: int
    updated_count: int
    unchanged_count: int
    rejected_count: int
    rejected: tuple[ItemOutcome, ...]
    consistency_token: str


class LookupKey(StrEnum):
    """By what a store was asked for an item."""

    UNKNOWN = "unknown"
    """A key that this version of the client does not know."""
    ID = "id"
    TEXT = "text"
    VECTOR = "vector"


@dataclass(frozen=True, slots=True)
class Lookup:
    """For how many items a store was asked by one key, and how many erased ones came."""

    key: LookupKey
    asked_count: int
    found_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreReceipt:
    """The items that one store removed, and their verification.

    `lookups` says how it was asked: by text and by vector for at most 20 segments and 20 facts, and
    not if the call repeats an erasure.
    """

    store: str
    verified: bool
    remaining_count: int
    reason: str
    removed_count: int = 0
    lookups: tuple[Lookup, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetResult:
    """The result of an erasure, or of a dry run, which has no receipts.

    A dry run has the segments of each speaker, at most 100, by the exact name; "" is none.
    """

    segment_count: int
    fact_count: int
    receipts: tuple[StoreReceipt, ...] = ()
    consistency_token: str = ""
    segments_by_speaker: Mapping[str, int] = field(default_factory=dict)

    @property
    def verified(self) -> bool:
        """Whether every store was verified and holds no erased item."""
        return all(each.verified and not each.remaining_count for each in self.receipts)


@dataclass(frozen=True, slots=True)
class SegmentsFound:
    """Segments in the order of the request, and the ids that do not exist."""

    segments: tuple[Segment, ...]
    missing_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FactsFound:
    """Facts in the order of the request, and the ids that do not exist."""

    facts: tuple[Fact, ...]
    missing_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantStats:
    """Counts of the tenant's items; `entity_count` is None if the graph is unreachable.

    `newest_event_time` is the time of the latest segment that is not sensitive.
    """

    segment_count: int
    sensitive_segment_count: int
    fact_count: int
    entity_count: int | None
    embedded_count: int
    embeddable_count: int
    text_search_config: str
    time_zone: str
    newest_event_time: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionStats:
    """The lag of a projection behind PostgreSQL, over all tenants."""

    projection: str
    pending_count: int
    lag: timedelta
    dead_letter_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LegStats:
    """The answers of a leg in the last five minutes, over all tenants, of one replica.

    `p50` and `p95` are latencies of the answers that it was not skipped in.
    """

    leg: str
    answer_count: int
    timed_out_count: int
    failed_count: int
    skipped_count: int
    p50: timedelta
    p95: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexTier:
    """The search over the vectors of a tenant's segments or facts.

    `dead_count` are deleted but still occupy memory. An `approximate` search reads a part of the
    vectors and may miss a neighbour. `failure` is the error of a rebuild.
    """

    kind: str
    vector_count: int
    dead_count: int
    approximate: bool
    rebuilding: str
    failure: str
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStats:
    """The state of the vector index; `reason` says why it is not ready."""

    ready: bool
    vector_count: int
    epoch: int
    reason: str
    tiers: tuple[IndexTier, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStats:
    """The version and configuration of the service, and what is unavailable."""

    version: str
    placement: str
    ingress: str
    model_fingerprint: str
    dimension: int
    started_at: datetime | None
    degraded: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A row that a projection could not apply."""

    projection: str
    item: ItemRef
    reason: str
    dead_lettered_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Item counts, the lag of each projection, and the state of index and service."""

    tenant: TenantStats | None
    """None if the service did not count in time, which `service.degraded` then says."""
    projections: tuple[ProjectionStats, ...]
    index: IndexStats
    service: ServiceStats
    dead_letters: tuple[DeadLetter, ...]
    legs: tuple[LegStats, ...] = ()
    """Empty for a caller whose credentials are bound to some tenants."""


class Health(StrEnum):
    """The health of the service, as in grpc.health.v1."""

    UNKNOWN = "unknown"
    SERVING = "serving"
    NOT_SERVING = "not serving"
    SERVICE_UNKNOWN = "service unknown"

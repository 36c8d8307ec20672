"""The values of this client: what is stored, what is asked, and what comes back.

All times are aware; those that come back are in UTC.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

# ---------------------------------------------------------------- what is stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One turn of a conversation, note or passage.

    Args:
        id: Your id, unique within the tenant. Writing it again replaces the segment.
        text: The text, at most 32 KiB.
        event_time: When it was said; None means when the server receives it.
        importance: From 0 to 1; None means 0.5.
        sensitive: Found by words only: never embedded, never in the graph.
        labels: Free labels to filter by.
        entities: The names of what it mentions; none means that the server
            extracts them.
        entity: The name of the entity that it itself is, such as a file.
        created_at: Set by the server.
        updated_at: Set by the server.
    """

    id: str
    text: str
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
    created_at: datetime | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FactClosing:
    """What ended the truth of a fact.

    Attributes:
        fact_id: The fact that ended it.
        at: When its truth ended.
        recorded_at: When that became known.
        retracted_at: When that turned out to be wrong; None means it has not.
    """

    fact_id: str
    at: datetime
    recorded_at: datetime
    retracted_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A relation between two entities, with the time for which it is true.

    Args:
        id: Your id, unique within the tenant.
        sentence: What is embedded; empty means "subject relation object".
        valid_from: When it became true; None means always.
        valid_to: When it stopped being true, if you say so; None means not yet.
        recorded_at: When it became known; None means when the server receives it.
        retracted_at: When it turned out never to have been true.
        evidence: The ids of the segments it rests on, strongest first.
        weight: How strongly it is held, above 0 and at most 1; None means 1.
        sensitive: Never embedded, never in the graph.
        closes: The ids of the facts whose truth it ends, from when it is true itself.
        single_valued: Whether subject and relation hold one value at a time: it then
            ends every fact with the same two that began before it.
        closings: What ended its truth, earliest first. Set by the server.
        created_at: Set by the server.
        updated_at: Set by the server.
    """

    id: str
    subject: str
    relation: str
    object: str
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

    @property
    def statement(self) -> str:
        """The fact as a sentence."""
        return self.sentence or f"{self.subject} {self.relation} {self.object}"


Item = Segment | Fact

# ---------------------------------------------------------------- what is asked


@dataclass(frozen=True, slots=True)
class TimeRange:
    """The instants from `start` on and before `end`; None is open."""

    start: datetime | None = None
    end: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """The segments to consider: fields combine by AND, the values of one by OR.

    `labels` maps a key to the values that pass.
    """

    kinds: Sequence[str] = ()
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    speakers: Sequence[str] = ()
    sessions: Sequence[str] = ()
    entities: Sequence[str] = ()
    min_importance: float | None = None
    event_time: TimeRange | None = None
    created_at: TimeRange | None = None
    updated_at: TimeRange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LegOverride:
    """What to change in one leg for one call; None leaves it, weight 0 turns the leg off."""

    weight: float | None = None
    depth: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BriefingOptions:
    """How long the block for a prompt, and a line of it, may be; 0 means the server's default."""

    max_chars: int = 0
    max_line_chars: int = 0


# ---------------------------------------------------------------- what comes back


class FusionMethod(StrEnum):
    """How what a leg found becomes a term of the score."""

    UNKNOWN = "unknown"
    """A method that this version of the client does not know."""
    RECIPROCAL_RANK = "reciprocal rank"
    """weight / (rank constant + rank)."""
    CONVEX = "convex"
    """weight * (leg score - least) / (most - least), or weight if the two ends are one."""
    SCORE = "score"
    """weight * leg score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LegTerm:
    """What one leg, or one signal, gave to a score by the ledger's method: `term`.

    `least` and `most` are the least score that the leg could give, and the best that it gave.
    """

    leg: str
    rank: int
    weight: float
    leg_score: float
    term: float
    path: str = ""
    fact_ids: tuple[str, ...] = ()
    least: float = 0.0
    most: float = 1.0

    def worth(self, method: FusionMethod, rank_constant: float) -> float:
        """The term, worked out again from all the rest.

        Raises:
            ValueError: The method is unknown.
        """
        match method:
            case FusionMethod.RECIPROCAL_RANK:
                return self.weight / (rank_constant + self.rank)
            case FusionMethod.CONVEX:
                width = self.most - self.least
                return self.weight * ((self.leg_score - self.least) / width if width > 0 else 1)
            case FusionMethod.SCORE:
                return self.weight * self.leg_score
        raise ValueError("the server fused by a method that this client does not know")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportanceTerm:
    """What importance did: the score times `multiplier`, plus `boost`."""

    importance: float
    multiplier: float
    boost: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DecayTerm:
    """What age did: the score times `multiplier`."""

    age: timedelta
    half_life: timedelta
    floor: float
    multiplier: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankTerm:
    """What reranking did: (1 - weight) * coarse score / scale + weight * sigmoid(logit)."""

    logit: float
    weight: float
    scale: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DiversityTerm:
    """Maximal marginal relevance at the moment the hit was chosen.

    `closest_id` is the hit chosen before that it is most similar to; empty for none.
    """

    trade_off: float
    relevance: float
    max_similarity: float
    value: float
    closest_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """How a score came about; `recompute` is the whole formula.

    `reserved_by` is the leg whose reserved place the hit took; empty if it needed none.
    """

    leg_terms: tuple[LegTerm, ...]
    fused_score: float
    rank_constant: float
    method: FusionMethod = FusionMethod.RECIPROCAL_RANK
    importance: ImportanceTerm | None = None
    decay: DecayTerm | None = None
    rerank: RerankTerm | None = None
    diversity: DiversityTerm | None = None
    reserved_by: str = ""

    def recompute(self) -> float:
        """Works the score out again, from ranks, weights and leg scores on.

        Raises:
            ValueError: The server fused by a method that this client does not know.
        """
        score = math.fsum(term.worth(self.method, self.rank_constant) for term in self.leg_terms)
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
        return score


class Stage(StrEnum):
    """Whether a hit was reranked."""

    UNKNOWN = "unknown"
    """A stage that this version of the client does not know."""
    NONE = "none"
    """The profile does not rerank."""
    RERANKED = "reranked"
    COARSE = "coarse"
    """It lay beyond what is reranked, or is sensitive, or there was too little time left."""
    COARSE_FALLBACK = "coarse_fallback"
    """Nothing could be reranked; the coarse order stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankReport:
    """What became of reranking, and why unless it was done."""

    stage: Stage
    reason: str
    hit_count: int
    elapsed: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One thing found.

    `score` is the score before diversification, comparable within one
    retrieval only; `legs` are those that found it; `ledger` is set if
    `explain` was.
    """

    item: Item
    rank: int
    score: float
    legs: tuple[str, ...] = ()
    folded_ids: tuple[str, ...] = ()
    ledger: Ledger | None = None
    stage: Stage = Stage.NONE

    @property
    def id(self) -> str:
        """The id of what was found."""
        return self.item.id

    @property
    def text(self) -> str:
        """The segment's text, or the fact as a sentence."""
        return self.item.text if isinstance(self.item, Segment) else self.item.statement


class LegState(StrEnum):
    """How a leg ended."""

    UNKNOWN = "unknown"
    """A state that this version of the client does not know."""
    OK = "ok"
    TIMED_OUT = "timed out"
    FAILED = "failed"
    SKIPPED = "skipped"
    STALE = "stale"
    PARTIAL = "partial"
    """It answered without what another leg was to bring, since that broke."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LegReport:
    """What became of one leg, and why unless it is OK; or on what, if that was lost."""

    leg: str
    state: LegState
    reason: str
    candidate_count: int
    below_floor_count: int
    elapsed: timedelta
    set_aside_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Where the server's time went and how much it considered."""

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
    """A value of the request that was not used as given."""

    field: str
    given: str
    used: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieval:
    """The answer to one question: hits, best first, and what became of each leg."""

    hits: tuple[Hit, ...]
    leg_reports: tuple[LegReport, ...]
    statistics: Statistics
    briefing: str
    coercions: tuple[Coercion, ...]
    profile: str
    rerank: RerankReport | None = None

    @property
    def complete(self) -> bool:
        """Whether every leg that was asked answered with all it knows."""
        return all(report.state in (LegState.OK, LegState.SKIPPED) for report in self.leg_reports)

    def rank_of(self, ids: Sequence[str]) -> int | None:
        """The place of the first hit that is, or stands for, one of `ids`; None if none is."""
        wanted = set(ids)
        return next(
            (hit.rank for hit in self.hits if not wanted.isdisjoint((hit.id, *hit.folded_ids))),
            None,
        )


class ItemState(StrEnum):
    """What became of an item."""

    UNKNOWN = "unknown"
    """A state that this version of the client does not know."""
    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemOutcome:
    """What became of one item; `violations` (field, description) say why it was rejected."""

    index: int
    id: str
    state: ItemState
    violations: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestResult:
    """What became of each item, and the token that a read may wait for."""

    outcomes: tuple[ItemOutcome, ...]
    token: str

    @property
    def rejected(self) -> tuple[ItemOutcome, ...]:
        """The items that were not stored."""
        return tuple(each for each in self.outcomes if each.state is ItemState.REJECTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamResult:
    """What became of a stream of items; `rejected` holds the first hundred that were."""

    created_count: int
    updated_count: int
    unchanged_count: int
    rejected_count: int
    rejected: tuple[ItemOutcome, ...]
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreReceipt:
    """What one store said when it was asked for the erased ids."""

    store: str
    verified: bool
    remaining_count: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetResult:
    """The receipt of an erasure."""

    segment_count: int
    fact_count: int
    receipts: tuple[StoreReceipt, ...]
    token: str

    @property
    def verified(self) -> bool:
        """Whether every store was asked and holds none of it any more."""
        return all(each.verified and not each.remaining_count for each in self.receipts)


@dataclass(frozen=True, slots=True)
class SegmentsFound:
    """Segments in the order asked for, and the ids that do not exist."""

    segments: tuple[Segment, ...]
    missing_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantStats:
    """What is stored for the tenant; `entity_count` is None if the graph cannot be reached."""

    segment_count: int
    sensitive_segment_count: int
    fact_count: int
    entity_count: int | None
    embedded_count: int
    embeddable_count: int
    text_search_config: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionStats:
    """How far a projection is behind PostgreSQL, over all tenants."""

    projection: str
    pending_count: int
    lag: timedelta
    set_aside_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallPoint:
    """What reading so many lists is worth: recall, and the share of all vectors that is read."""

    probe_count: int
    recall: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexTier:
    """How the vectors of a tenant's segments, or facts, are searched.

    Without lists (`list_count` 0) all are read exactly. `tail_count` of them came after the lists;
    `dead_count` are gone but take memory. `recall` was `audited` with questions that were
    asked, or else with vectors held out. `failure` says why due lists are not made.
    """

    kind: str
    vector_count: int
    dead_count: int
    tail_count: int
    list_count: int
    probe_count: int
    recall_target: float
    recall: float
    audited: bool
    curve: tuple[RecallPoint, ...]
    rebuilding: str
    failure: str
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStats:
    """The state of the vector index; `reason` says why it does not answer."""

    ready: bool
    vector_count: int
    epoch: int
    reason: str
    tiers: tuple[IndexTier, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStats:
    """What serves, and what it lacks right now."""

    version: str
    placement: str
    ingress: str
    model_fingerprint: str
    dimension: int
    started_at: datetime | None
    degraded: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAsideRow:
    """A row that a projection could not take."""

    projection: str
    id: str
    reason: str
    set_aside_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Counts, how far each projection is, and what serves."""

    tenant: TenantStats
    projections: tuple[ProjectionStats, ...]
    index: IndexStats
    service: ServiceStats
    set_aside: tuple[SetAsideRow, ...]


class Health(StrEnum):
    """The health of the service, as grpc.health.v1 tells it."""

    UNKNOWN = "unknown"
    SERVING = "serving"
    NOT_SERVING = "not serving"
    SERVICE_UNKNOWN = "service unknown"

import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from trivium.v1 import fact_pb2 as _fact_pb2
from trivium.v1 import filter_pb2 as _filter_pb2
from trivium.v1 import item_pb2 as _item_pb2
from trivium.v1 import segment_pb2 as _segment_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Stage(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STAGE_UNSPECIFIED: _ClassVar[Stage]
    STAGE_RERANKED: _ClassVar[Stage]
    STAGE_COARSE: _ClassVar[Stage]
    STAGE_COARSE_FALLBACK: _ClassVar[Stage]

class FusionMethod(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FUSION_METHOD_UNSPECIFIED: _ClassVar[FusionMethod]
    FUSION_METHOD_RECIPROCAL_RANK: _ClassVar[FusionMethod]
    FUSION_METHOD_CONVEX: _ClassVar[FusionMethod]
    FUSION_METHOD_SCORE: _ClassVar[FusionMethod]

class CurrencyReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CURRENCY_REASON_UNSPECIFIED: _ClassVar[CurrencyReason]
    CURRENCY_REASON_ASKS: _ClassVar[CurrencyReason]
    CURRENCY_REASON_LACKS_CODE: _ClassVar[CurrencyReason]
    CURRENCY_REASON_CLOSED: _ClassVar[CurrencyReason]
    CURRENCY_REASON_TAKES_PLACE: _ClassVar[CurrencyReason]

class LegState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LEG_STATE_UNSPECIFIED: _ClassVar[LegState]
    LEG_STATE_OK: _ClassVar[LegState]
    LEG_STATE_TIMED_OUT: _ClassVar[LegState]
    LEG_STATE_FAILED: _ClassVar[LegState]
    LEG_STATE_SKIPPED: _ClassVar[LegState]
    LEG_STATE_STALE: _ClassVar[LegState]
    LEG_STATE_PARTIAL: _ClassVar[LegState]

class Loss(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOSS_UNSPECIFIED: _ClassVar[Loss]
    LOSS_NONE: _ClassVar[Loss]
    LOSS_NOT_STORED: _ClassVar[Loss]
    LOSS_FILTERED: _ClassVar[Loss]
    LOSS_NOT_PROJECTED: _ClassVar[Loss]
    LOSS_NOT_MATCHED: _ClassVar[Loss]
    LOSS_BELOW_DEPTH: _ClassVar[Loss]
    LOSS_FOLDED: _ClassVar[Loss]
    LOSS_DECAYED: _ClassVar[Loss]
    LOSS_BELOW_HEAD: _ClassVar[Loss]
    LOSS_RERANKED_DOWN: _ClassVar[Loss]
    LOSS_DISPLACED: _ClassVar[Loss]
    LOSS_CUT: _ClassVar[Loss]
    LOSS_NOT_SEARCHED: _ClassVar[Loss]
    LOSS_UNANSWERED: _ClassVar[Loss]
    LOSS_OUTDATED: _ClassVar[Loss]
    LOSS_LESS_IMPORTANT: _ClassVar[Loss]
STAGE_UNSPECIFIED: Stage
STAGE_RERANKED: Stage
STAGE_COARSE: Stage
STAGE_COARSE_FALLBACK: Stage
FUSION_METHOD_UNSPECIFIED: FusionMethod
FUSION_METHOD_RECIPROCAL_RANK: FusionMethod
FUSION_METHOD_CONVEX: FusionMethod
FUSION_METHOD_SCORE: FusionMethod
CURRENCY_REASON_UNSPECIFIED: CurrencyReason
CURRENCY_REASON_ASKS: CurrencyReason
CURRENCY_REASON_LACKS_CODE: CurrencyReason
CURRENCY_REASON_CLOSED: CurrencyReason
CURRENCY_REASON_TAKES_PLACE: CurrencyReason
LEG_STATE_UNSPECIFIED: LegState
LEG_STATE_OK: LegState
LEG_STATE_TIMED_OUT: LegState
LEG_STATE_FAILED: LegState
LEG_STATE_SKIPPED: LegState
LEG_STATE_STALE: LegState
LEG_STATE_PARTIAL: LegState
LOSS_UNSPECIFIED: Loss
LOSS_NONE: Loss
LOSS_NOT_STORED: Loss
LOSS_FILTERED: Loss
LOSS_NOT_PROJECTED: Loss
LOSS_NOT_MATCHED: Loss
LOSS_BELOW_DEPTH: Loss
LOSS_FOLDED: Loss
LOSS_DECAYED: Loss
LOSS_BELOW_HEAD: Loss
LOSS_RERANKED_DOWN: Loss
LOSS_DISPLACED: Loss
LOSS_CUT: Loss
LOSS_NOT_SEARCHED: Loss
LOSS_UNANSWERED: Loss
LOSS_OUTDATED: Loss
LOSS_LESS_IMPORTANT: Loss

class RetrieveRequest(_message.Message):
    __slots__ = ("tenant", "query", "vector", "limit", "profile", "leg_overrides", "filter", "as_of", "time_budget", "consistency_token", "explain", "briefing", "profile_overrides", "seed_ids", "known_at", "required_legs", "time_zone", "tenants")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    VECTOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    LEG_OVERRIDES_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    TIME_BUDGET_FIELD_NUMBER: _ClassVar[int]
    CONSISTENCY_TOKEN_FIELD_NUMBER: _ClassVar[int]
    EXPLAIN_FIELD_NUMBER: _ClassVar[int]
    BRIEFING_FIELD_NUMBER: _ClassVar[int]
    PROFILE_OVERRIDES_FIELD_NUMBER: _ClassVar[int]
    SEED_IDS_FIELD_NUMBER: _ClassVar[int]
    KNOWN_AT_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_LEGS_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    TENANTS_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    query: str
    vector: _containers.RepeatedScalarFieldContainer[float]
    limit: int
    profile: str
    leg_overrides: _containers.RepeatedCompositeFieldContainer[LegOverride]
    filter: _filter_pb2.Filter
    as_of: _timestamp_pb2.Timestamp
    time_budget: _duration_pb2.Duration
    consistency_token: str
    explain: bool
    briefing: BriefingOptions
    profile_overrides: _struct_pb2.Struct
    seed_ids: _containers.RepeatedScalarFieldContainer[str]
    known_at: _timestamp_pb2.Timestamp
    required_legs: _containers.RepeatedScalarFieldContainer[str]
    time_zone: str
    tenants: _containers.RepeatedCompositeFieldContainer[TenantWeight]
    def __init__(self, tenant: _Optional[str] = ..., query: _Optional[str] = ..., vector: _Optional[_Iterable[float]] = ..., limit: _Optional[int] = ..., profile: _Optional[str] = ..., leg_overrides: _Optional[_Iterable[_Union[LegOverride, _Mapping]]] = ..., filter: _Optional[_Union[_filter_pb2.Filter, _Mapping]] = ..., as_of: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., time_budget: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., consistency_token: _Optional[str] = ..., explain: bool = ..., briefing: _Optional[_Union[BriefingOptions, _Mapping]] = ..., profile_overrides: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., seed_ids: _Optional[_Iterable[str]] = ..., known_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., required_legs: _Optional[_Iterable[str]] = ..., time_zone: _Optional[str] = ..., tenants: _Optional[_Iterable[_Union[TenantWeight, _Mapping]]] = ...) -> None: ...

class TenantWeight(_message.Message):
    __slots__ = ("tenant", "weight")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    weight: float
    def __init__(self, tenant: _Optional[str] = ..., weight: _Optional[float] = ...) -> None: ...

class RetrieveStreamRequest(_message.Message):
    __slots__ = ("retrieve", "final")
    RETRIEVE_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    retrieve: RetrieveRequest
    final: bool
    def __init__(self, retrieve: _Optional[_Union[RetrieveRequest, _Mapping]] = ..., final: bool = ...) -> None: ...

class RetrieveStreamResponse(_message.Message):
    __slots__ = ("retrieved", "request_number", "final")
    RETRIEVED_FIELD_NUMBER: _ClassVar[int]
    REQUEST_NUMBER_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    retrieved: RetrieveResponse
    request_number: int
    final: bool
    def __init__(self, retrieved: _Optional[_Union[RetrieveResponse, _Mapping]] = ..., request_number: _Optional[int] = ..., final: bool = ...) -> None: ...

class WarmRequest(_message.Message):
    __slots__ = ("tenant", "profile", "time_budget")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    TIME_BUDGET_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    profile: str
    time_budget: _duration_pb2.Duration
    def __init__(self, tenant: _Optional[str] = ..., profile: _Optional[str] = ..., time_budget: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class WarmResponse(_message.Message):
    __slots__ = ("parts", "profile")
    PARTS_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    parts: _containers.RepeatedCompositeFieldContainer[WarmPart]
    profile: str
    def __init__(self, parts: _Optional[_Iterable[_Union[WarmPart, _Mapping]]] = ..., profile: _Optional[str] = ...) -> None: ...

class WarmPart(_message.Message):
    __slots__ = ("part", "warm", "reason", "elapsed")
    PART_FIELD_NUMBER: _ClassVar[int]
    WARM_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_FIELD_NUMBER: _ClassVar[int]
    part: str
    warm: bool
    reason: str
    elapsed: _duration_pb2.Duration
    def __init__(self, part: _Optional[str] = ..., warm: bool = ..., reason: _Optional[str] = ..., elapsed: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class LegOverride(_message.Message):
    __slots__ = ("leg", "weight", "depth")
    LEG_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    leg: str
    weight: float
    depth: int
    def __init__(self, leg: _Optional[str] = ..., weight: _Optional[float] = ..., depth: _Optional[int] = ...) -> None: ...

class BriefingOptions(_message.Message):
    __slots__ = ("max_chars", "max_line_chars", "without_days")
    MAX_CHARS_FIELD_NUMBER: _ClassVar[int]
    MAX_LINE_CHARS_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_DAYS_FIELD_NUMBER: _ClassVar[int]
    max_chars: int
    max_line_chars: int
    without_days: bool
    def __init__(self, max_chars: _Optional[int] = ..., max_line_chars: _Optional[int] = ..., without_days: bool = ...) -> None: ...

class RetrieveResponse(_message.Message):
    __slots__ = ("hits", "leg_reports", "statistics", "briefing", "coercions", "profile", "rerank")
    HITS_FIELD_NUMBER: _ClassVar[int]
    LEG_REPORTS_FIELD_NUMBER: _ClassVar[int]
    STATISTICS_FIELD_NUMBER: _ClassVar[int]
    BRIEFING_FIELD_NUMBER: _ClassVar[int]
    COERCIONS_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    RERANK_FIELD_NUMBER: _ClassVar[int]
    hits: _containers.RepeatedCompositeFieldContainer[Hit]
    leg_reports: _containers.RepeatedCompositeFieldContainer[LegReport]
    statistics: Statistics
    briefing: str
    coercions: _containers.RepeatedCompositeFieldContainer[Coercion]
    profile: str
    rerank: RerankReport
    def __init__(self, hits: _Optional[_Iterable[_Union[Hit, _Mapping]]] = ..., leg_reports: _Optional[_Iterable[_Union[LegReport, _Mapping]]] = ..., statistics: _Optional[_Union[Statistics, _Mapping]] = ..., briefing: _Optional[str] = ..., coercions: _Optional[_Iterable[_Union[Coercion, _Mapping]]] = ..., profile: _Optional[str] = ..., rerank: _Optional[_Union[RerankReport, _Mapping]] = ...) -> None: ...

class Hit(_message.Message):
    __slots__ = ("segment", "fact", "rank", "score", "legs", "folded", "ledger", "stage", "outdated_by", "folded_times", "tenant")
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    FACT_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    LEGS_FIELD_NUMBER: _ClassVar[int]
    FOLDED_FIELD_NUMBER: _ClassVar[int]
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    OUTDATED_BY_FIELD_NUMBER: _ClassVar[int]
    FOLDED_TIMES_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    segment: _segment_pb2.Segment
    fact: _fact_pb2.Fact
    rank: int
    score: float
    legs: _containers.RepeatedScalarFieldContainer[str]
    folded: _containers.RepeatedCompositeFieldContainer[_item_pb2.ItemRef]
    ledger: Ledger
    stage: Stage
    outdated_by: _item_pb2.ItemRef
    folded_times: _containers.RepeatedCompositeFieldContainer[_timestamp_pb2.Timestamp]
    tenant: str
    def __init__(self, segment: _Optional[_Union[_segment_pb2.Segment, _Mapping]] = ..., fact: _Optional[_Union[_fact_pb2.Fact, _Mapping]] = ..., rank: _Optional[int] = ..., score: _Optional[float] = ..., legs: _Optional[_Iterable[str]] = ..., folded: _Optional[_Iterable[_Union[_item_pb2.ItemRef, _Mapping]]] = ..., ledger: _Optional[_Union[Ledger, _Mapping]] = ..., stage: _Optional[_Union[Stage, str]] = ..., outdated_by: _Optional[_Union[_item_pb2.ItemRef, _Mapping]] = ..., folded_times: _Optional[_Iterable[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]]] = ..., tenant: _Optional[str] = ...) -> None: ...

class RerankReport(_message.Message):
    __slots__ = ("stage", "reason", "hit_count", "elapsed")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    HIT_COUNT_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_FIELD_NUMBER: _ClassVar[int]
    stage: Stage
    reason: str
    hit_count: int
    elapsed: _duration_pb2.Duration
    def __init__(self, stage: _Optional[_Union[Stage, str]] = ..., reason: _Optional[str] = ..., hit_count: _Optional[int] = ..., elapsed: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Ledger(_message.Message):
    __slots__ = ("leg_terms", "fused_score", "rank_constant", "importance", "decay", "diversity", "method", "rerank", "reserved_by", "currency", "adjacent", "tenant_weight")
    LEG_TERMS_FIELD_NUMBER: _ClassVar[int]
    FUSED_SCORE_FIELD_NUMBER: _ClassVar[int]
    RANK_CONSTANT_FIELD_NUMBER: _ClassVar[int]
    IMPORTANCE_FIELD_NUMBER: _ClassVar[int]
    DECAY_FIELD_NUMBER: _ClassVar[int]
    DIVERSITY_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    RERANK_FIELD_NUMBER: _ClassVar[int]
    RESERVED_BY_FIELD_NUMBER: _ClassVar[int]
    CURRENCY_FIELD_NUMBER: _ClassVar[int]
    ADJACENT_FIELD_NUMBER: _ClassVar[int]
    TENANT_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    leg_terms: _containers.RepeatedCompositeFieldContainer[LegTerm]
    fused_score: float
    rank_constant: float
    importance: ImportanceTerm
    decay: DecayTerm
    diversity: DiversityTerm
    method: FusionMethod
    rerank: RerankTerm
    reserved_by: str
    currency: _containers.RepeatedCompositeFieldContainer[CurrencyTerm]
    adjacent: _containers.RepeatedCompositeFieldContainer[AdjacentTerm]
    tenant_weight: float
    def __init__(self, leg_terms: _Optional[_Iterable[_Union[LegTerm, _Mapping]]] = ..., fused_score: _Optional[float] = ..., rank_constant: _Optional[float] = ..., importance: _Optional[_Union[ImportanceTerm, _Mapping]] = ..., decay: _Optional[_Union[DecayTerm, _Mapping]] = ..., diversity: _Optional[_Union[DiversityTerm, _Mapping]] = ..., method: _Optional[_Union[FusionMethod, str]] = ..., rerank: _Optional[_Union[RerankTerm, _Mapping]] = ..., reserved_by: _Optional[str] = ..., currency: _Optional[_Iterable[_Union[CurrencyTerm, _Mapping]]] = ..., adjacent: _Optional[_Iterable[_Union[AdjacentTerm, _Mapping]]] = ..., tenant_weight: _Optional[float] = ...) -> None: ...

class LegTerm(_message.Message):
    __slots__ = ("leg", "rank", "weight", "leg_score", "term", "path", "fact_ids", "min_score", "max_score")
    LEG_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    LEG_SCORE_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    FACT_IDS_FIELD_NUMBER: _ClassVar[int]
    MIN_SCORE_FIELD_NUMBER: _ClassVar[int]
    MAX_SCORE_FIELD_NUMBER: _ClassVar[int]
    leg: str
    rank: float
    weight: float
    leg_score: float
    term: float
    path: str
    fact_ids: _containers.RepeatedScalarFieldContainer[str]
    min_score: float
    max_score: float
    def __init__(self, leg: _Optional[str] = ..., rank: _Optional[float] = ..., weight: _Optional[float] = ..., leg_score: _Optional[float] = ..., term: _Optional[float] = ..., path: _Optional[str] = ..., fact_ids: _Optional[_Iterable[str]] = ..., min_score: _Optional[float] = ..., max_score: _Optional[float] = ...) -> None: ...

class AdjacentTerm(_message.Message):
    __slots__ = ("share", "score", "by")
    SHARE_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    share: float
    score: float
    by: _item_pb2.ItemRef
    def __init__(self, share: _Optional[float] = ..., score: _Optional[float] = ..., by: _Optional[_Union[_item_pb2.ItemRef, _Mapping]] = ...) -> None: ...

class RerankTerm(_message.Message):
    __slots__ = ("logit", "weight", "scale")
    LOGIT_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    logit: float
    weight: float
    scale: float
    def __init__(self, logit: _Optional[float] = ..., weight: _Optional[float] = ..., scale: _Optional[float] = ...) -> None: ...

class CurrencyTerm(_message.Message):
    __slots__ = ("factor", "reason", "by")
    FACTOR_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    factor: float
    reason: CurrencyReason
    by: _item_pb2.ItemRef
    def __init__(self, factor: _Optional[float] = ..., reason: _Optional[_Union[CurrencyReason, str]] = ..., by: _Optional[_Union[_item_pb2.ItemRef, _Mapping]] = ...) -> None: ...

class ImportanceTerm(_message.Message):
    __slots__ = ("importance", "multiplier", "boost")
    IMPORTANCE_FIELD_NUMBER: _ClassVar[int]
    MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    BOOST_FIELD_NUMBER: _ClassVar[int]
    importance: float
    multiplier: float
    boost: float
    def __init__(self, importance: _Optional[float] = ..., multiplier: _Optional[float] = ..., boost: _Optional[float] = ...) -> None: ...

class DecayTerm(_message.Message):
    __slots__ = ("age", "half_life", "floor", "multiplier")
    AGE_FIELD_NUMBER: _ClassVar[int]
    HALF_LIFE_FIELD_NUMBER: _ClassVar[int]
    FLOOR_FIELD_NUMBER: _ClassVar[int]
    MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    age: _duration_pb2.Duration
    half_life: _duration_pb2.Duration
    floor: float
    multiplier: float
    def __init__(self, age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., half_life: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., floor: _Optional[float] = ..., multiplier: _Optional[float] = ...) -> None: ...

class DiversityTerm(_message.Message):
    __slots__ = ("trade_off", "relevance", "max_similarity", "value", "closest")
    TRADE_OFF_FIELD_NUMBER: _ClassVar[int]
    RELEVANCE_FIELD_NUMBER: _ClassVar[int]
    MAX_SIMILARITY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    CLOSEST_FIELD_NUMBER: _ClassVar[int]
    trade_off: float
    relevance: float
    max_similarity: float
    value: float
    closest: _item_pb2.ItemRef
    def __init__(self, trade_off: _Optional[float] = ..., relevance: _Optional[float] = ..., max_similarity: _Optional[float] = ..., value: _Optional[float] = ..., closest: _Optional[_Union[_item_pb2.ItemRef, _Mapping]] = ...) -> None: ...

class LegReport(_message.Message):
    __slots__ = ("leg", "state", "reason", "candidate_count", "below_floor_count", "elapsed", "dead_letter_count", "pending_count", "in_memory", "tenant")
    LEG_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CANDIDATE_COUNT_FIELD_NUMBER: _ClassVar[int]
    BELOW_FLOOR_COUNT_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_COUNT_FIELD_NUMBER: _ClassVar[int]
    PENDING_COUNT_FIELD_NUMBER: _ClassVar[int]
    IN_MEMORY_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    leg: str
    state: LegState
    reason: str
    candidate_count: int
    below_floor_count: int
    elapsed: _duration_pb2.Duration
    dead_letter_count: int
    pending_count: int
    in_memory: bool
    tenant: str
    def __init__(self, leg: _Optional[str] = ..., state: _Optional[_Union[LegState, str]] = ..., reason: _Optional[str] = ..., candidate_count: _Optional[int] = ..., below_floor_count: _Optional[int] = ..., elapsed: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., dead_letter_count: _Optional[int] = ..., pending_count: _Optional[int] = ..., in_memory: bool = ..., tenant: _Optional[str] = ...) -> None: ...

class Statistics(_message.Message):
    __slots__ = ("total", "embedding", "loading", "ranking", "candidate_count", "folded_count", "vanished_count", "index_epoch", "reranking")
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    EMBEDDING_FIELD_NUMBER: _ClassVar[int]
    LOADING_FIELD_NUMBER: _ClassVar[int]
    RANKING_FIELD_NUMBER: _ClassVar[int]
    CANDIDATE_COUNT_FIELD_NUMBER: _ClassVar[int]
    FOLDED_COUNT_FIELD_NUMBER: _ClassVar[int]
    VANISHED_COUNT_FIELD_NUMBER: _ClassVar[int]
    INDEX_EPOCH_FIELD_NUMBER: _ClassVar[int]
    RERANKING_FIELD_NUMBER: _ClassVar[int]
    total: _duration_pb2.Duration
    embedding: _duration_pb2.Duration
    loading: _duration_pb2.Duration
    ranking: _duration_pb2.Duration
    candidate_count: int
    folded_count: int
    vanished_count: int
    index_epoch: int
    reranking: _duration_pb2.Duration
    def __init__(self, total: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., embedding: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., loading: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., ranking: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., candidate_count: _Optional[int] = ..., folded_count: _Optional[int] = ..., vanished_count: _Optional[int] = ..., index_epoch: _Optional[int] = ..., reranking: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Coercion(_message.Message):
    __slots__ = ("field", "given", "used")
    FIELD_FIELD_NUMBER: _ClassVar[int]
    GIVEN_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    field: str
    given: str
    used: str
    def __init__(self, field: _Optional[str] = ..., given: _Optional[str] = ..., used: _Optional[str] = ...) -> None: ...

class ListProfilesRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListProfilesResponse(_message.Message):
    __slots__ = ("profiles", "next_page_token")
    PROFILES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    profiles: _containers.RepeatedCompositeFieldContainer[Profile]
    next_page_token: str
    def __init__(self, profiles: _Optional[_Iterable[_Union[Profile, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class Profile(_message.Message):
    __slots__ = ("name", "description", "definition", "notes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    definition: _struct_pb2.Struct
    notes: _containers.RepeatedCompositeFieldContainer[ProfileNote]
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., definition: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., notes: _Optional[_Iterable[_Union[ProfileNote, _Mapping]]] = ...) -> None: ...

class ProfileNote(_message.Message):
    __slots__ = ("leg", "text")
    LEG_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    leg: str
    text: str
    def __init__(self, leg: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class RetrieveBatchRequest(_message.Message):
    __slots__ = ("tenant", "requests")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    requests: _containers.RepeatedCompositeFieldContainer[RetrieveRequest]
    def __init__(self, tenant: _Optional[str] = ..., requests: _Optional[_Iterable[_Union[RetrieveRequest, _Mapping]]] = ...) -> None: ...

class RetrieveBatchResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[BatchResult]
    def __init__(self, results: _Optional[_Iterable[_Union[BatchResult, _Mapping]]] = ...) -> None: ...

class BatchResult(_message.Message):
    __slots__ = ("response", "error")
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    response: RetrieveResponse
    error: BatchError
    def __init__(self, response: _Optional[_Union[RetrieveResponse, _Mapping]] = ..., error: _Optional[_Union[BatchError, _Mapping]] = ...) -> None: ...

class BatchError(_message.Message):
    __slots__ = ("code", "message")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class DescribeEntityRequest(_message.Message):
    __slots__ = ("tenant", "speaker", "entity", "as_of", "known_at", "max_chars", "time_budget", "time_zone", "consistency_token")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    SPEAKER_FIELD_NUMBER: _ClassVar[int]
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    KNOWN_AT_FIELD_NUMBER: _ClassVar[int]
    MAX_CHARS_FIELD_NUMBER: _ClassVar[int]
    TIME_BUDGET_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    CONSISTENCY_TOKEN_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    speaker: str
    entity: str
    as_of: _timestamp_pb2.Timestamp
    known_at: _timestamp_pb2.Timestamp
    max_chars: int
    time_budget: _duration_pb2.Duration
    time_zone: str
    consistency_token: str
    def __init__(self, tenant: _Optional[str] = ..., speaker: _Optional[str] = ..., entity: _Optional[str] = ..., as_of: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., known_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., max_chars: _Optional[int] = ..., time_budget: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., time_zone: _Optional[str] = ..., consistency_token: _Optional[str] = ...) -> None: ...

class DescribeEntityResponse(_message.Message):
    __slots__ = ("facts", "statements", "briefing", "elapsed")
    FACTS_FIELD_NUMBER: _ClassVar[int]
    STATEMENTS_FIELD_NUMBER: _ClassVar[int]
    BRIEFING_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_FIELD_NUMBER: _ClassVar[int]
    facts: _containers.RepeatedCompositeFieldContainer[_fact_pb2.Fact]
    statements: _containers.RepeatedCompositeFieldContainer[_segment_pb2.Segment]
    briefing: str
    elapsed: _duration_pb2.Duration
    def __init__(self, facts: _Optional[_Iterable[_Union[_fact_pb2.Fact, _Mapping]]] = ..., statements: _Optional[_Iterable[_Union[_segment_pb2.Segment, _Mapping]]] = ..., briefing: _Optional[str] = ..., elapsed: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class CompareRequest(_message.Message):
    __slots__ = ("retrieve", "against", "against_overrides")
    RETRIEVE_FIELD_NUMBER: _ClassVar[int]
    AGAINST_FIELD_NUMBER: _ClassVar[int]
    AGAINST_OVERRIDES_FIELD_NUMBER: _ClassVar[int]
    retrieve: RetrieveRequest
    against: str
    against_overrides: _struct_pb2.Struct
    def __init__(self, retrieve: _Optional[_Union[RetrieveRequest, _Mapping]] = ..., against: _Optional[str] = ..., against_overrides: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class CompareResponse(_message.Message):
    __slots__ = ("retrieved", "against", "overlap", "rank_changes")
    RETRIEVED_FIELD_NUMBER: _ClassVar[int]
    AGAINST_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_FIELD_NUMBER: _ClassVar[int]
    RANK_CHANGES_FIELD_NUMBER: _ClassVar[int]
    retrieved: RetrieveResponse
    against: RetrieveResponse
    overlap: float
    rank_changes: _containers.RepeatedCompositeFieldContainer[RankChange]
    def __init__(self, retrieved: _Optional[_Union[RetrieveResponse, _Mapping]] = ..., against: _Optional[_Union[RetrieveResponse, _Mapping]] = ..., overlap: _Optional[float] = ..., rank_changes: _Optional[_Iterable[_Union[RankChange, _Mapping]]] = ...) -> None: ...

class RankChange(_message.Message):
    __slots__ = ("item", "rank", "against_rank")
    ITEM_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    AGAINST_RANK_FIELD_NUMBER: _ClassVar[int]
    item: _item_pb2.ItemRef
    rank: int
    against_rank: int
    def __init__(self, item: _Optional[_Union[_item_pb2.ItemRef, _Mapping]] = ..., rank: _Optional[int] = ..., against_rank: _Optional[int] = ...) -> None: ...

class ExplainAbsenceRequest(_message.Message):
    __slots__ = ("retrieve", "item")
    RETRIEVE_FIELD_NUMBER: _ClassVar[int]
    ITEM_FIELD_NUMBER: _ClassVar[int]
    retrieve: RetrieveRequest
    item: _item_pb2.ItemRef
    def __init__(self, retrieve: _Optional[_Union[RetrieveRequest, _Mapping]] = ..., item: _Optional[_Union[_item_pb2.ItemRef, _Mapping]] = ...) -> None: ...

class ExplainAbsenceResponse(_message.Message):
    __slots__ = ("loss", "reason", "by", "rank", "hit", "legs")
    LOSS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    HIT_FIELD_NUMBER: _ClassVar[int]
    LEGS_FIELD_NUMBER: _ClassVar[int]
    loss: Loss
    reason: str
    by: _item_pb2.ItemRef
    rank: int
    hit: Hit
    legs: _containers.RepeatedCompositeFieldContainer[LegAbsence]
    def __init__(self, loss: _Optional[_Union[Loss, str]] = ..., reason: _Optional[str] = ..., by: _Optional[_Union[_item_pb2.ItemRef, _Mapping]] = ..., rank: _Optional[int] = ..., hit: _Optional[_Union[Hit, _Mapping]] = ..., legs: _Optional[_Iterable[_Union[LegAbsence, _Mapping]]] = ...) -> None: ...

class LegAbsence(_message.Message):
    __slots__ = ("leg", "state", "rank", "score", "depth", "reason")
    LEG_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    leg: str
    state: LegState
    rank: float
    score: float
    depth: int
    reason: str
    def __init__(self, leg: _Optional[str] = ..., state: _Optional[_Union[LegState, str]] = ..., rank: _Optional[float] = ..., score: _Optional[float] = ..., depth: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

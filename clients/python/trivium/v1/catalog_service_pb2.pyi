import datetime

from google.protobuf import duration_pb2 as _duration_pb2
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

class ChangeKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CHANGE_KIND_UNSPECIFIED: _ClassVar[ChangeKind]
    CHANGE_KIND_STORED: _ClassVar[ChangeKind]
    CHANGE_KIND_ERASED: _ClassVar[ChangeKind]
CHANGE_KIND_UNSPECIFIED: ChangeKind
CHANGE_KIND_STORED: ChangeKind
CHANGE_KIND_ERASED: ChangeKind

class GetSegmentsRequest(_message.Message):
    __slots__ = ("tenant", "ids")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, tenant: _Optional[str] = ..., ids: _Optional[_Iterable[str]] = ...) -> None: ...

class GetSegmentsResponse(_message.Message):
    __slots__ = ("segments", "missing_ids")
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    MISSING_IDS_FIELD_NUMBER: _ClassVar[int]
    segments: _containers.RepeatedCompositeFieldContainer[_segment_pb2.Segment]
    missing_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, segments: _Optional[_Iterable[_Union[_segment_pb2.Segment, _Mapping]]] = ..., missing_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class GetFactsRequest(_message.Message):
    __slots__ = ("tenant", "ids")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, tenant: _Optional[str] = ..., ids: _Optional[_Iterable[str]] = ...) -> None: ...

class GetFactsResponse(_message.Message):
    __slots__ = ("facts", "missing_ids")
    FACTS_FIELD_NUMBER: _ClassVar[int]
    MISSING_IDS_FIELD_NUMBER: _ClassVar[int]
    facts: _containers.RepeatedCompositeFieldContainer[_fact_pb2.Fact]
    missing_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, facts: _Optional[_Iterable[_Union[_fact_pb2.Fact, _Mapping]]] = ..., missing_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ListSegmentsRequest(_message.Message):
    __slots__ = ("tenant", "filter", "page_size", "page_token")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    filter: _filter_pb2.Filter
    page_size: int
    page_token: str
    def __init__(self, tenant: _Optional[str] = ..., filter: _Optional[_Union[_filter_pb2.Filter, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListSegmentsResponse(_message.Message):
    __slots__ = ("segments", "next_page_token")
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    segments: _containers.RepeatedCompositeFieldContainer[_segment_pb2.Segment]
    next_page_token: str
    def __init__(self, segments: _Optional[_Iterable[_Union[_segment_pb2.Segment, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListFactsRequest(_message.Message):
    __slots__ = ("tenant", "entities", "valid_at", "page_size", "page_token")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    ENTITIES_FIELD_NUMBER: _ClassVar[int]
    VALID_AT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    entities: _containers.RepeatedScalarFieldContainer[str]
    valid_at: _timestamp_pb2.Timestamp
    page_size: int
    page_token: str
    def __init__(self, tenant: _Optional[str] = ..., entities: _Optional[_Iterable[str]] = ..., valid_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListFactsResponse(_message.Message):
    __slots__ = ("facts", "next_page_token")
    FACTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    facts: _containers.RepeatedCompositeFieldContainer[_fact_pb2.Fact]
    next_page_token: str
    def __init__(self, facts: _Optional[_Iterable[_Union[_fact_pb2.Fact, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class WatchChangesRequest(_message.Message):
    __slots__ = ("tenant", "after_token", "batch_size")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    AFTER_TOKEN_FIELD_NUMBER: _ClassVar[int]
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    after_token: str
    batch_size: int
    def __init__(self, tenant: _Optional[str] = ..., after_token: _Optional[str] = ..., batch_size: _Optional[int] = ...) -> None: ...

class WatchChangesResponse(_message.Message):
    __slots__ = ("changes", "token")
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    changes: _containers.RepeatedCompositeFieldContainer[ItemChange]
    token: str
    def __init__(self, changes: _Optional[_Iterable[_Union[ItemChange, _Mapping]]] = ..., token: _Optional[str] = ...) -> None: ...

class ItemChange(_message.Message):
    __slots__ = ("item", "change", "token")
    ITEM_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    item: _item_pb2.ItemRef
    change: ChangeKind
    token: str
    def __init__(self, item: _Optional[_Union[_item_pb2.ItemRef, _Mapping]] = ..., change: _Optional[_Union[ChangeKind, str]] = ..., token: _Optional[str] = ...) -> None: ...

class GetStatsRequest(_message.Message):
    __slots__ = ("tenant",)
    TENANT_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    def __init__(self, tenant: _Optional[str] = ...) -> None: ...

class GetStatsResponse(_message.Message):
    __slots__ = ("tenant", "projections", "index", "service", "dead_letters", "legs")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PROJECTIONS_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    LEGS_FIELD_NUMBER: _ClassVar[int]
    tenant: TenantStats
    projections: _containers.RepeatedCompositeFieldContainer[ProjectionStats]
    index: IndexStats
    service: ServiceStats
    dead_letters: _containers.RepeatedCompositeFieldContainer[DeadLetter]
    legs: _containers.RepeatedCompositeFieldContainer[LegStats]
    def __init__(self, tenant: _Optional[_Union[TenantStats, _Mapping]] = ..., projections: _Optional[_Iterable[_Union[ProjectionStats, _Mapping]]] = ..., index: _Optional[_Union[IndexStats, _Mapping]] = ..., service: _Optional[_Union[ServiceStats, _Mapping]] = ..., dead_letters: _Optional[_Iterable[_Union[DeadLetter, _Mapping]]] = ..., legs: _Optional[_Iterable[_Union[LegStats, _Mapping]]] = ...) -> None: ...

class LegStats(_message.Message):
    __slots__ = ("leg", "answer_count", "timed_out_count", "failed_count", "skipped_count", "p50", "p95")
    LEG_FIELD_NUMBER: _ClassVar[int]
    ANSWER_COUNT_FIELD_NUMBER: _ClassVar[int]
    TIMED_OUT_COUNT_FIELD_NUMBER: _ClassVar[int]
    FAILED_COUNT_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_COUNT_FIELD_NUMBER: _ClassVar[int]
    P50_FIELD_NUMBER: _ClassVar[int]
    P95_FIELD_NUMBER: _ClassVar[int]
    leg: str
    answer_count: int
    timed_out_count: int
    failed_count: int
    skipped_count: int
    p50: _duration_pb2.Duration
    p95: _duration_pb2.Duration
    def __init__(self, leg: _Optional[str] = ..., answer_count: _Optional[int] = ..., timed_out_count: _Optional[int] = ..., failed_count: _Optional[int] = ..., skipped_count: _Optional[int] = ..., p50: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., p95: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class TenantStats(_message.Message):
    __slots__ = ("segment_count", "sensitive_segment_count", "fact_count", "entity_count", "embedded_count", "embeddable_count", "text_search_config", "time_zone", "newest_event_time")
    SEGMENT_COUNT_FIELD_NUMBER: _ClassVar[int]
    SENSITIVE_SEGMENT_COUNT_FIELD_NUMBER: _ClassVar[int]
    FACT_COUNT_FIELD_NUMBER: _ClassVar[int]
    ENTITY_COUNT_FIELD_NUMBER: _ClassVar[int]
    EMBEDDED_COUNT_FIELD_NUMBER: _ClassVar[int]
    EMBEDDABLE_COUNT_FIELD_NUMBER: _ClassVar[int]
    TEXT_SEARCH_CONFIG_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    NEWEST_EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    segment_count: int
    sensitive_segment_count: int
    fact_count: int
    entity_count: int
    embedded_count: int
    embeddable_count: int
    text_search_config: str
    time_zone: str
    newest_event_time: _timestamp_pb2.Timestamp
    def __init__(self, segment_count: _Optional[int] = ..., sensitive_segment_count: _Optional[int] = ..., fact_count: _Optional[int] = ..., entity_count: _Optional[int] = ..., embedded_count: _Optional[int] = ..., embeddable_count: _Optional[int] = ..., text_search_config: _Optional[str] = ..., time_zone: _Optional[str] = ..., newest_event_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ProjectionStats(_message.Message):
    __slots__ = ("projection", "pending_count", "lag", "dead_letter_count")
    PROJECTION_FIELD_NUMBER: _ClassVar[int]
    PENDING_COUNT_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_COUNT_FIELD_NUMBER: _ClassVar[int]
    projection: str
    pending_count: int
    lag: _duration_pb2.Duration
    dead_letter_count: int
    def __init__(self, projection: _Optional[str] = ..., pending_count: _Optional[int] = ..., lag: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., dead_letter_count: _Optional[int] = ...) -> None: ...

class IndexStats(_message.Message):
    __slots__ = ("ready", "vector_count", "epoch", "reason", "tiers")
    READY_FIELD_NUMBER: _ClassVar[int]
    VECTOR_COUNT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TIERS_FIELD_NUMBER: _ClassVar[int]
    ready: bool
    vector_count: int
    epoch: int
    reason: str
    tiers: _containers.RepeatedCompositeFieldContainer[IndexTier]
    def __init__(self, ready: bool = ..., vector_count: _Optional[int] = ..., epoch: _Optional[int] = ..., reason: _Optional[str] = ..., tiers: _Optional[_Iterable[_Union[IndexTier, _Mapping]]] = ...) -> None: ...

class IndexTier(_message.Message):
    __slots__ = ("kind", "vector_count", "dead_count", "rebuilding", "failure", "memory_bytes", "approximate")
    KIND_FIELD_NUMBER: _ClassVar[int]
    VECTOR_COUNT_FIELD_NUMBER: _ClassVar[int]
    DEAD_COUNT_FIELD_NUMBER: _ClassVar[int]
    REBUILDING_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    APPROXIMATE_FIELD_NUMBER: _ClassVar[int]
    kind: str
    vector_count: int
    dead_count: int
    rebuilding: str
    failure: str
    memory_bytes: int
    approximate: bool
    def __init__(self, kind: _Optional[str] = ..., vector_count: _Optional[int] = ..., dead_count: _Optional[int] = ..., rebuilding: _Optional[str] = ..., failure: _Optional[str] = ..., memory_bytes: _Optional[int] = ..., approximate: bool = ...) -> None: ...

class ServiceStats(_message.Message):
    __slots__ = ("version", "placement", "ingress", "model_fingerprint", "dimension", "started_at", "degraded")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    INGRESS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    DIMENSION_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    DEGRADED_FIELD_NUMBER: _ClassVar[int]
    version: str
    placement: str
    ingress: str
    model_fingerprint: str
    dimension: int
    started_at: _timestamp_pb2.Timestamp
    degraded: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, version: _Optional[str] = ..., placement: _Optional[str] = ..., ingress: _Optional[str] = ..., model_fingerprint: _Optional[str] = ..., dimension: _Optional[int] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., degraded: _Optional[_Iterable[str]] = ...) -> None: ...

class DeadLetter(_message.Message):
    __slots__ = ("projection", "item", "reason", "dead_lettered_at")
    PROJECTION_FIELD_NUMBER: _ClassVar[int]
    ITEM_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERED_AT_FIELD_NUMBER: _ClassVar[int]
    projection: str
    item: _item_pb2.ItemRef
    reason: str
    dead_lettered_at: _timestamp_pb2.Timestamp
    def __init__(self, projection: _Optional[str] = ..., item: _Optional[_Union[_item_pb2.ItemRef, _Mapping]] = ..., reason: _Optional[str] = ..., dead_lettered_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

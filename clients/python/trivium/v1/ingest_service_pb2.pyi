import datetime

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

class ItemState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ITEM_STATE_UNSPECIFIED: _ClassVar[ItemState]
    ITEM_STATE_CREATED: _ClassVar[ItemState]
    ITEM_STATE_UPDATED: _ClassVar[ItemState]
    ITEM_STATE_UNCHANGED: _ClassVar[ItemState]
    ITEM_STATE_REJECTED: _ClassVar[ItemState]

class LookupKey(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOOKUP_KEY_UNSPECIFIED: _ClassVar[LookupKey]
    LOOKUP_KEY_ID: _ClassVar[LookupKey]
    LOOKUP_KEY_TEXT: _ClassVar[LookupKey]
    LOOKUP_KEY_VECTOR: _ClassVar[LookupKey]
ITEM_STATE_UNSPECIFIED: ItemState
ITEM_STATE_CREATED: ItemState
ITEM_STATE_UPDATED: ItemState
ITEM_STATE_UNCHANGED: ItemState
ITEM_STATE_REJECTED: ItemState
LOOKUP_KEY_UNSPECIFIED: LookupKey
LOOKUP_KEY_ID: LookupKey
LOOKUP_KEY_TEXT: LookupKey
LOOKUP_KEY_VECTOR: LookupKey

class IngestRequest(_message.Message):
    __slots__ = ("tenant", "items", "text_search_config", "time_zone", "idempotency_key")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    TEXT_SEARCH_CONFIG_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    items: _containers.RepeatedCompositeFieldContainer[IngestItem]
    text_search_config: str
    time_zone: str
    idempotency_key: str
    def __init__(self, tenant: _Optional[str] = ..., items: _Optional[_Iterable[_Union[IngestItem, _Mapping]]] = ..., text_search_config: _Optional[str] = ..., time_zone: _Optional[str] = ..., idempotency_key: _Optional[str] = ...) -> None: ...

class IngestItem(_message.Message):
    __slots__ = ("segment", "fact", "if_version")
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    FACT_FIELD_NUMBER: _ClassVar[int]
    IF_VERSION_FIELD_NUMBER: _ClassVar[int]
    segment: _segment_pb2.Segment
    fact: _fact_pb2.Fact
    if_version: int
    def __init__(self, segment: _Optional[_Union[_segment_pb2.Segment, _Mapping]] = ..., fact: _Optional[_Union[_fact_pb2.Fact, _Mapping]] = ..., if_version: _Optional[int] = ...) -> None: ...

class IngestResponse(_message.Message):
    __slots__ = ("outcomes", "consistency_token")
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    CONSISTENCY_TOKEN_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedCompositeFieldContainer[ItemOutcome]
    consistency_token: str
    def __init__(self, outcomes: _Optional[_Iterable[_Union[ItemOutcome, _Mapping]]] = ..., consistency_token: _Optional[str] = ...) -> None: ...

class ItemOutcome(_message.Message):
    __slots__ = ("index", "item", "state", "violations")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ITEM_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    VIOLATIONS_FIELD_NUMBER: _ClassVar[int]
    index: int
    item: _item_pb2.ItemRef
    state: ItemState
    violations: _containers.RepeatedCompositeFieldContainer[ItemViolation]
    def __init__(self, index: _Optional[int] = ..., item: _Optional[_Union[_item_pb2.ItemRef, _Mapping]] = ..., state: _Optional[_Union[ItemState, str]] = ..., violations: _Optional[_Iterable[_Union[ItemViolation, _Mapping]]] = ...) -> None: ...

class ItemViolation(_message.Message):
    __slots__ = ("field", "description")
    FIELD_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    field: str
    description: str
    def __init__(self, field: _Optional[str] = ..., description: _Optional[str] = ...) -> None: ...

class IngestStreamRequest(_message.Message):
    __slots__ = ("tenant", "items", "text_search_config", "time_zone", "idempotency_key")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    TEXT_SEARCH_CONFIG_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    items: _containers.RepeatedCompositeFieldContainer[IngestItem]
    text_search_config: str
    time_zone: str
    idempotency_key: str
    def __init__(self, tenant: _Optional[str] = ..., items: _Optional[_Iterable[_Union[IngestItem, _Mapping]]] = ..., text_search_config: _Optional[str] = ..., time_zone: _Optional[str] = ..., idempotency_key: _Optional[str] = ...) -> None: ...

class IngestStreamResponse(_message.Message):
    __slots__ = ("created_count", "updated_count", "unchanged_count", "rejected_count", "rejected", "consistency_token")
    CREATED_COUNT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_COUNT_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_COUNT_FIELD_NUMBER: _ClassVar[int]
    REJECTED_COUNT_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    CONSISTENCY_TOKEN_FIELD_NUMBER: _ClassVar[int]
    created_count: int
    updated_count: int
    unchanged_count: int
    rejected_count: int
    rejected: _containers.RepeatedCompositeFieldContainer[ItemOutcome]
    consistency_token: str
    def __init__(self, created_count: _Optional[int] = ..., updated_count: _Optional[int] = ..., unchanged_count: _Optional[int] = ..., rejected_count: _Optional[int] = ..., rejected: _Optional[_Iterable[_Union[ItemOutcome, _Mapping]]] = ..., consistency_token: _Optional[str] = ...) -> None: ...

class PatchRequest(_message.Message):
    __slots__ = ("tenant", "item", "text", "title", "importance", "set_labels", "remove_labels", "expires_at", "never_expires", "if_version", "time_zone")
    class SetLabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TENANT_FIELD_NUMBER: _ClassVar[int]
    ITEM_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    IMPORTANCE_FIELD_NUMBER: _ClassVar[int]
    SET_LABELS_FIELD_NUMBER: _ClassVar[int]
    REMOVE_LABELS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    NEVER_EXPIRES_FIELD_NUMBER: _ClassVar[int]
    IF_VERSION_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    item: _item_pb2.ItemRef
    text: str
    title: str
    importance: float
    set_labels: _containers.ScalarMap[str, str]
    remove_labels: _containers.RepeatedScalarFieldContainer[str]
    expires_at: _timestamp_pb2.Timestamp
    never_expires: bool
    if_version: int
    time_zone: str
    def __init__(self, tenant: _Optional[str] = ..., item: _Optional[_Union[_item_pb2.ItemRef, _Mapping]] = ..., text: _Optional[str] = ..., title: _Optional[str] = ..., importance: _Optional[float] = ..., set_labels: _Optional[_Mapping[str, str]] = ..., remove_labels: _Optional[_Iterable[str]] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., never_expires: bool = ..., if_version: _Optional[int] = ..., time_zone: _Optional[str] = ...) -> None: ...

class PatchResponse(_message.Message):
    __slots__ = ("segment", "fact", "consistency_token")
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    FACT_FIELD_NUMBER: _ClassVar[int]
    CONSISTENCY_TOKEN_FIELD_NUMBER: _ClassVar[int]
    segment: _segment_pb2.Segment
    fact: _fact_pb2.Fact
    consistency_token: str
    def __init__(self, segment: _Optional[_Union[_segment_pb2.Segment, _Mapping]] = ..., fact: _Optional[_Union[_fact_pb2.Fact, _Mapping]] = ..., consistency_token: _Optional[str] = ...) -> None: ...

class ForgetRequest(_message.Message):
    __slots__ = ("tenant", "ids", "session", "speaker", "everything", "filter", "dry_run")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SPEAKER_FIELD_NUMBER: _ClassVar[int]
    EVERYTHING_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    ids: ItemIds
    session: str
    speaker: str
    everything: bool
    filter: _filter_pb2.Filter
    dry_run: bool
    def __init__(self, tenant: _Optional[str] = ..., ids: _Optional[_Union[ItemIds, _Mapping]] = ..., session: _Optional[str] = ..., speaker: _Optional[str] = ..., everything: bool = ..., filter: _Optional[_Union[_filter_pb2.Filter, _Mapping]] = ..., dry_run: bool = ...) -> None: ...

class ItemIds(_message.Message):
    __slots__ = ("segment_ids", "fact_ids")
    SEGMENT_IDS_FIELD_NUMBER: _ClassVar[int]
    FACT_IDS_FIELD_NUMBER: _ClassVar[int]
    segment_ids: _containers.RepeatedScalarFieldContainer[str]
    fact_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, segment_ids: _Optional[_Iterable[str]] = ..., fact_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ForgetResponse(_message.Message):
    __slots__ = ("segment_count", "fact_count", "receipts", "consistency_token", "speakers")
    SEGMENT_COUNT_FIELD_NUMBER: _ClassVar[int]
    FACT_COUNT_FIELD_NUMBER: _ClassVar[int]
    RECEIPTS_FIELD_NUMBER: _ClassVar[int]
    CONSISTENCY_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SPEAKERS_FIELD_NUMBER: _ClassVar[int]
    segment_count: int
    fact_count: int
    receipts: _containers.RepeatedCompositeFieldContainer[StoreReceipt]
    consistency_token: str
    speakers: _containers.RepeatedCompositeFieldContainer[SpeakerCount]
    def __init__(self, segment_count: _Optional[int] = ..., fact_count: _Optional[int] = ..., receipts: _Optional[_Iterable[_Union[StoreReceipt, _Mapping]]] = ..., consistency_token: _Optional[str] = ..., speakers: _Optional[_Iterable[_Union[SpeakerCount, _Mapping]]] = ...) -> None: ...

class SpeakerCount(_message.Message):
    __slots__ = ("speaker", "segment_count")
    SPEAKER_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_COUNT_FIELD_NUMBER: _ClassVar[int]
    speaker: str
    segment_count: int
    def __init__(self, speaker: _Optional[str] = ..., segment_count: _Optional[int] = ...) -> None: ...

class StoreReceipt(_message.Message):
    __slots__ = ("store", "verified", "remaining_count", "reason", "removed_count", "lookups")
    STORE_FIELD_NUMBER: _ClassVar[int]
    VERIFIED_FIELD_NUMBER: _ClassVar[int]
    REMAINING_COUNT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REMOVED_COUNT_FIELD_NUMBER: _ClassVar[int]
    LOOKUPS_FIELD_NUMBER: _ClassVar[int]
    store: str
    verified: bool
    remaining_count: int
    reason: str
    removed_count: int
    lookups: _containers.RepeatedCompositeFieldContainer[Lookup]
    def __init__(self, store: _Optional[str] = ..., verified: bool = ..., remaining_count: _Optional[int] = ..., reason: _Optional[str] = ..., removed_count: _Optional[int] = ..., lookups: _Optional[_Iterable[_Union[Lookup, _Mapping]]] = ...) -> None: ...

class Lookup(_message.Message):
    __slots__ = ("key", "asked_count", "found_count")
    KEY_FIELD_NUMBER: _ClassVar[int]
    ASKED_COUNT_FIELD_NUMBER: _ClassVar[int]
    FOUND_COUNT_FIELD_NUMBER: _ClassVar[int]
    key: LookupKey
    asked_count: int
    found_count: int
    def __init__(self, key: _Optional[_Union[LookupKey, str]] = ..., asked_count: _Optional[int] = ..., found_count: _Optional[int] = ...) -> None: ...

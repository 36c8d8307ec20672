import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from trivium.v1 import filter_pb2 as _filter_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Segment(_message.Message):
    __slots__ = ("id", "text", "title", "kind", "speaker", "session", "event_time", "importance", "sensitive", "labels", "entities", "entity", "created_at", "updated_at", "keywords", "embedding", "mentions", "expires_at", "version")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SPEAKER_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    IMPORTANCE_FIELD_NUMBER: _ClassVar[int]
    SENSITIVE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ENTITIES_FIELD_NUMBER: _ClassVar[int]
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    KEYWORDS_FIELD_NUMBER: _ClassVar[int]
    EMBEDDING_FIELD_NUMBER: _ClassVar[int]
    MENTIONS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    id: str
    text: str
    title: str
    kind: str
    speaker: str
    session: str
    event_time: _timestamp_pb2.Timestamp
    importance: float
    sensitive: bool
    labels: _containers.ScalarMap[str, str]
    entities: _containers.RepeatedScalarFieldContainer[str]
    entity: str
    created_at: _timestamp_pb2.Timestamp
    updated_at: _timestamp_pb2.Timestamp
    keywords: _containers.RepeatedScalarFieldContainer[str]
    embedding: Embedding
    mentions: _containers.RepeatedCompositeFieldContainer[_filter_pb2.TimeRange]
    expires_at: _timestamp_pb2.Timestamp
    version: int
    def __init__(self, id: _Optional[str] = ..., text: _Optional[str] = ..., title: _Optional[str] = ..., kind: _Optional[str] = ..., speaker: _Optional[str] = ..., session: _Optional[str] = ..., event_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., importance: _Optional[float] = ..., sensitive: bool = ..., labels: _Optional[_Mapping[str, str]] = ..., entities: _Optional[_Iterable[str]] = ..., entity: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., updated_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., keywords: _Optional[_Iterable[str]] = ..., embedding: _Optional[_Union[Embedding, _Mapping]] = ..., mentions: _Optional[_Iterable[_Union[_filter_pb2.TimeRange, _Mapping]]] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., version: _Optional[int] = ...) -> None: ...

class Embedding(_message.Message):
    __slots__ = ("model_fingerprint", "values")
    MODEL_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    model_fingerprint: str
    values: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, model_fingerprint: _Optional[str] = ..., values: _Optional[_Iterable[float]] = ...) -> None: ...

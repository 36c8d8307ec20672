import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Filter(_message.Message):
    __slots__ = ("kinds", "labels", "speakers", "sessions", "entities", "min_importance", "event_time", "created_at", "updated_at", "none_of", "all_of", "any_of")
    KINDS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    SPEAKERS_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    ENTITIES_FIELD_NUMBER: _ClassVar[int]
    MIN_IMPORTANCE_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    NONE_OF_FIELD_NUMBER: _ClassVar[int]
    ALL_OF_FIELD_NUMBER: _ClassVar[int]
    ANY_OF_FIELD_NUMBER: _ClassVar[int]
    kinds: _containers.RepeatedScalarFieldContainer[str]
    labels: _containers.RepeatedCompositeFieldContainer[LabelFilter]
    speakers: _containers.RepeatedScalarFieldContainer[str]
    sessions: _containers.RepeatedScalarFieldContainer[str]
    entities: _containers.RepeatedScalarFieldContainer[str]
    min_importance: float
    event_time: TimeRange
    created_at: TimeRange
    updated_at: TimeRange
    none_of: Exclusion
    all_of: _containers.RepeatedCompositeFieldContainer[Filter]
    any_of: _containers.RepeatedCompositeFieldContainer[Filter]
    def __init__(self, kinds: _Optional[_Iterable[str]] = ..., labels: _Optional[_Iterable[_Union[LabelFilter, _Mapping]]] = ..., speakers: _Optional[_Iterable[str]] = ..., sessions: _Optional[_Iterable[str]] = ..., entities: _Optional[_Iterable[str]] = ..., min_importance: _Optional[float] = ..., event_time: _Optional[_Union[TimeRange, _Mapping]] = ..., created_at: _Optional[_Union[TimeRange, _Mapping]] = ..., updated_at: _Optional[_Union[TimeRange, _Mapping]] = ..., none_of: _Optional[_Union[Exclusion, _Mapping]] = ..., all_of: _Optional[_Iterable[_Union[Filter, _Mapping]]] = ..., any_of: _Optional[_Iterable[_Union[Filter, _Mapping]]] = ...) -> None: ...

class Exclusion(_message.Message):
    __slots__ = ("kinds", "speakers", "sessions", "ids", "fact_ids", "filters")
    KINDS_FIELD_NUMBER: _ClassVar[int]
    SPEAKERS_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    FACT_IDS_FIELD_NUMBER: _ClassVar[int]
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    kinds: _containers.RepeatedScalarFieldContainer[str]
    speakers: _containers.RepeatedScalarFieldContainer[str]
    sessions: _containers.RepeatedScalarFieldContainer[str]
    ids: _containers.RepeatedScalarFieldContainer[str]
    fact_ids: _containers.RepeatedScalarFieldContainer[str]
    filters: _containers.RepeatedCompositeFieldContainer[Filter]
    def __init__(self, kinds: _Optional[_Iterable[str]] = ..., speakers: _Optional[_Iterable[str]] = ..., sessions: _Optional[_Iterable[str]] = ..., ids: _Optional[_Iterable[str]] = ..., fact_ids: _Optional[_Iterable[str]] = ..., filters: _Optional[_Iterable[_Union[Filter, _Mapping]]] = ...) -> None: ...

class LabelFilter(_message.Message):
    __slots__ = ("key", "values", "number", "date", "exists")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    DATE_FIELD_NUMBER: _ClassVar[int]
    EXISTS_FIELD_NUMBER: _ClassVar[int]
    key: str
    values: _containers.RepeatedScalarFieldContainer[str]
    number: NumberRange
    date: TimeRange
    exists: bool
    def __init__(self, key: _Optional[str] = ..., values: _Optional[_Iterable[str]] = ..., number: _Optional[_Union[NumberRange, _Mapping]] = ..., date: _Optional[_Union[TimeRange, _Mapping]] = ..., exists: bool = ...) -> None: ...

class NumberRange(_message.Message):
    __slots__ = ("min", "max")
    MIN_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    min: float
    max: float
    def __init__(self, min: _Optional[float] = ..., max: _Optional[float] = ...) -> None: ...

class TimeRange(_message.Message):
    __slots__ = ("start", "end")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    start: _timestamp_pb2.Timestamp
    end: _timestamp_pb2.Timestamp
    def __init__(self, start: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

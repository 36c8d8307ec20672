from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class ItemRef(_message.Message):
    __slots__ = ("segment_id", "fact_id")
    SEGMENT_ID_FIELD_NUMBER: _ClassVar[int]
    FACT_ID_FIELD_NUMBER: _ClassVar[int]
    segment_id: str
    fact_id: str
    def __init__(self, segment_id: _Optional[str] = ..., fact_id: _Optional[str] = ...) -> None: ...

"""RetrieveStream: reads each query of a stream, and writes its answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from serving.config.profiles import ProfileBook
from serving.domain.errors import InvalidRequestError, Violation
from serving.pipeline.retrieval.steps import Retrieval
from serving.rpc.retrieve import RetrieveCall, from_retrieval, to_inner_call
from trivium.v1 import retrieval_service_pb2 as retrieval_pb

MAX_STREAMED = 1000
"""The most requests of a RetrieveStream: five minutes of transcripts every 300 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedCall:
    """A checked RetrieveStreamRequest, with its message and its number."""

    retrieve: RetrieveCall
    message: retrieval_pb.RetrieveRequest
    number: int
    final: bool

    def repeats(self, earlier: StreamedCall) -> bool:
        """Whether both ask the same."""
        return self.message == earlier.message


def to_streamed_call(
    request: retrieval_pb.RetrieveStreamRequest, number: int, profiles: ProfileBook, now: datetime
) -> StreamedCall:
    """Reads a RetrieveStreamRequest, which is the given one of its stream, from 1."""
    if number >= MAX_STREAMED and not request.final:
        raise InvalidRequestError(
            [Violation("final", f"must be true in request {MAX_STREAMED} at the latest")]
        )
    return StreamedCall(
        retrieve=to_inner_call(request.retrieve, profiles, now),
        message=request.retrieve,
        number=number,
        final=request.final,
    )


def from_streamed(call: StreamedCall, retrieval: Retrieval) -> retrieval_pb.RetrieveStreamResponse:
    """Writes an answer of a stream."""
    return retrieval_pb.RetrieveStreamResponse(
        retrieved=from_retrieval(call.retrieve, retrieval),
        request_number=call.number,
        final=call.final,
    )

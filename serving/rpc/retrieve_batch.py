"""RetrieveBatch: reads several queries of one tenant, and writes the answer or error of each."""

from __future__ import annotations

from collections.abc import Sequence

from serving.domain.errors import TriviumError
from serving.pipeline.retrieval.steps import Retrieval
from serving.rpc.check import Checker
from serving.rpc.retrieve import RetrieveCall, from_retrieval
from serving.rpc.status import to_status
from trivium.v1 import retrieval_service_pb2 as retrieval_pb

MAX_REQUESTS = 16


def to_requests(
    batch: retrieval_pb.RetrieveBatchRequest,
) -> Sequence[retrieval_pb.RetrieveRequest]:
    """Reads the requests of a batch, and sets their tenant."""
    with Checker() as check:
        tenant = check.tenant(batch.tenant)
        if not 0 < len(batch.requests) <= MAX_REQUESTS:
            check.reject("requests", f"must be 1 to {MAX_REQUESTS}, are {len(batch.requests)}")
        for place, request in enumerate(batch.requests[:MAX_REQUESTS]):
            if request.tenant not in ("", tenant):
                check.reject(f"requests[{place}].tenant", "must be empty, or that of the batch")
            if request.tenants:
                check.reject(f"requests[{place}].tenants", "must be empty in a batch")
    for request in batch.requests:
        request.tenant = tenant
    return batch.requests


def from_answers(
    answers: Sequence[tuple[RetrieveCall, Retrieval] | TriviumError],
) -> retrieval_pb.RetrieveBatchResponse:
    """Writes the result of each request, in their order."""
    return retrieval_pb.RetrieveBatchResponse(
        results=[
            retrieval_pb.BatchResult(error=_error(answer))
            if isinstance(answer, TriviumError)
            else retrieval_pb.BatchResult(response=from_retrieval(*answer))
            for answer in answers
        ]
    )


def _error(error: TriviumError) -> retrieval_pb.BatchError:
    status = to_status(error)
    return retrieval_pb.BatchError(code=status.code, message=status.message)

"""The edge of the service: what becomes of a request and its metadata before any store is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from serving.adapters.neo4j.names import near_names_query
from serving.adapters.postgres.tables.filters import conditions_of
from serving.config.profiles import ProfileBook
from serving.domain.english.dates import EnglishDates
from serving.domain.errors import TriviumError
from serving.domain.questions.named_entities import question_spans
from serving.domain.questions.query import Query
from serving.ports.embedding import EmbeddingModel
from serving.rpc import (
    admin_service,
    catalog_service,
    ingest_service,
    pages,
    retrieval_service,
    retrieve,
)
from serving.rpc.registration import METHODS
from serving.rpc.service import TriviumService
from serving.rpc.status import to_status
from tests.security.hostile import TEXTS, Hostility
from tests.support.answers import MAX_HEADER_BYTES, header_bytes
from tests.unit.rpc.calling import Call
from tests.unit.rpc.identity.callers import door
from trivium.v1.retrieval_service_pb2 import ListProfilesRequest

NOW = datetime(2026, 5, 1, tzinfo=UTC)
MODEL = EmbeddingModel("model", 2)
PLAUSIBLE: Mapping[str, object] = {
    "tenant": "acme",
    "query": "where to?",
    "id": "a",
    "text": "b",
    "model_fingerprint": MODEL.fingerprint,
}

READ: Mapping[str, Callable[[Any, ProfileBook], object]] = {
    "Retrieve": lambda r, p: retrieve.to_retrieve_call(r, p, NOW),
    "RetrieveBatch": lambda r, _: retrieval_service.to_requests(r),
    "RetrieveStream": lambda r, p: retrieval_service.to_streamed_call(r, 1, p, NOW),
    "DescribeEntity": lambda r, _: retrieval_service.to_describe_call(r, NOW),
    "Warm": lambda r, p: retrieval_service.to_warm_call(r, p, NOW),
    "Compare": lambda r, p: retrieval_service.to_compare_call(r, p, NOW),
    "ExplainAbsence": lambda r, p: retrieval_service.to_explain_absence_call(r, p, NOW),
    "ListProfiles": lambda r, _: pages.read_page(r),
    "Ingest": lambda r, _: ingest_service.to_ingest_call(r, NOW, MODEL),
    "IngestStream": lambda r, _: ingest_service.to_ingest_call(r, NOW, MODEL),
    "Patch": lambda r, _: ingest_service.to_patch_call(r, NOW),
    "Forget": lambda r, _: ingest_service.to_selector(r),
    "GetSegments": lambda r, _: catalog_service.to_ids(r),
    "GetFacts": lambda r, _: catalog_service.to_ids(r),
    "ListSegments": lambda r, _: catalog_service.to_list_segments_call(r),
    "ListFacts": lambda r, _: catalog_service.to_list_facts_call(r),
    "WatchChanges": lambda r, _: catalog_service.to_watch_call(r),
    "GetStats": lambda r, _: catalog_service.to_stats_tenant(r),
    "ListTenants": lambda r, _: pages.read_page(r),
    "ListKeys": lambda r, _: pages.read_page(r),
    "ListAuditEntries": lambda r, _: admin_service.to_audit_page(r),
    "CreateKey": lambda r, _: admin_service.to_new_key(r, NOW),
    "RevokeKey": lambda r, _: admin_service.to_key_id(r),
}

METADATA = "metadata"
TARGETS = (*sorted(METHODS), METADATA)
"""What inputs are for: the requests of a method, or the metadata of a call."""
KEYS = ("authorization", "request_id", "traceparent", "authorization-bin")
COMPLETED_BY_ONE_CHARACTER = {"cut key", "twice"}
"""Credentials that a variation could make valid."""
NO_USE_CASES: Any = None
"""No call gets as far as them."""


class Edge:
    """Reads requests and metadata as the service does.

    Attributes:
        rejected: Metadata that is nearly right, such as a key with another secret.
    """

    def __init__(self) -> None:
        self._profiles = ProfileBook.load()
        self._dates = EnglishDates()
        gate = asyncio.run(door())
        self._service = TriviumService(
            NO_USE_CASES, self._profiles, authenticator=gate.authenticator
        )
        self.rejected: Sequence[bytes] = [
            b"\0" + value.encode("latin-1")
            for name, call in gate.rejected.items()
            for _, value in call.metadata
            if isinstance(value, str) and name not in COMPLETED_BY_ONE_CHARACTER
        ]

    def receive(self, target: str, encoded: bytes) -> str:
        """What becomes of an input: "accepted", "undecodable", or the reason of its rejection.

        Raises:
            Exception: The input is not read properly; a caller would get INTERNAL.
        """
        if target == METADATA:
            return self._receive_metadata(encoded)
        try:
            request: Any = GetMessageClass(METHODS[target].input_type).FromString(encoded)
        except DecodeError:
            return "undecodable"
        try:
            call = READ[target](request, self._profiles)
        except TriviumError as error:
            size = header_bytes(to_status(error))
            assert size <= MAX_HEADER_BYTES, f"a status of {size} bytes does not reach a client"
            return error.reason
        if isinstance(call, retrieve.RetrieveCall):
            self._use(call.query)
        return "accepted"

    def _use(self, query: Query) -> None:
        """What reads the question before a store is asked."""
        self._dates.times(query.text, query.local_time)
        question_spans(query.text)
        near_names_query(query.scope.tenant, query.text)
        conditions_of(query.scope.segment_filter, query.local_time)

    def _receive_metadata(self, encoded: bytes) -> str:
        """Calls with one entry that is no credential; returns the name of the status.

        The first byte selects the key, the others are the value. Raises `AssertionError` if the
        call is answered, or its status is an unexpected one.
        """
        key = KEYS[encoded[0] % len(KEYS)] if encoded else KEYS[0]
        value: str | bytes = encoded[1:]
        if not key.endswith("-bin"):
            value = encoded[1:].decode("latin-1")  # as gRPC does with what is not UTF-8
        call = Call([(key, value)])
        # It is rejected before it waits for anything, which needs no event loop.
        answering = self._service.ListProfiles(ListProfilesRequest(), call).__await__()
        waits = any(True for _ in answering)
        assert not waits, "the call was not rejected at once"
        denied = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
        assert call.code in denied, f"{call.code}: {call.details}"
        return call.code.name


class Inputs:
    """Makes hostile inputs; the same seed makes the same ones."""

    def __init__(self, seed: int, edge: Edge) -> None:
        self._hostility = Hostility(seed, PLAUSIBLE)
        self._credentials = [*edge.rejected, *(b"\0" + text.encode() for text in TEXTS)]

    def make(self, target: str) -> bytes:
        """A new input."""
        if target == METADATA:
            given = self._hostility.choose(self._credentials)
            return self._hostility.choose((given, self._hostility.damaged(given)))
        return self._hostility.encoded(METHODS[target].input_type)

    def vary(self, target: str, encoded: bytes) -> bytes:
        """A request with another value in one field; a new input if it cannot be decoded."""
        if target == METADATA:
            return self.make(target)
        try:
            request = GetMessageClass(METHODS[target].input_type).FromString(encoded)
        except DecodeError:
            return self.make(target)
        self._hostility.vary(request)
        return request.SerializeToString()

"""What the spans of a call say."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from starlette.requests import Request

from serving.adapters.open_telemetry import OpenTelemetryTracer
from serving.domain.errors import DependencyError
from serving.http.calls import HttpCall
from serving.rpc.service import TriviumService
from tests.fakes.pipeline import BrokenLeg, FixedLeg
from tests.unit.rpc.calling import Call
from tests.unit.rpc.test_measuring import service_of
from trivium.v1 import retrieval_service_pb2

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = "00f067aa0ba902b7"
SECRET = "where is zanzibar"


async def spans_of(
    service: TriviumService, flags: str = "01", **fields: Any
) -> dict[str, ReadableSpan]:
    """The spans of one question, by name."""
    exporter = InMemorySpanExporter()
    service.tracer = tracer = OpenTelemetryTracer(exporter)
    request = retrieval_service_pb2.RetrieveRequest(tenant="acme", query=SECRET, **fields)
    await service.Retrieve(request, Call([("traceparent", f"00-{TRACE}-{CALLER}-{flags}")]))
    await asyncio.sleep(0)  # spans are made in the next iteration of the loop
    tracer.close()
    return {span.name: span for span in exporter.get_finished_spans()}


LEGS = {
    "lexical": FixedLeg("a b"),
    "graph": BrokenLeg(DependencyError("graph", "Neo4j cannot be reached")),
}


async def test_answer_has_a_span_for_each_step() -> None:
    service = await service_of(LEGS)

    spans = await spans_of(service, profile="default")

    call = spans["trivium.v1.RetrievalService/Retrieve"]
    assert call.kind is SpanKind.SERVER
    assert dict(call.attributes or {}) == {
        "rpc.system.name": "grpc",
        "rpc.method": "trivium.v1.RetrievalService/Retrieve",
        "rpc.response.status_code": "OK",
    }
    lexical, graph = spans["leg lexical"], spans["leg graph"]
    assert dict(lexical.attributes or {}) == {
        "trivium.leg": "lexical",
        "trivium.leg.state": "ok",
        "trivium.leg.candidates": 2,
        "db.system.name": "postgresql",
    }
    assert (lexical.kind, lexical.status.status_code) == (SpanKind.CLIENT, StatusCode.UNSET)
    assert (graph.attributes or {})["error.type"] == "failed"
    assert graph.status.status_code is StatusCode.ERROR
    assert {"load rows", "rank"} < spans.keys()
    assert all(
        span.parent is not None and span.parent.span_id == call.context.span_id
        for span in spans.values()
        if span is not call
    )
    assert SECRET not in str([span.to_json() for span in spans.values()])


async def test_trace_of_the_caller_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    service = await service_of(LEGS)

    with caplog.at_level(logging.INFO, "serving.rpc.boundary"):
        spans = await spans_of(service, profile="default")

    assert {span.context.trace_id for span in spans.values()} == {int(TRACE, 16)}
    [call] = [span for span in spans.values() if span.kind is SpanKind.SERVER]
    assert call.parent is not None
    assert call.parent.span_id == int(CALLER, 16)
    assert caplog.records[-1].__dict__["trace_id"] == TRACE


async def test_rejected_call_ends_its_span_with_its_code() -> None:
    spans = await spans_of(await service_of(LEGS), profile="none such")

    [call] = spans.values()
    assert (call.attributes or {})["rpc.response.status_code"] == "INVALID_ARGUMENT"
    assert call.status.status_code is StatusCode.UNSET, "it is the caller's fault"


def test_trace_of_an_http_caller_is_read() -> None:
    headers = [(b"traceparent", b"00-abc"), (b"x-other", b"1")]

    call = HttpCall(Request({"type": "http", "headers": headers}))

    assert call.invocation_metadata() == [("traceparent", "00-abc")]


async def test_unsampled_trace_of_a_caller_is_not_recorded() -> None:
    assert await spans_of(await service_of(LEGS), "00", profile="default") == {}

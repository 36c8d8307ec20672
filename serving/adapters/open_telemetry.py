"""Traces by OpenTelemetry's SDK, which reads its own settings: the variables `OTEL_*`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from serving.telemetry import CallTrace, Step

NANOSECONDS = 1_000_000_000
FAULTS_OF_SERVER = {
    "UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"
}  # fmt: skip
"""By OpenTelemetry's conventions for gRPC; other codes are faults of the caller."""


class OpenTelemetryTracer:
    """Traces calls, and sends them in batches from a thread of its own.

    The sampler is that of `OTEL_TRACES_SAMPLER`: by default the decision of the caller counts, and
    all calls without a caller's trace are recorded.
    """

    def __init__(self, exporter: SpanExporter) -> None:
        named = Resource({"service.name": "trivium"}).merge(OTELResourceDetector().detect())
        self._provider = TracerProvider(resource=Resource.get_empty().merge(named))
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("trivium")
        self._propagator = TraceContextTextMapPropagator()

    def begin(self, method: str, parent: Mapping[str, str]) -> CallTrace:
        context = self._propagator.extract(parent)
        attributes = {"rpc.system.name": "grpc", "rpc.method": method}
        span = self._tracer.start_span(method, context, SpanKind.SERVER, attributes)
        return _Trace(self._tracer, span)

    def close(self) -> None:
        self._provider.shutdown()


class _Trace:
    def __init__(self, tracer: trace.Tracer, span: Span) -> None:
        self._tracer = tracer
        self._span = span

    @property
    def trace_id(self) -> str:
        return trace.format_trace_id(self._span.get_span_context().trace_id)

    def end(self, ended_at: float, code: str, steps: Sequence[Step]) -> None:
        if self._span.is_recording():
            context = trace.set_span_in_context(self._span)
            for step in steps:
                self._add(step, context)
            self._span.set_attribute("rpc.response.status_code", code)
            if code in FAULTS_OF_SERVER:
                self._span.set_status(Status(StatusCode.ERROR))
        self._span.end(int(ended_at * NANOSECONDS))

    def _add(self, step: Step, context: Context) -> None:
        span = self._tracer.start_span(
            step.name,
            context,
            SpanKind.CLIENT if step.kind == "client" else SpanKind.INTERNAL,
            step.attributes,
            start_time=int(step.started_at * NANOSECONDS),
        )
        if step.failure:
            span.set_attribute("error.type", step.failure)
            span.set_status(Status(StatusCode.ERROR))
        span.end(int((step.started_at + step.elapsed_s) * NANOSECONDS))

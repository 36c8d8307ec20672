"""Traces of calls, if the environment names where they are sent."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from serving.composition.extras import missing_modules
from serving.config.settings import TracesEnvironment
from serving.telemetry import Tracer

logger = logging.getLogger(__name__)


@contextmanager
def open_tracer(environment: TracesEnvironment) -> Iterator[Tracer | None]:
    """Sends traces by OTLP over HTTP; None if `OTEL_*` names no address.

    Without the extra `traces` there are none, which the log says: answers matter more.
    """
    if not environment.enabled:
        yield None
        return
    if missing_modules("traces"):
        logger.error("no traces: pip install 'trivium[traces]'")
        yield None
        return
    # Only here, since a service without traces needs neither.
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    from serving.adapters.open_telemetry import OpenTelemetryTracer

    tracer = OpenTelemetryTracer(OTLPSpanExporter())
    try:
        yield tracer
    finally:
        tracer.close()

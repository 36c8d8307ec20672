"""The spans of a call, made from its reports when it has ended: an answer waits for none."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from serving.domain.breaker import POSTGRES
from serving.pipeline.retrieval.leg_runner import LegReport, LegState
from serving.pipeline.retrieval.legs import LEGS
from serving.pipeline.retrieval.steps import Retrieval
from serving.rpc.identity.authenticator import CallMetadata
from serving.rpc.registration import METHODS
from serving.telemetry import Step, Tracer

PARENT = ("traceparent", "tracestate")
SYSTEMS = {POSTGRES: "postgresql", "graph": "neo4j"}
"""The stores, by the dependency of a leg."""
MAX_STEPS = 512
"""A stream may have any number of answers."""

_STEPS: ContextVar[list[Step] | None] = ContextVar("steps_of_call", default=None)


@contextmanager
def traced(
    tracer: Tracer | None, method: str, context: CallMetadata, logged: dict[str, object]
) -> Iterator[None]:
    """Traces a call, and adds its trace id to what is logged of it; nothing without a tracer."""
    if tracer is None:
        yield
        return
    metadata = context.invocation_metadata() or ()
    parent = {key: value for key, value in metadata if key in PARENT and isinstance(value, str)}
    service = METHODS[method].containing_service.full_name
    trace = tracer.begin(f"{service}/{method}", parent)
    logged["trace_id"] = trace.trace_id
    steps: list[Step] = []
    # Not reset: a stream ends in another context, and each call sets its own.
    _STEPS.set(steps)
    try:
        yield
    finally:
        # Later, when the response is on its way and the code is known.
        ended_at = time.time()
        asyncio.get_running_loop().call_soon(
            lambda: trace.end(ended_at, str(logged.get("code")), steps)
        )


def note_answer(retrieval: Retrieval) -> None:
    """Adds the steps of an answer, which has just been made, to the trace of this call.

    Durations are measured; legs begin together, and the other steps follow each other.
    """
    steps = _STEPS.get()
    if steps is None or len(steps) > MAX_STEPS:
        return
    timings = retrieval.timings
    ended_at = time.time()
    began_at = ended_at - timings.total_s
    legs = [report for report in retrieval.reports if report.state is not LegState.SKIPPED]
    steps += [_leg(report, began_at) for report in legs]
    legs_ended_at = began_at + max((report.elapsed_s for report in legs), default=0.0)
    reranked_at = ended_at - timings.reranking_s
    ranked_at = reranked_at - timings.ranking_s
    for name, started_at, elapsed_s, system in (
        ("encode question", began_at, timings.embedding_s, ""),
        ("load rows", legs_ended_at, timings.loading_s, SYSTEMS[POSTGRES]),
        ("rank", ranked_at, timings.ranking_s, ""),
        ("rerank", reranked_at, timings.reranking_s, ""),
    ):
        if elapsed_s:
            steps.append(_step(name, started_at, elapsed_s, {}, system))


def _leg(report: LegReport, began_at: float) -> Step:
    attributes: dict[str, str | int] = {
        "trivium.leg": report.leg,
        "trivium.leg.state": report.state.value,
        "trivium.leg.candidates": report.candidates,
    }
    leg = LEGS.get(report.leg)
    system = SYSTEMS.get(leg.dependency, "") if leg is not None else ""
    failed = "" if report.state.answered else report.state.value
    return _step(f"leg {report.leg}", began_at, report.elapsed_s, attributes, system, failed)


def _step(
    name: str,
    started_at: float,
    elapsed_s: float,
    attributes: dict[str, str | int],
    system: str,
    failure: str = "",
) -> Step:
    if system:
        attributes["db.system.name"] = system
    return Step(
        name, started_at, elapsed_s, attributes, "client" if system else "internal", failure
    )

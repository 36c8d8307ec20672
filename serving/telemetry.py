"""The metrics of the service; their names are defined only here."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from serving.domain.breaker import BreakerState, OnChange

logger = logging.getLogger(__name__)

LATENCY_BUCKETS_MS = (0.5, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 75, 100, 200, 500, 1000, 5000)

BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric: its name, description, kind, labels and, for a histogram, bucket bounds."""

    name: str
    description: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: Sequence[str] = ()
    buckets: Sequence[float] = LATENCY_BUCKETS_MS


RPC_LATENCY = Metric(
    "trivium_rpc_latency_ms",
    "Latency of calls by method and code.",
    "histogram",
    ("method", "code"),
)
LEG_LATENCY = Metric(
    "trivium_leg_latency_ms", "Latency of legs by name and state.", "histogram", ("leg", "state")
)
LEG_CANDIDATES = Metric(
    "trivium_leg_candidates_total", "Candidates found by each leg.", "counter", ("leg",)
)
ANSWERS = Metric("trivium_answers_total", "Answers by profile.", "counter", ("profile",))
ANSWERS_BY_LEG_ALONE = Metric(
    "trivium_answers_by_leg_alone_total",
    "Answers with a hit that only this leg found; divide by trivium_answers_total for the share.",
    "counter",
    ("profile", "leg"),
)
SHED = Metric(
    "trivium_shed_total",
    "Answers without this leg, or without reranking, because the service was busy.",
    "counter",
    ("work",),
)
BREAKER = Metric(
    "trivium_breaker",
    "The breaker of a dependency: 0 closed, 0.5 half-open, 1 open.",
    "gauge",
    ("dependency",),
)
RERANKED_ANSWERS = Metric(
    "trivium_reranked_answers_total",
    "Answers of profiles with reranking, by stage: reranked, coarse, coarse_fallback.",
    "counter",
    ("profile", "stage"),
)
EMBEDDING_BATCH = Metric(
    "trivium_embedding_batch_size",
    "Text windows in each batch of the encoder, by queue.",
    "histogram",
    ("queue",),
    BATCH_BUCKETS,
)
EMBEDDING_WAITING = Metric(
    "trivium_embedding_waiting", "Texts waiting for the encoder, by queue.", "gauge", ("queue",)
)
INDEX_VECTORS = Metric("trivium_index_vectors", "Vectors in the index.", "gauge")
INDEX_EPOCH = Metric(
    "trivium_index_epoch", "The number of fills and rebuilds of the index.", "gauge"
)
INDEX_ROWS = Metric(
    "trivium_index_rows",
    "Rows of the index by kind and how they are searched: exact, approximate, dead.",
    "gauge",
    ("kind", "place"),
)
INDEX_REBUILDS = Metric(
    "trivium_index_rebuilds", "Tenants whose rows are being rebuilt.", "gauge", ("kind",)
)
INDEX_FAILED_REBUILDS = Metric(
    "trivium_index_failed_rebuilds",
    "Tenants whose last rebuild failed; their old rows are still searched.",
    "gauge",
    ("kind",),
)
INDEX_LAG = Metric(
    "trivium_index_lag_seconds",
    "Age of the oldest change that this replica of the index has not applied.",
    "gauge",
)
PROJECTION_LAG = Metric(
    "trivium_projection_lag_seconds",
    "Age of the oldest change that a projection has not applied.",
    "gauge",
    ("projection",),
)
PROJECTION_PENDING = Metric(
    "trivium_projection_pending",
    "Changes that a projection has not applied.",
    "gauge",
    ("projection",),
)
DEAD_LETTERS = Metric(
    "trivium_dead_letters", "Rows that a projection could not apply.", "gauge", ("projection",)
)
EXTRACTION_TURNS = Metric(
    "trivium_extraction_turns_total",
    "Turns read for facts: `read`, or why the extractor's answer was unusable.",
    "counter",
    ("outcome",),
)
EXTRACTION_FACTS = Metric(
    "trivium_extraction_facts_total",
    "Proposed facts by outcome: accepted, refused_evidence and others.",
    "counter",
    ("outcome",),
)
EXTRACTION_TOKENS = Metric(
    "trivium_extraction_tokens_total",
    "Tokens that the extractor's model was billed for, sent and received.",
    "counter",
    ("direction",),
)
ITEMS_WRITTEN = Metric(
    "trivium_items_written_total", "Written items by outcome.", "counter", ("outcome",)
)

ALL_METRICS = tuple(each for each in globals().values() if isinstance(each, Metric))


class Recorder(Protocol):
    """Records measurements; must be cheap and must not raise."""

    def record(self, metric: Metric, value: float, labels: Mapping[str, str] | None = None) -> None:
        """Adds to a counter, sets a gauge, or observes a value in a histogram."""


@dataclass(frozen=True, slots=True)
class Step:
    """A part of a call, measured when it has ended: for a span, which never has texts.

    `kind` is "client" for a call of a store or another process, else "internal".
    """

    name: str
    started_at: float
    elapsed_s: float
    attributes: Mapping[str, str | int]
    kind: Literal["client", "internal"] = "internal"
    failure: str = ""


class CallTrace(Protocol):
    """The trace of one call."""

    @property
    def trace_id(self) -> str:
        """32 hexadecimal digits, for the log."""

    def end(self, ended_at: float, code: str, steps: Sequence[Step]) -> None:
        """Ends it, with the code of the call's status and what it consisted of."""


class Tracer(Protocol):
    """Traces calls; must be cheap and must not raise."""

    def begin(self, method: str, parent: Mapping[str, str]) -> CallTrace:
        """Begins the trace of a call, or goes on with that of the caller.

        `method` is the full name of the RPC; `parent` has the caller's `traceparent` and
        `tracestate`, as W3C's Trace Context has them.
        """


class NoRecorder:
    """Discards all measurements."""

    def record(self, metric: Metric, value: float, labels: Mapping[str, str] | None = None) -> None:
        """Discards the value."""


def breaker_changes(recorder: Recorder) -> OnChange:
    """Returns what logs and records the changes of breakers."""

    def changed(name: str, state: BreakerState) -> None:
        logger.warning(
            "breaker state changed", extra={"dependency": name, "state": state.name.lower()}
        )
        recorder.record(BREAKER, state.value, {"dependency": name})

    return changed

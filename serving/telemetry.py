"""What is measured and how it is logged; the metrics' names stand here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

LATENCY_BUCKETS_MS = (0.5, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 75, 100, 200, 500, 1000, 5000)


BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: its name, what it says, the labels it carries, and a histogram's bounds."""

    name: str
    description: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: Sequence[str] = ()
    buckets: Sequence[float] = LATENCY_BUCKETS_MS


RPC_LATENCY = Metric(
    "trivium_rpc_latency_ms", "Time of a call by method and code.", "histogram", ("method", "code")
)
LEG_LATENCY = Metric(
    "trivium_leg_latency_ms", "Time of a leg by name and state.", "histogram", ("leg", "state")
)
LEG_CANDIDATES = Metric(
    "trivium_leg_candidates_total", "Candidates that a leg brought.", "counter", ("leg",)
)
ANSWERS = Metric("trivium_answers_total", "Answers by profile.", "counter", ("profile",))
ANSWERS_BY_LEG_ALONE = Metric(
    "trivium_answers_by_leg_alone_total",
    "Answers with a hit that this leg alone found; of all answers, the share in which it mattered.",
    "counter",
    ("profile", "leg"),
)
RERANKED_ANSWERS = Metric(
    "trivium_reranked_answers_total",
    "Answers of profiles that rerank, by stage: reranked, coarse, coarse_fallback.",
    "counter",
    ("profile", "stage"),
)
EMBEDDING_BATCH = Metric(
    "trivium_embedding_batch_size",
    "Windows of text in each batch that the encoder was given, by lane.",
    "histogram",
    ("lane",),
    BATCH_BUCKETS,
)
EMBEDDING_WAITING = Metric(
    "trivium_embedding_waiting", "Texts that wait for the encoder by lane.", "gauge", ("lane",)
)
INDEX_VECTORS = Metric("trivium_index_vectors", "Vectors in the index.", "gauge")
INDEX_EPOCH = Metric(
    "trivium_index_epoch", "How often the index was filled or put its rows into new lists.", "gauge"
)
INDEX_ROWS = Metric(
    "trivium_index_rows",
    "Rows of the index by kind and by where they are: read exactly, in lists, in the tail, dead.",
    "gauge",
    ("kind", "place"),
)
INDEX_RECALL = Metric(
    "trivium_index_recall",
    "The lowest recall of a tenant's lists, audited or else calibrated; 1 without lists.",
    "gauge",
    ("kind",),
)
INDEX_REBUILDS = Metric(
    "trivium_index_rebuilds", "Tenants whose rows are being put into lists.", "gauge", ("kind",)
)
INDEX_FAILED_REBUILDS = Metric(
    "trivium_index_failed_rebuilds",
    "Tenants whose rows could not be put into new lists and are searched as before.",
    "gauge",
    ("kind",),
)
INDEX_LAG = Metric(
    "trivium_index_lag_seconds",
    "Age of the oldest change in PostgreSQL that this replica of the index has not taken.",
    "gauge",
)
PROJECTION_LAG = Metric(
    "trivium_projection_lag_seconds",
    "Age of the oldest change that a projection has not taken.",
    "gauge",
    ("projection",),
)
PROJECTION_PENDING = Metric(
    "trivium_projection_pending",
    "Changes that a projection has not taken.",
    "gauge",
    ("projection",),
)
ITEMS_WRITTEN = Metric(
    "trivium_items_written_total", "Items by what became of them.", "counter", ("outcome",)
)

ALL_METRICS = (
    RPC_LATENCY,
    LEG_LATENCY,
    LEG_CANDIDATES,
    ANSWERS,
    ANSWERS_BY_LEG_ALONE,
    RERANKED_ANSWERS,
    EMBEDDING_BATCH,
    EMBEDDING_WAITING,
    INDEX_VECTORS,
    INDEX_EPOCH,
    INDEX_ROWS,
    INDEX_RECALL,
    INDEX_REBUILDS,
    INDEX_FAILED_REBUILDS,
    INDEX_LAG,
    PROJECTION_LAG,
    PROJECTION_PENDING,
    ITEMS_WRITTEN,
)


class Recorder(Protocol):
    """Takes measurements; must be cheap and never raise."""

    def record(self, metric: Metric, value: float, labels: Mapping[str, str] | None = None) -> None:
        """Adds to a counter, sets a gauge, or observes in a histogram."""
        ...


class NoRecorder:
    """Takes measurements nowhere."""

    def record(self, metric: Metric, value: float, labels: Mapping[str, str] | None = None) -> None:
        """Does nothing."""

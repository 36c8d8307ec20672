"""Records metrics through Ray, which exports them to Prometheus and its dashboard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ray.serve import metrics

from serving.telemetry import ALL_METRICS, Metric

_CLASSES: Mapping[str, Any] = {
    "counter": metrics.Counter,
    "gauge": metrics.Gauge,
    "histogram": metrics.Histogram,
}


class RayRecorder:
    """A recorder for code that runs in a replica; Ray adds deployment and replica."""

    def __init__(self) -> None:
        self._instruments = {metric.name: _instrument(metric) for metric in ALL_METRICS}

    def record(self, metric: Metric, value: float, labels: Mapping[str, str] | None = None) -> None:
        instrument = self._instruments[metric.name]
        tags = dict(labels or {})
        match metric.kind:
            case "counter":
                if value > 0:
                    instrument.inc(value, tags=tags)
            case "gauge":
                instrument.set(value, tags=tags)
            case "histogram":
                instrument.observe(value, tags=tags)


def _instrument(metric: Metric) -> Any:
    # Ray annotates one label, but accepts any number.
    labels: Any = tuple(metric.labels)
    buckets = {"boundaries": list(metric.buckets)} if metric.kind == "histogram" else {}
    return _CLASSES[metric.kind](
        metric.name, description=metric.description, tag_keys=labels, **buckets
    )

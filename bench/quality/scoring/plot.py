"""Draws the means of every configuration with their intervals, a panel for each headline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.harness.results import Record, number
from bench.quality.scoring.summary import HEADLINES, difference, metrics_of, name_of, significant
from bench.reports.plots import COLOURS, canvas, head, name_bars, prepare, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = {0: COLOURS[0], 1: COLOURS[2], -1: COLOURS[3]}
"""By significance of the difference to the baseline."""


def save_plot(records: Sequence[Record], path: Path) -> None:
    """Draws the records of a set, the baseline first."""
    metrics = [metric for metric in HEADLINES if metric in metrics_of(records)]
    figure = canvas(4.4 * len(metrics), 0.3 * len(records) + 1.2)
    for place, metric in enumerate(metrics, start=1):
        axes = figure.add_subplot(1, len(metrics), place)
        prepare(axes)
        _draw(axes, records, metric)
        name_bars(axes, [name_of(record) if place == 1 else "" for record in records])
    save(figure, path)


def _draw(axes: Axes, records: Sequence[Record], metric: str) -> None:
    for place, record in enumerate(records):
        mean, low, high = (
            number(record, "measured", metric, part) for part in ("mean", "low", "high")
        )
        colour = _COLOURS[significant(difference(record, metric))]
        if low is not None and high is not None:
            axes.plot([low, high], [place, place], color=colour, linewidth=2)
        if mean is not None:
            axes.plot([mean], [place], "o", color=colour, markersize=5)
    axes.set_xlim(0, 1)
    head(axes, metric, "")

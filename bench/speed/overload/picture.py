"""Draws a run: what was answered in time at each share of the capacity, and how late."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bench.harness.results import Record, number, select, table
from bench.reports.plots import COLOURS, INK, head, prepare
from bench.speed.overload.figures import OVERLOAD

PANELS = (
    ("Answered in time", "a second", ("measured", "goodput_per_s")),
    ("Answered in time by every leg", "a second", ("measured", "whole_per_s")),
    ("p95 of the answers", "ms, from when each was due", ("latency", "p95_ms")),
    ("p95 of the refusals", "ms, from when each was due", ("measured", "refused_p95_ms")),
)
"""Title, unit and place of the figure that each panel shows, over the share of the capacity."""


def save_picture(records: Sequence[Record], path: Path) -> None:
    """Draws the loads, a line for each budget; writes nothing if there are none."""
    loads = select(records, OVERLOAD)
    if not loads:
        return
    budgets = sorted({number(load, "parameters", "budget_ms") or 0.0 for load in loads})
    figure = Figure(figsize=(13.6, 8.8), layout="constrained")
    FigureCanvasAgg(figure)
    for place, (title, unit, value) in enumerate(PANELS, start=1):
        axes = figure.add_subplot(2, 2, place)
        prepare(axes)
        for budget, colour in zip(budgets, COLOURS, strict=False):
            _draw(axes, [each for each in loads if _budget(each) == budget], value, budget, colour)
        axes.set_ylim(bottom=0)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, fontsize=8, labelcolor=INK)
        head(axes, f"{title}, {unit}", "offered load, as a multiple of the capacity")
    figure.savefig(path, dpi=130, facecolor="white")


def _draw(
    axes: Axes, loads: Sequence[Record], value: tuple[str, ...], budget: float, colour: str
) -> None:
    points = [
        (float(share), height)
        for load in loads
        if isinstance(share := table(load, "parameters").get("share"), int | float)
        and (height := number(load, *value)) is not None
    ]
    if points:
        label = f"budget of {budget:.0f} ms"
        axes.plot(*zip(*points, strict=True), "o-", color=colour, label=label, linewidth=2)


def _budget(load: Record) -> float | None:
    return number(load, "parameters", "budget_ms")

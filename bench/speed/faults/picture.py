"""Draws a run: for each fault, how calls ended over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bench.harness.results import Record, number, select, table
from bench.reports.plots import INK, MUTED, head, prepare
from bench.speed.faults.figures import BIN_S, FAULT, Outcome, fault_name

COLOURS = {
    Outcome.WHOLE: "#5b9279",
    Outcome.PARTIAL: "#d9a441",
    Outcome.REFUSED: "#2f6690",
    Outcome.LATE: "#b5536c",
}
COLUMNS = 2


def save_picture(records: Sequence[Record], path: Path) -> None:
    """Draws a panel for each fault; writes nothing if there are none."""
    faults = select(records, FAULT)
    if not faults:
        return
    rows = -(-len(faults) // COLUMNS)
    figure = Figure(figsize=(6.8 * COLUMNS, 2.5 * rows + 0.6), layout="constrained")
    FigureCanvasAgg(figure)
    for place, fault in enumerate(faults, start=1):
        axes = figure.add_subplot(rows, COLUMNS, place)
        prepare(axes)
        _draw(axes, fault)
        head(axes, fault_name(fault), "s; between the lines the fault lasted")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, frameon=False, ncols=len(labels), loc="outside upper right", labelcolor=INK
    )
    figure.savefig(path, dpi=110, facecolor="white")


def _draw(axes: Axes, fault: Record) -> None:
    steps = table(fault, "measured", "timeline")
    base: list[float] = []
    for outcome, colour in COLOURS.items():
        heights = [count / BIN_S for count in cast(Sequence[int], steps[outcome.value])]
        base = base or [0.0] * len(heights)
        starts = [step * BIN_S for step in range(len(heights))]
        axes.bar(
            starts, heights, BIN_S, bottom=base, align="edge", color=colour, label=outcome.value
        )
        base = [low + height for low, height in zip(base, heights, strict=True)]
    began_s = number(fault, "measured", "began_s") or 0.0
    for at_s in (began_s, began_s + (number(fault, "measured", "lasted_s") or 0.0)):
        axes.axvline(at_s, color=INK, linewidth=1, linestyle=":")
    axes.set_ylabel("calls a second", color=MUTED)

"""Draws simulated calls: how long the turns waited, by percentile."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bench.harness.results import Record, select, table
from bench.reports.plots import COLOURS, INK, head, prepare
from bench.speed.recall.figures import RECALL

PANELS = ((True, "With prefetch"), (False, "Without"))


def save_picture(records: Sequence[Record], path: Path) -> None:
    """Draws a panel with prefetch and one without; a line for each number of calls."""
    figure = Figure(figsize=(13.6, 4.9), layout="constrained")
    FigureCanvasAgg(figure)
    shared = None
    for place, (prefetch, title) in enumerate(PANELS, start=1):
        axes = shared = figure.add_subplot(1, 2, place, sharey=shared)
        prepare(axes)
        found = [
            each
            for each in select(records, RECALL)
            if table(each, "parameters").get("prefetch") is prefetch
        ]
        for record, colour in zip(found, COLOURS, strict=False):
            curve = table(record, "measured").get("curve_ms")
            if isinstance(curve, list):
                label = f"{table(record, 'parameters').get('calls')} calls at once"
                axes.plot(range(1, 101), curve, color=colour, label=label, linewidth=2)
        axes.set_ylim(bottom=0)
        if found:
            axes.legend(frameon=False, fontsize=8, labelcolor=INK)
        head(axes, f"{title}, ms from the final transcript to the block", "percentile of the turns")
    figure.savefig(path, dpi=130, facecolor="white")

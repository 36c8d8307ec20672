"""Draws means, paired differences and times as SVG that takes its colours from the page."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from bench.harness.results import Record, number, table
from bench.quality.scoring.metrics import METRICS
from bench.reports.plots import COLOURS, GRID, INK, MUTED, head, name_bars, prepare

BETTER, WORSE, SAME = COLOURS[2], COLOURS[3], MUTED
SERVER, CLIENT = COLOURS[0], COLOURS[1]

_FROM_PAGE = {INK: "var(--ink)", MUTED: "var(--muted)", GRID: "var(--grid)"}
_PANEL_IN = (3.55, 0.26)
"""Inches: the width of a panel, and the height of one way in it."""

_COLUMNS = 3

_Draw = Callable[[Axes, Sequence[Record], str], None]


def means_svg(ways: Sequence[Record]) -> str:
    """A panel for each metric: the mean of each way with its interval."""
    return _panels("means", ways, METRICS, _draw_mean)


def differences_svg(ways: Sequence[Record]) -> str:
    """A forest plot for each metric: the difference of each way to the baseline.

    Args:
        ways: Those that were compared, without the baseline; at least one.
    """
    return _panels("differences", ways, METRICS, _draw_difference)


def times_svg(ways: Sequence[Record]) -> str:
    """p50 to p95 of each way, in the server and as the client sees it."""
    return _panels("times", ways, ("time of an answer",), _draw_time)


def _panels(name: str, ways: Sequence[Record], titles: Sequence[str], draw: _Draw) -> str:
    columns = min(_COLUMNS, len(titles))
    rows = -(-len(titles) // columns)
    names = [str(table(way, "parameters").get("way")) for way in ways]
    margin = 0.075 * max(map(len, names))
    size = (
        columns * _PANEL_IN[0] + margin + (0 if columns > 1 else _PANEL_IN[0]),
        rows * (_PANEL_IN[1] * len(ways) + 0.9),
    )
    # Text stays text: it can be read, searched and scaled.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name, "font.size": 9}):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasSVG(figure)
        for place, title in enumerate(titles):
            axes = figure.add_subplot(rows, columns, place + 1)
            prepare(axes)
            draw(axes, ways, title)
            name_bars(axes, names if place % columns == 0 else [""] * len(names))
            axes.set_ylim(len(ways) - 0.5, -0.5)
        return _inline(figure)


def _inline(figure: Figure) -> str:
    written = io.StringIO()
    figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    svg = written.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # The names of parts are the same in every figure, and a page must not have one twice.
    svg = re.sub(r'<g id="[^"]+"', "<g", svg)
    # It scales with the page.
    svg = re.sub(r'(<svg[^>]*?) width="[\d.]+pt"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[\d.]+pt"', r"\1", svg, count=1)
    for colour, variable in _FROM_PAGE.items():
        svg = svg.replace(colour, variable)
    return svg


def _draw_mean(axes: Axes, ways: Sequence[Record], metric: str) -> None:
    for place, way in enumerate(ways):
        _interval(axes, place, table(way, "measured", metric), COLOURS[0])
    head(axes, metric, "")
    axes.set_xlim(0, 1)


def _draw_difference(axes: Axes, ways: Sequence[Record], metric: str) -> None:
    axes.axvline(0, color=INK, linewidth=1)
    widest = 0.01
    for place, way in enumerate(ways):
        found = table(way, "measured", "difference", metric)
        low, high = number(found, "low"), number(found, "high")
        worse, better = high is not None and high < 0, low is not None and low > 0
        _interval(axes, place, found, WORSE if worse else BETTER if better else SAME)
        ends = [abs(end) for part in ("mean", "low", "high") if (end := number(found, part))]
        widest = max(widest, *ends, 0.0)
    axes.set_xlim(-1.1 * widest, 1.1 * widest)
    head(axes, metric, "")


def _interval(axes: Axes, place: int, found: Record, colour: str) -> None:
    mean, low, high = (number(found, part) for part in ("mean", "low", "high"))
    if mean is None:
        return
    if low is not None and high is not None:
        axes.plot([low, high], [place, place], color=colour, linewidth=2, solid_capstyle="butt")
    axes.plot([mean], [place], "o", color=colour, markersize=5)


def _draw_time(axes: Axes, ways: Sequence[Record], title: str) -> None:
    parts = (
        (-0.15, ("measured", "server"), SERVER, "server"),
        (0.15, ("latency",), CLIENT, "client"),
    )
    for offset, path, colour, name in parts:
        for place, way in enumerate(ways):
            p50, p95 = (number(way, *path, f"{each}_ms") for each in ("p50", "p95"))
            if p50 is None or p95 is None:
                continue
            label = name if place == 0 else None
            axes.plot([p50, p95], [place + offset] * 2, color=colour, linewidth=2, label=label)
            axes.plot([p50], [place + offset], "o", color=colour, markersize=5)
    axes.set_xlim(left=0)
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        axes.legend(
            handles,
            labels,
            frameon=False,
            labelcolor=INK,
            fontsize=8,
            loc="lower right",
            bbox_to_anchor=(1, 1),
            ncols=2,
        )
    head(axes, title, "ms, p50 to p95")

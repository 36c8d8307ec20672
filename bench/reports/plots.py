"""Draws a run as one picture: latency and CPU time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from bench.harness.results import Record, number, select, table
from bench.reports.report import load_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

INK = "#22303c"
MUTED = "#7d8b97"
GRID = "#e6eaee"
COLOURS = ("#2f6690", "#e07a3f", "#5b9279", "#b5536c", "#d9a441", "#6d5a94", "#3a9fbf", "#9a8c7c")


def save_picture(records: Sequence[Record], path: Path) -> None:
    """Draws the latency and the CPU time of the loads; writes nothing if there are none."""
    loads = select(records, "load")
    if not loads:
        return
    collection, machine = table(loads[0], "collection"), table(loads[0], "machine")
    title = (
        f"{collection.get('name')}: {collection.get('segments')} segments, "
        f"{collection.get('facts')} facts on {machine.get('cores')} cores, "
        f"at {loads[0].get('commit')}"
    )
    figure = canvas(13.6, 4.9)
    for place, draw in enumerate((_draw_latency, _draw_cpu), start=1):
        axes = figure.add_subplot(1, 2, place)
        prepare(axes)
        draw(axes, loads)
    figure.suptitle(title, x=0.01, ha="left", color=INK, size=13, weight="bold")
    save(figure, path)


def canvas(width: float, height: float) -> Figure:
    """An empty picture, in inches."""
    # Imported here, because it takes seconds.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Writes a picture."""
    figure.savefig(path, dpi=130, facecolor="white")


def prepare(axes: Axes) -> None:
    """Sets the style of the axes."""
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(MUTED)
    axes.grid(axis="x", color=GRID)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, length=0)


def head(axes: Axes, title: str, unit: str) -> None:
    """Names a panel, and what its numbers are."""
    axes.set_title(title, loc="left", color=INK, size=11, weight="bold", pad=10)
    axes.set_xlabel(unit, color=MUTED)


def name_bars(axes: Axes, names: Sequence[str]) -> None:
    """Names what stands at 0, 1, 2 ... from the top."""
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()


def name_powers(axis: Axis) -> None:
    """Names 1, 2, 5, 10, ... 1 k, ... on a logarithmic axis."""
    from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(EngFormatter(sep=""))
    axis.set_minor_formatter(NullFormatter())


def _draw_latency(axes: Axes, loads: Sequence[Record]) -> None:
    for load, colour in zip(loads, COLOURS, strict=False):
        curve = cast(Sequence[float], table(load, "measured").get("curve_ms") or ())
        style = "--" if table(load, "parameters").get("loop") == "open" else "-"
        per_s = number(load, "throughput_per_s") or 0
        name = f"{load_name(load)}: {per_s:.0f}/s"
        axes.plot(curve, range(1, len(curve) + 1), style, color=colour, label=name, linewidth=2)
    axes.set_xscale("log")
    name_powers(axes.xaxis)
    axes.set_ylim(0, 100)
    axes.set_yticks((50, 95), ("p50", "p95"))
    axes.grid(axis="y", color=GRID)
    axes.legend(frameon=False, loc="lower right", fontsize=8, labelcolor=INK)
    head(axes, "Questions answered within", "ms, from the question or from when it was due")


def _draw_cpu(axes: Axes, loads: Sequence[Record]) -> None:
    roles = sorted({role for load in loads for role in table(load, *_CPU, "by_role_ms")})
    lefts = [0.0] * len(loads)
    for role, colour in zip(roles, COLOURS, strict=False):
        widths = [number(load, *_CPU, "by_role_ms", role) or 0.0 for load in loads]
        axes.barh(range(len(loads)), widths, left=lefts, color=colour, label=role, height=0.62)
        lefts = [left + width for left, width in zip(lefts, widths, strict=True)]
    for place, total in enumerate(lefts):
        axes.text(total, place, f"  {total:.1f}", va="center", color=INK, size=8)
    axes.set_xlim(0, 1.28 * max(lefts))
    name_bars(axes, [load_name(load) for load in loads])
    axes.legend(
        frameon=False,
        fontsize=8,
        labelcolor=INK,
        handlelength=1,
        ncols=len(roles),
        loc="upper center",
        bbox_to_anchor=(0.5, -0.13),
    )
    head(axes, "CPU of all processes", "ms a question")


_CPU = ("measured", "cpu")

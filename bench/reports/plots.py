"""What the pictures of all benchmarks are made of, and that of the loads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

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


@contextmanager
def picture(path: Path, width: float, height: float) -> Iterator[Figure]:
    """Yields an empty picture, in inches, and writes it at the end."""
    # Imported here, because it takes seconds.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    yield figure
    figure.savefig(path, dpi=130, facecolor="white")


def panel(
    figure: Figure, place: int, title: str, unit: str, rows: int = 1, columns: int = 1, **more: Any
) -> Axes:
    """A panel of a picture, by its place from 1, with its title and what its numbers are."""
    axes: Axes = figure.add_subplot(rows, columns, place, **more)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(MUTED)
    axes.grid(axis="x", color=GRID)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, length=0)
    axes.set_title(title, loc="left", color=INK, size=11, weight="bold", pad=10)
    axes.set_xlabel(unit, color=MUTED)
    return axes


def legend(axes: Axes, **more: Any) -> None:
    """Explains what has a label; nothing if nothing has."""
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8, labelcolor=INK, **more)


def name_bars(axes: Axes, names: Sequence[str]) -> None:
    """Names what stands at 0, 1, 2 ... from the top."""
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()


def stacked_bars(axes: Axes, names: Sequence[str], parts: Mapping[str, Sequence[float]]) -> None:
    """Draws a bar for each name, divided into parts, with their sum at its end."""
    lefts = [0.0] * len(names)
    for (part, widths), colour in zip(parts.items(), COLOURS, strict=False):
        axes.barh(range(len(names)), widths, left=lefts, color=colour, label=part, height=0.62)
        lefts = [left + width for left, width in zip(lefts, widths, strict=True)]
    for place, total in enumerate(lefts):
        axes.text(total, place, f"  {total:.1f}", va="center", color=INK, size=8)
    axes.set_xlim(0, 1.28 * max(lefts))
    name_bars(axes, names)


def name_powers(axis: Axis) -> None:
    """Names 1, 2, 5, 10, ... 1 k, ... on a logarithmic axis."""
    from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(EngFormatter(sep=""))
    axis.set_minor_formatter(NullFormatter())


# ---------------------------------------------------------------- loads


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
    with picture(path, 13.6, 4.9) as figure:
        due = "ms, from the question or from when it was due"
        _draw_latency(panel(figure, 1, "Questions answered within", due, columns=2), loads)
        axes = panel(figure, 2, "CPU of all processes", "ms a question", columns=2)
        by_role = [table(load, "measured", "cpu", "by_role_ms") for load in loads]
        roles = sorted({role for each in by_role for role in each})
        parts = {role: [number(each, role) or 0.0 for each in by_role] for role in roles}
        stacked_bars(axes, [load_name(load) for load in loads], parts)
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.13)}
        legend(axes, handlelength=1, ncols=len(roles), **below)
        figure.suptitle(title, x=0.01, ha="left", color=INK, size=13, weight="bold")


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
    legend(axes, loc="lower right")

"""The table and the plot of all systems."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from bench.harness.results import Record, find, number, select, table
from bench.peers.turns import CALLERS, LOAD, RECALL
from bench.reports import plots
from bench.reports.report import estimate, figures, markdown_table


def summary(records: Sequence[Record]) -> str:
    """A row for each system: medians over the turns."""
    columns = (
        "",
        *(f"p50 / p95 ms, {_callers(callers)}" for callers in CALLERS),
        f"answers/s, {_callers(CALLERS[-1])}",
        *(f"CPU ms, {_callers(callers)}" for callers in CALLERS),
        "recall@10 [95 %]",
        "lacks",
    )
    return markdown_table(columns, [_row(records, name) for name in _systems(records)])


def save_picture(records: Sequence[Record], path: Path) -> None:
    """Draws recall, CPU time and the latency of one caller."""
    names = _systems(records)
    panels = (
        ("recall@10", "share of what answers", [_recall(records, name) for name in names]),
        (
            "CPU time of an answer",
            f"ms, {_callers(CALLERS[-1])}, all processes",
            [_median(records, name, CALLERS[-1], "measured", "cpu_ms") for name in names],
        ),
        (
            "Latency",
            f"p50 in ms, {_callers(1)}",
            [_median(records, name, 1, "latency", "p50_ms") for name in names],
        ),
    )
    figure = plots.canvas(15, 0.6 * len(names) + 1.4)
    for place, (title, unit, values) in enumerate(panels, start=1):
        axes = figure.add_subplot(1, len(panels), place)
        plots.prepare(axes)
        bars = axes.barh(range(len(names)), values, height=0.62, color=plots.COLOURS[: len(names)])
        axes.bar_label(bars, [figures(value) for value in values], padding=4)
        axes.margins(x=0.15)
        plots.name_bars(axes, names)
        plots.head(axes, title, unit)
    plots.save(figure, path)


def _row(records: Sequence[Record], name: str) -> tuple[str, ...]:
    first = next(each for each in _loads(records, name))
    return (
        name,
        *(
            f"{figures(_median(records, name, callers, 'latency', 'p50_ms'))} / "
            f"{figures(_median(records, name, callers, 'latency', 'p95_ms'))}"
            for callers in CALLERS
        ),
        figures(_median(records, name, CALLERS[-1], "throughput_per_s")),
        *(figures(_median(records, name, callers, "measured", "cpu_ms")) for callers in CALLERS),
        _estimated(records, name),
        str(table(first, "measured")["lacks"]),
    )


def _estimated(records: Sequence[Record], name: str) -> str:
    found = find(records, RECALL, system=name)
    return "-" if found is None else estimate(table(found, "measured", "recall@10"))


def _recall(records: Sequence[Record], name: str) -> float:
    return number(find(records, RECALL, system=name), "measured", "recall@10", "mean") or 0.0


def _systems(records: Sequence[Record]) -> list[str]:
    """The systems that every number of callers has loaded; a run may end before that."""
    names = dict.fromkeys(
        str(table(each, "parameters")["system"]) for each in select(records, LOAD)
    )
    return [name for name in names if all(_loads(records, name, count) for count in CALLERS)]


def _loads(records: Sequence[Record], name: str, callers: int | None = None) -> list[Record]:
    return [
        each
        for each in select(records, LOAD)
        if table(each, "parameters")["system"] == name
        and callers in (None, table(each, "parameters")["callers"])
    ]


def _median(records: Sequence[Record], name: str, callers: int, *path: str) -> float:
    return median(number(each, *path) or 0.0 for each in _loads(records, name, callers))


def _callers(count: int) -> str:
    return f"{count} caller" if count == 1 else f"{count} callers"

"""The tables and the plot of all systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from bench.harness.results import Json, Record, find, number, select, table
from bench.peers.turns import CALLERS, DEEP, LOAD, RECALL
from bench.reports import plots
from bench.reports.report import estimate, figures, markdown_table

TEXTS, TEXTS_AND_FACTS = GIVEN = ("texts alone", "texts and facts")
"""The input of all systems; the first is the headline."""


def summary(records: Sequence[Record]) -> str:
    """The tables of each of `GIVEN` that was measured."""
    tables = ((given, given_table(records, given)) for given in GIVEN)
    return "\n\n".join(f"## {given}\n\n{text}" for given, text in tables if text)


def given_table(records: Sequence[Record], given: str) -> str:
    """The quality of each system, then its speed: medians over the turns; empty for nothing."""
    of_given = given_alone(records, given)
    names = systems(of_given)
    if not names:
        return ""
    deep = [f"{metric}@{DEEP}" for metric in ("recall", "hit", "mrr")]
    best = [judged(of_given, name) for name in names]
    found = markdown_table(
        ("", "rank constant", "recall@10 [95 %]", *deep),
        [
            (
                name,
                str(table(each, "parameters").get("rank_constant") or "its own"),
                estimate(table(each, "measured", "recall@10")),
                *(f"{number(each, 'measured', metric, 'mean') or 0:.3f}" for metric in deep),
            )
            for name, each in zip(names, best, strict=True)
        ],
    )
    columns = (
        "",
        *(f"p50 / p95 ms, {_callers(callers)}" for callers in CALLERS),
        f"answers/s, {_callers(CALLERS[-1])}",
        *(f"CPU ms, {_callers(callers)}" for callers in CALLERS),
        "lacks",
    )
    return f"{found}\n\n{markdown_table(columns, [_row(of_given, name) for name in names])}"


def save_picture(records: Sequence[Record], path: Path) -> None:
    """Draws recall, CPU time and the latency of one caller, with texts alone."""
    records = given_alone(records, TEXTS)
    names = systems(records)
    panels = (
        ("recall@10", f"share of what answers, {TEXTS}", [recall(records, name) for name in names]),
        (
            "CPU time of an answer",
            f"ms, {_callers(CALLERS[-1])}, all processes",
            [_median(records, name, CALLERS[-1], "measured", "cpu_ms") for name in names],
        ),
        (
            "Latency",
            f"p50 in ms, {_callers(1)}",
            [p50_ms(records, name) for name in names],
        ),
    )
    with plots.picture(path, 15, 0.6 * len(names) + 1.4) as figure:
        for place, (title, unit, values) in enumerate(panels, start=1):
            axes = plots.panel(figure, place, title, unit, columns=len(panels))
            colours = plots.COLOURS[: len(names)]
            bars = axes.barh(range(len(names)), values, height=0.62, color=colours)
            axes.bar_label(bars, [figures(value) for value in values], padding=4)
            axes.margins(x=0.15)
            plots.name_bars(axes, names)


def short_table(records: Sequence[Record]) -> str:
    """A short row for each system, with texts alone, the best first."""
    of_given = given_alone(records, TEXTS)
    rows = [
        (name, f"{recall(of_given, name):.3f}", figures(p50_ms(of_given, name)))
        for name in sorted(systems(of_given), key=lambda name: -recall(of_given, name))
    ]
    return markdown_table(("system", "recall@10", "p50 ms"), rows)


def claims(records: Sequence[Record]) -> Mapping[str, str]:
    """The figures of README's claims, with texts alone; the service is the first of the systems."""
    of_given = given_alone(records, TEXTS)
    ours, *others = systems(of_given)
    tenants = table(of_given[0], "collection")["tenants"]
    return {
        "recall": f"{recall(of_given, ours):.2f}",
        "next": f"{max(recall(of_given, each) for each in others):.2f}",
        "others": str(len(others)),
        "p50": f"{p50_ms(of_given, ours):.0f}",
        "questions": f"{judged(of_given, ours)['n']} questions about {tenants} conversations",
    }


def given_alone(records: Sequence[Record], given: str) -> list[Record]:
    """The records of one of `GIVEN`."""
    return [each for each in records if table(each, "parameters").get("given") == given]


def systems(records: Sequence[Record]) -> list[str]:
    """The systems that every number of callers has loaded; a run may end before that."""
    names = dict.fromkeys(
        str(table(each, "parameters")["system"]) for each in select(records, LOAD)
    )
    return [
        name for name in names if all(_loads(records, name, callers=count) for count in CALLERS)
    ]


def judged(records: Sequence[Record], name: str) -> Record:
    """The scores of a system with the rank constant with which it was loaded, the better one."""
    its = table(_loads(records, name)[0], "parameters")
    found = find(records, RECALL, system=name, rank_constant=its.get("rank_constant"))
    assert found is not None, "each system is judged before it is loaded; this is a bug"
    return found


def recall(records: Sequence[Record], name: str) -> float:
    """The recall@10 of a system."""
    return number(judged(records, name), "measured", "recall@10", "mean") or 0.0


def p50_ms(records: Sequence[Record], name: str) -> float:
    """The median latency of one caller of a system."""
    return _median(records, name, 1, "latency", "p50_ms")


def _row(records: Sequence[Record], name: str) -> tuple[str, ...]:
    return (
        name,
        *(
            f"{figures(_median(records, name, callers, 'latency', 'p50_ms'))} / "
            f"{figures(_median(records, name, callers, 'latency', 'p95_ms'))}"
            for callers in CALLERS
        ),
        figures(_median(records, name, CALLERS[-1], "throughput_per_s")),
        *(figures(_median(records, name, callers, "measured", "cpu_ms")) for callers in CALLERS),
        str(table(_loads(records, name)[0], "measured")["lacks"]),
    )


def _loads(records: Sequence[Record], name: str, **parameters: Json) -> list[Record]:
    return select(records, LOAD, system=name, **parameters)


def _median(records: Sequence[Record], name: str, callers: int, *path: str) -> float:
    return median(number(each, *path) or 0.0 for each in _loads(records, name, callers=callers))


def _callers(count: int) -> str:
    return f"{count} caller" if count == 1 else f"{count} callers"

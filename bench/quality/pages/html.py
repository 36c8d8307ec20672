"""Writes a set's results as an HTML page, with the texts of its best and worst answers.

The page contains texts of the set, so it must not enter the repository.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from bench.harness.collection import Collection, Query
from bench.harness.results import Record, number, table
from bench.quality.pages.plots import differences_svg, means_svg, times_svg
from bench.quality.pages.summary import (
    GROUPS,
    difference,
    groups_of,
    name_of,
    significant,
    times,
    warnings,
)
from bench.quality.scoring.answers import briefed_segments
from bench.quality.scoring.evaluate import Answers
from bench.quality.scoring.metrics import METRICS
from bench.quality.session import Explained, Measured
from bench.reports.report import counts, estimate, figures, head
from trivium.cli.ledger import ledger_lines
from trivium.values import Fact, Hit, Item, Retrieval

TEMPLATE = "report.html.j2"
LONGEST_TEXT = 500
"""Characters of a text that are shown."""

FIRST_GROUPED = "recall@10"
"""The metric whose tables by group stand open."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure of a table: `tone` is "better", "worse" or empty."""

    mean: str
    interval: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a table: the name of a way, and its figures."""

    name: str
    cells: Sequence[Cell]


@dataclass(frozen=True, slots=True)
class Table:
    """A table: the first column has names of ways."""

    columns: Sequence[str]
    lines: Sequence[Line]
    title: str = ""
    open: bool = False


@dataclass(frozen=True, slots=True)
class GoldRow:
    """A segment that answers a question: `rank` is where it was found, or a dash."""

    id: str
    rank: str
    briefed: bool
    text: str


@dataclass(frozen=True, slots=True)
class HitRow:
    """A hit of an answer, with its ledger line by line."""

    rank: int
    id: str
    gold: bool
    briefed: bool
    legs: str
    score: str
    text: str
    ledger: Sequence[str]


@dataclass(frozen=True, slots=True)
class Shown:
    """One of the best or worst answers."""

    query: Query
    scores: Mapping[str, str]
    fault: str
    gold: Sequence[GoldRow]
    hits: Sequence[HitRow]


@dataclass(frozen=True, slots=True)
class ShownWay:
    """The best and the worst answers of a way."""

    name: str
    best: Sequence[Shown]
    worst: Sequence[Shown]


def page(measured: Measured, ways: Sequence[Record]) -> str:
    """The page of a set.

    Args:
        measured: The set and its answers.
        ways: The records of its ways, the baseline first.
    """
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    others = ways[1:]
    return environment.get_template(TEMPLATE).render(
        name=measured.collection.name,
        commit=ways[0].get("commit"),
        about=head(ways[0]).splitlines()[-1],
        warnings=warnings(ways),
        baseline=name_of(ways[0]),
        means=_means(ways),
        differences=_differences(measured, others) if others else None,
        groups=list(_groups(ways)),
        # Drawn by us from numbers and names, which the drawing escapes.
        means_plot=Markup(means_svg(ways)),
        differences_plot=Markup(differences_svg(others)) if others else None,
        times_plot=Markup(times_svg(ways)),
        commands=[(name_of(way), table(way, "parameters").get("command")) for way in ways],
        shown=[_shown_way(measured, answers) for answers in measured.answers],
    )


# ---------------------------------------------------------------- tables


def _means(ways: Sequence[Record]) -> Table:
    columns = (*METRICS, "server ms", "client ms", "faults")
    best = {
        metric: max(number(way, "measured", metric, "mean") or 0.0 for way in ways)
        for metric in METRICS
    }
    lines = []
    for way in ways:
        cells = [
            _cell(
                found := table(way, "measured", metric),
                tone="best" if number(found, "mean") == best[metric] else "",
            )
            for metric in METRICS
        ]
        cells += [Cell(each) for each in times(way)]
        faults = counts({**table(way, "errors"), **table(way, "measured", "leg_faults")})
        lines.append(Line(name_of(way), [*cells, Cell(faults, tone="worse" if faults else "")]))
    return Table(columns, lines)


def _differences(measured: Measured, ways: Sequence[Record]) -> Table:
    by_name = {answers.way.name: answers for answers in measured.answers}
    lines = []
    for way in ways:
        cells = [_difference(difference(way, metric)) for metric in METRICS]
        cells.append(Cell(_wins(by_name[name_of(way)], measured.baseline)))
        lines.append(Line(name_of(way), cells))
    return Table((*METRICS, "won / same / lost"), lines)


def _wins(answers: Answers, baseline: Answers) -> str:
    """In how many questions nDCG@10 is above, at and below that of the baseline."""
    pairs = list(zip(answers.values("ndcg@10"), baseline.values("ndcg@10"), strict=True))
    won = sum(now > before for now, before in pairs)
    lost = sum(now < before for now, before in pairs)
    return f"{won} / {len(pairs) - won - lost} / {lost}"


def _groups(ways: Sequence[Record]) -> Iterator[tuple[str, Sequence[Table]]]:
    """The tables of each grouping that the set has, by its title."""
    for grouping, title in GROUPS.items():
        names = groups_of(ways, grouping)
        if not names:
            continue
        columns = [
            f"{name or 'none'} ({figures(number(ways[0], 'measured', grouping, name, 'n'))})"
            for name in names
        ]
        yield (
            title,
            [
                Table(
                    columns,
                    [
                        Line(
                            name_of(way), [_of_group(way, grouping, name, metric) for name in names]
                        )
                        for way in ways
                    ],
                    title=metric,
                    open=metric == FIRST_GROUPED,
                )
                for metric in METRICS
            ],
        )


def _of_group(way: Record, grouping: str, name: str, metric: str) -> Cell:
    of_group = table(way, "measured", grouping, name)
    return _cell(table(of_group, metric), _tone(table(of_group, "difference", metric)))


def _difference(found: Record) -> Cell:
    return _cell(found, _tone(found), sign="+")


def _tone(found: Record) -> str:
    return {-1: "worse", 0: "", 1: "better"}[significant(found)]


def _cell(found: Record, tone: str = "", sign: str = "") -> Cell:
    mean, _, interval = estimate(found, sign).partition(" ")
    return Cell(mean, interval, tone)


# ---------------------------------------------------------------- questions


def _shown_way(measured: Measured, answers: Answers) -> ShownWay:
    explained = measured.explained.get(answers.way.name, ())
    best, worst = (
        [_shown(measured.collection, each) for each in explained if each.place == place]
        for place in ("best", "worst")
    )
    return ShownWay(answers.way.name, best, worst)


def _shown(collection: Collection, explained: Explained) -> Shown:
    query, retrieval = explained.scored.query, explained.retrieval
    return Shown(
        query=query,
        scores={name: f"{value:.2f}" for name, value in explained.scored.scores.items()},
        fault=explained.scored.fault,
        gold=list(_gold(collection, explained)),
        hits=[] if retrieval is None else list(_hits(query, retrieval)),
    )


def _gold(collection: Collection, explained: Explained) -> Iterator[GoldRow]:
    query, ranked = explained.scored.query, list(explained.scored.ranked)
    memory = collection.memories.get(query.tenant)
    texts = {segment.id: _said(segment) for segment in memory.segments} if memory else {}
    briefed = briefed_segments(explained.retrieval) if explained.retrieval else frozenset()
    for id_ in sorted(query.relevant):
        rank = str(ranked.index(id_) + 1) if id_ in ranked else "–"
        yield GoldRow(id_, rank, id_ in briefed, _short(texts.get(id_, "not in the corpus")))


def _hits(query: Query, retrieval: Retrieval) -> Iterator[HitRow]:
    briefed = briefed_segments(retrieval)
    for hit in retrieval.hits:
        stands_for = _stands_for(hit)
        yield HitRow(
            rank=hit.rank,
            id=hit.id,
            gold=not query.relevant.isdisjoint(stands_for),
            briefed=not briefed.isdisjoint(stands_for),
            legs=", ".join(hit.legs),
            score=f"{hit.score:.4f}",
            text=_short(_said(hit.item)),
            ledger=[*ledger_lines(hit.ledger)] if hit.ledger else [],
        )


def _stands_for(hit: Hit) -> Sequence[str]:
    return hit.item.evidence if isinstance(hit.item, Fact) else (hit.id,)


def _said(item: Item) -> str:
    """A text after its title and its speaker, as it is embedded; a fact as its sentence."""
    if isinstance(item, Fact):
        return item.statement
    before = f"{item.title}. " if item.title else ""
    return before + (f"{item.speaker}: {item.text}" if item.speaker else item.text)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1].rstrip() + "…"

"""Stores the scores of each question, compares a later run with them, and says what fell.

The rule: for each set, configuration and metric that is stored, the paired difference new - stored
over the same questions. It fell if the whole 95 % interval of that difference is below 0.

Ranking is deterministic, so unchanged code differs by nothing. Of fifty questions, four that lose
while none gains are a loss; three could be chance.

A stored line holds only ids and figures, so it may be published where the set may not.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from bench.quality.scoring.evaluate import Answers
from bench.quality.scoring.intervals import MIN_QUESTIONS, Estimate, paired_difference
from bench.reports.report import estimate, markdown_table

FILE_NAME = "queries.jsonl"
_DECIMALS = 6


class StoredError(ValueError):
    """A file of stored scores cannot be read, or does not fit; the message says where and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The scores of one question under one configuration, as a line has them.

    `way` is the name of the configuration, `scope` the conversation.
    """

    set: str
    way: str
    query: str
    scope: str
    scores: Mapping[str, float]
    ranked: Sequence[str]
    fault: str = ""


def rows_of(collection: str, answers: Answers) -> Iterator[Row]:
    """The rows of one configuration, their scores rounded as they are stored."""
    for each in answers.scored:
        yield Row(
            set=collection,
            way=answers.config.name,
            query=each.query.id,
            scope=each.query.tenant,
            scores={name: round(value, _DECIMALS) for name, value in each.scores.items()},
            ranked=tuple(each.ranked),
            fault=each.fault,
        )


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Writes rows as JSON lines, in an order independent of the measurement."""
    ordered = sorted(rows, key=lambda row: (row.set, row.way, row.query))
    lines = [json.dumps(asdict(row), ensure_ascii=False) for row in ordered]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def read_rows(path: Path) -> list[Row]:
    """Reads what `write_rows` wrote.

    Raises:
        OSError: The file cannot be read.
        StoredError: A line is no row; names it.
    """
    rows = []
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            try:
                rows.append(_ROW.validate_json(line))
            except ValidationError as error:
                why = error.errors()[0]["msg"]
                raise StoredError(f"{path}:{number}: is no stored score: {why}") from None
    if not rows:
        raise StoredError(f"{path}: holds no scores")
    return rows


_ROW = TypeAdapter(Row)


# ---------------------------------------------------------------- the comparison

_Key = tuple[str, str]
"""A set and a configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One metric of `n` questions under one configuration: its means, and now - stored, paired."""

    set: str
    config: str
    metric: str
    n: int
    stored: float
    now: float
    difference: Estimate

    @property
    def fell(self) -> bool:
        """Whether it is significantly below what is stored."""
        return self.difference.high < 0

    @property
    def rose(self) -> bool:
        """Whether it is significantly above what is stored."""
        return self.difference.low > 0


def compare(stored: Iterable[Row], now: Iterable[Row]) -> list[Compared]:
    """Compares all that is stored; configurations that are not stored are ignored.

    Raises:
        StoredError: A stored set or configuration was not measured, the questions are not the
            same, or one has no whole answer, so that nothing can be said of the ranking.
    """
    before, after = _by_config(stored), _by_config(now)
    return [
        _compared(set_, config, metric, rows, after[set_, config])
        for (set_, config), rows in before.items()
        for metric in _checked(set_, config, rows, after.get((set_, config)))
    ]


def verdict(compared: Sequence[Compared]) -> str:
    """The fallen scores as a Markdown table, if any; and the risen ones, to be stored."""
    fell = [each for each in compared if each.fell]
    rose = [each for each in compared if each.rose]
    configs = len({(each.set, each.config) for each in compared})
    lines = [f"{len(fell)} of {len(compared)} scores of {configs} runs fell significantly."]
    if fell:
        lines += ["", _table(fell)]
    if rose:
        lines += ["", "These rose significantly; store them, so that they cannot fall back:", ""]
        lines += [_table(rose)]
    return "\n".join(lines)


def _table(compared: Sequence[Compared]) -> str:
    rows = [
        (
            f"{each.set}: {each.config}",
            each.metric,
            str(each.n),
            f"{each.stored:.3f}",
            f"{each.now:.3f}",
            estimate(each.difference.as_record(), "+"),
        )
        for each in compared
    ]
    return markdown_table(("run", "metric", "n", "stored", "now", "difference [95 %]"), rows)


def _by_config(rows: Iterable[Row]) -> dict[_Key, dict[str, Row]]:
    found: defaultdict[_Key, dict[str, Row]] = defaultdict(dict)
    for row in rows:
        found[row.set, row.way][row.query] = row
    return dict(found)


def _checked(
    set_: str, config: str, before: Mapping[str, Row], after: Mapping[str, Row] | None
) -> tuple[str, ...]:
    """The stored metrics of a configuration, if its answers can be compared."""
    name = f"set {set_!r}, configuration {config!r}"
    if after is None:
        raise StoredError(f"{name}: is stored, but was not measured")
    if lacking := sorted(before.keys() ^ after.keys()):
        raise StoredError(
            f"{name}: other questions are stored than were measured: {len(before)} and "
            f"{len(after)}, not in both is {lacking[0]!r}"
        )
    if len(before) < MIN_QUESTIONS:
        raise StoredError(f"{name}: nothing can be said of {len(before)} questions")
    for when, rows in (("stored", before), ("measured", after)):
        if faulty := [row for row in rows.values() if row.fault]:
            raise StoredError(
                f"{name}: {len(faulty)} {when} answers are not whole, such as that to "
                f"{faulty[0].query!r} ({faulty[0].fault}): this says nothing of the ranking"
            )
    for query, row in before.items():
        if lost := [metric for metric in row.scores if metric not in after[query].scores]:
            raise StoredError(f"{name}: {query!r} has no {lost[0]}")
    return tuple(dict.fromkeys(metric for row in before.values() for metric in row.scores))


def _compared(
    set_: str, config: str, metric: str, before: Mapping[str, Row], after: Mapping[str, Row]
) -> Compared:
    queries = sorted(query for query, row in before.items() if metric in row.scores)
    old = [before[query].scores[metric] for query in queries]
    new = [after[query].scores[metric] for query in queries]
    clusters = [after[query].scope for query in queries]
    return Compared(
        set=set_,
        config=config,
        metric=metric,
        n=len(queries),
        stored=sum(old) / len(old),
        now=sum(new) / len(new),
        difference=paired_difference(new, old, clusters),
    )

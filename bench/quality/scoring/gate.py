"""Compares a run with stored scores, question by question, and says what fell.

The rule: for each set, way and metric that is stored, the paired difference new - stored over the
same questions. It fell if the whole 95 % interval of that difference is below 0.

Ranking is deterministic, so a run of unchanged code differs by nothing at all and passes. Of some
fifty questions the rule notices a loss once about four of them lose and none gains; three could
still be chance.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.quality.scoring.intervals import LEAST_QUESTIONS, Estimate, paired_difference
from bench.quality.scoring.stored import Row, StoredError
from bench.reports.report import estimate, markdown_table

_Key = tuple[str, str]
"""A set and a way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One metric of one way, stored and now.

    Args:
        set: The collection.
        way: How it was asked.
        metric: Its name.
        n: Over how many questions.
        stored: The stored mean.
        now: The mean now.
        difference: now - stored, paired.
    """

    set: str
    way: str
    metric: str
    n: int
    stored: float
    now: float
    difference: Estimate

    @property
    def fell(self) -> bool:
        """Whether it is significantly below what is stored."""
        return self.difference.below_zero

    @property
    def rose(self) -> bool:
        """Whether it is significantly above what is stored."""
        return self.difference.above_zero


def compare(stored: Iterable[Row], now: Iterable[Row]) -> list[Compared]:
    """Compares all that is stored; ways that are not stored are left alone.

    Raises:
        StoredError: A stored set or way was not asked, the questions are not the same, or one
            has no whole answer, so that nothing can be said of the ranking.
    """
    before, after = _by_way(stored), _by_way(now)
    return [
        _compared(set_, way, metric, rows, after[set_, way])
        for (set_, way), rows in before.items()
        for metric in _checked(set_, way, rows, after.get((set_, way)))
    ]


def verdict(compared: Sequence[Compared]) -> str:
    """What fell, as a Markdown table, or that nothing did; and what rose, which is to be stored."""
    fell = [each for each in compared if each.fell]
    rose = [each for each in compared if each.rose]
    ways = len({(each.set, each.way) for each in compared})
    said = [f"{len(fell)} of {len(compared)} figures in {ways} ways fell significantly."]
    if fell:
        said += ["", _table(fell)]
    if rose:
        said += ["", "These rose significantly; store them, so that they cannot fall back:", ""]
        said += [_table(rose)]
    return "\n".join(said)


def _table(compared: Sequence[Compared]) -> str:
    rows = [
        (
            f"{each.set}: {each.way}",
            each.metric,
            str(each.n),
            f"{each.stored:.3f}",
            f"{each.now:.3f}",
            estimate(each.difference.as_record(), "+"),
        )
        for each in compared
    ]
    return markdown_table(("way", "metric", "n", "stored", "now", "difference [95 %]"), rows)


def _by_way(rows: Iterable[Row]) -> dict[_Key, dict[str, Row]]:
    found: defaultdict[_Key, dict[str, Row]] = defaultdict(dict)
    for row in rows:
        found[row.set, row.way][row.query] = row
    return dict(found)


def _checked(
    set_: str, way: str, before: Mapping[str, Row], after: Mapping[str, Row] | None
) -> tuple[str, ...]:
    """The stored metrics of a way, if its answers can be compared."""
    name = f"set {set_!r}, way {way!r}"
    if after is None:
        raise StoredError(f"{name}: is stored, but was not asked")
    if lacking := sorted(before.keys() ^ after.keys()):
        raise StoredError(
            f"{name}: other questions are stored than were asked: {len(before)} and "
            f"{len(after)}, not in both is {lacking[0]!r}"
        )
    if len(before) < LEAST_QUESTIONS:
        raise StoredError(f"{name}: nothing can be said of {len(before)} questions")
    for when, rows in (("stored", before), ("asked", after)):
        if faulty := [row for row in rows.values() if row.fault]:
            raise StoredError(
                f"{name}: {len(faulty)} answers {when} are not whole, such as that to "
                f"{faulty[0].query!r} ({faulty[0].fault}): this says nothing of the ranking"
            )
    metrics = tuple(next(iter(before.values())).scores)
    for row in (*before.values(), *after.values()):
        if lost := [metric for metric in metrics if metric not in row.scores]:
            raise StoredError(f"{name}: {row.query!r} has no {lost[0]}")
    return metrics


def _compared(
    set_: str, way: str, metric: str, before: Mapping[str, Row], after: Mapping[str, Row]
) -> Compared:
    queries = sorted(before)
    old = [before[query].scores[metric] for query in queries]
    new = [after[query].scores[metric] for query in queries]
    clusters = [after[query].scope for query in queries]
    return Compared(
        set=set_,
        way=way,
        metric=metric,
        n=len(queries),
        stored=sum(old) / len(old),
        now=sum(new) / len(new),
        difference=paired_difference(new, old, clusters),
    )

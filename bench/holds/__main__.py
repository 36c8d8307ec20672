"""The command `python -m bench.holds`: fits the model of what holds now, and says what it is worth.

Each hand that wrote memories is judged by a model that has not seen it.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path

import click
import numpy as np

from bench.harness import options
from bench.holds.cases import Case, read_cases
from bench.holds.fitting import fit, sample_of
from bench.reports.report import markdown_table
from serving.domain.ranking.holds import model as shipped
from serving.domain.ranking.holds.judge import Judgement, judge
from serving.domain.ranking.holds.model import Model
from serving.domain.ranking.holds.pairs import HEAD
from serving.domain.ranking.holds.rules import RULES, Rules

TOGETHER = ("holds3", "changes", "updates")
TABLE = Path(shipped.__file__).with_name(shipped.TABLE)
DEPTH = 10
NOWHERE = 99
MARKS = ("right", "wrong", "other")
MEASURES = ("current first", "kept", "harm", "mrr", "recall", *MARKS)
FOLDS_OF_CONVERSATIONS = 4
DIGITS = 5

WITHOUT = {
    "asks": replace(RULES, asks=1.0),
    "lacks_code": replace(RULES, lacks_code=1.0),
    "past": replace(RULES, past=2.0),
    "asked": replace(RULES, asked=0.0),
}
"""The rules without each."""


@click.command()
@options.folders
@click.option(
    "--heads",
    required=True,
    type=options.FOLDER,
    help="What `python -m bench.holds.heads` has written.",
)
@click.option("--write", is_flag=True, help="Write the weights of a model of all sets.")
@click.option("--each-rule", is_flag=True, help="Measure without each rule, too.")
@click.option("--order", multiple=True, type=float, help="Another probability for the order.")
def main(
    folders: Sequence[Path], heads: Path, write: bool, each_rule: bool, order: Sequence[float]
) -> None:
    """Measure the model on the sets in FOLDERS, with each hand left out."""
    cases = [case for folder in folders for case in read_cases(folder, heads)]
    random = np.random.default_rng(0)
    samples = [each for case in cases if (each := sample_of(case, random)) is not None]
    if write:
        TABLE.write_text(_as_table(fit(samples)), encoding="utf-8")
        click.echo(f"written to {TABLE}")
    folds = sorted({_fold(each.case) for each in samples})
    models = {fold: fit([each for each in samples if _fold(each.case) != fold]) for fold in folds}
    blind = [
        replace(case, head=[replace(each, vector=None) for each in case.head]) for case in cases
    ]
    _show("no rule", [outcome(case, Judgement([()] * len(case.head[:HEAD]))) for case in cases])
    _show("model", _judged(cases, models))
    _show("model, no vectors", _judged(blind, models))
    for least in order:
        _show(f"order {least}", _judged(cases, models, replace(RULES, order=least)))
    if each_rule:
        for name, rules in WITHOUT.items():
            _show(f"without {name}", _judged(cases, models, rules))
    started = time.process_time()
    _judged(cases, models)
    click.echo(f"CPU: {(time.process_time() - started) / len(cases) * 1e3:.2f} ms a question")


def _as_table(model: Model) -> str:
    def rounded(number: str) -> float:
        return round(float(number), DIGITS)

    return json.dumps(json.loads(json.dumps(asdict(model)), parse_float=rounded), indent=1) + "\n"


def _fold(case: Case) -> str:
    """The hand, or one of a few parts of the conversations."""
    if case.is_about_changes:
        return case.hand
    part = int(hashlib.sha256(case.hand.encode()).hexdigest(), 16) % FOLDS_OF_CONVERSATIONS
    return f"conversations-{part}"


def _judged(
    cases: Iterable[Case], models: Mapping[str, Model], rules: Rules = RULES
) -> list[Outcome]:
    return [
        outcome(case, judge(case.text, case.head[:HEAD], model=models[_fold(case)], rules=rules))
        for case in cases
    ]


def _show(title: str, outcomes: Sequence[Outcome]) -> None:
    groups: defaultdict[str, list[Outcome]] = defaultdict(list)
    for each in outcomes:
        groups[each.case.set_name].append(each)
    groups["together"] = list(chain.from_iterable(groups.get(name, []) for name in TOGETHER))
    groups["all"] = list(outcomes)
    rows = []
    for name, own in groups.items():
        found = means(own)
        shown = [
            f"{found[each]:{'.0f' if each in MARKS else '.3f'}}" if each in found else ""
            for each in MEASURES
        ]
        rows.append((name, *shown))
    click.echo(f"\n{markdown_table((title, *MEASURES), rows)}")
    total = means(outcomes)
    if promised := total["right"] + total["wrong"]:
        click.echo(f"\nprecision of marks: {total['right'] / promised:.3f}")


# ---------------------------------------------------------------- measures


@dataclass(frozen=True)
class Outcome:
    """The outcome of a question: its scores by measure, and its marks by what they are."""

    case: Case
    scores: Mapping[str, float]
    marks: Mapping[str, int] = field(default_factory=dict)


def outcome(case: Case, judged: Judgement) -> Outcome:
    """Scores the order that the factors give, and the marks."""
    head = case.head[:HEAD]
    values = [
        each.score * math.prod(term.factor for term in terms)
        for each, terms in zip(head, judged.verdicts, strict=True)
    ]
    order = [*sorted(range(len(head)), key=lambda at: -values[at]), *range(HEAD, len(case.head))]
    ranks = {at: rank for rank, at in enumerate(order[:DEPTH], 1)}
    first = min((ranks[at] for at in case.gold if at in ranks), default=NOWHERE)
    scores = {
        "mrr": 1 / first if first < NOWHERE else 0.0,
        "recall": sum(at in ranks for at in case.gold) / len(case.golds),
    }
    best = max(case.golds.values())
    if case.changed:
        newest = [ranks[at] for at, grade in case.gold.items() if grade == best and at in ranks]
        before = min((ranks[at] for at in case.over if at in ranks), default=NOWHERE)
        scores["current first"] = float(min(newest, default=NOWHERE) < before)
    elif case.traps or case.category == "hold":
        is_there = not case.missing and all(at in ranks for at in case.holds)
        trap = min((ranks[at] for at in case.traps if at in ranks), default=NOWHERE + 1)
        last = max((ranks[at] for at in case.holds if at in ranks), default=NOWHERE)
        scores["kept"] = float(is_there and last < trap)
    if case.category == "history":
        return Outcome(case, scores)
    kinds = [_kind(case, at) for at in judged.outdated_by]
    if not case.changed:
        scores["harm"] = float("wrong" in kinds)
    return Outcome(case, scores, {kind: kinds.count(kind) for kind in MARKS})


def _kind(case: Case, marked: int) -> str:
    if marked in case.over:
        return "right"
    is_best = case.gold.get(marked) == max(case.golds.values())
    return "wrong" if marked in case.holds or is_best else "other"


def means(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """The mean of each measure, over the questions that have it, and the sums of marks."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for each in outcomes:
        for name, score in each.scores.items():
            found[name].append(score)
    marks = {kind: float(sum(each.marks.get(kind, 0) for each in outcomes)) for kind in MARKS}
    return {name: float(np.mean(scores)) for name, scores in found.items()} | marks


if __name__ == "__main__":
    main()

"""The command `python -m bench.holds`: fits the model of what holds now, and says what it is worth.

Each hand that wrote memories is judged by a model that has not seen it.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path

import click
import numpy as np

from bench.holds.cases import Case, read_cases
from bench.holds.fitting import Sample, fit, sample_of
from bench.holds.measures import Outcome, means, outcome
from serving.domain.ranking.holds import model as shipped
from serving.domain.ranking.holds.judge import Judgement, judge
from serving.domain.ranking.holds.model import Model
from serving.domain.ranking.holds.pairs import HEAD
from serving.domain.ranking.holds.rules import RULES, Rules

TOGETHER = ("holds3", "changes", "updates")
TABLE = Path(shipped.__file__).with_name(shipped.TABLE)
MEASURES = ("current first", "kept", "harm", "mrr", "recall", "right", "wrong", "other")
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
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--heads",
    required=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
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
    models = _models(samples)
    blind = [_without_vectors(case) for case in cases]
    _show("no rule", [outcome(case, _unmoved(case)) for case in cases])
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
    def rounded(given: object) -> object:
        if isinstance(given, float):
            return round(given, DIGITS)
        return (
            {name: rounded(each) for name, each in given.items()}
            if isinstance(given, dict)
            else given
        )

    return json.dumps(rounded(asdict(model)), indent=1) + "\n"


def _fold(case: Case) -> str:
    """The hand, or one of a few parts of the conversations."""
    if case.is_about_changes:
        return case.hand
    part = int(hashlib.sha256(case.hand.encode()).hexdigest(), 16) % FOLDS_OF_CONVERSATIONS
    return f"conversations-{part}"


def _models(samples: Sequence[Sample]) -> dict[str, Model]:
    folds = sorted({_fold(each.case) for each in samples})
    return {fold: fit([each for each in samples if _fold(each.case) != fold]) for fold in folds}


def _without_vectors(case: Case) -> Case:
    return replace(case, head=[replace(each, vector=None) for each in case.head])


def _unmoved(case: Case) -> Judgement:
    return Judgement([()] * len(case.head[:HEAD]))


def _judged(
    cases: Iterable[Case], models: Mapping[str, Model], rules: Rules = RULES
) -> list[Outcome]:
    return [
        outcome(case, judge(case.text, case.head[:HEAD], model=models[_fold(case)], rules=rules))
        for case in cases
    ]


def _show(title: str, outcomes: Sequence[Outcome]) -> None:
    sets = dict.fromkeys(each.case.set_name for each in outcomes)
    groups: dict[str, list[Outcome]] = {
        name: [each for each in outcomes if each.case.set_name == name] for name in sets
    }
    groups["together"] = list(chain.from_iterable(groups.get(name, []) for name in TOGETHER))
    groups["all"] = list(outcomes)
    click.echo(f"\n| {title} | " + " | ".join(MEASURES) + " |\n| --- |" + " ---: |" * len(MEASURES))
    for name, own in groups.items():
        found = means(own)
        shown = [
            ""
            if measure not in found
            else f"{found[measure]:.0f}"
            if measure in ("right", "wrong", "other")
            else f"{found[measure]:.3f}"
            for measure in MEASURES
        ]
        click.echo(f"| {name} | " + " | ".join(shown) + " |")
    total = means(outcomes)
    promised = total["right"] + total["wrong"]
    if promised:
        click.echo(f"\nprecision of marks: {total['right'] / promised:.3f}")


if __name__ == "__main__":
    main()

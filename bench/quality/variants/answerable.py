"""Can the service tell a question without an answer? `python -m bench.quality.variants.answerable`.

A logistic regression reads what an answer and its leg reports say anyway, and predicts whether the
memory answers the question. It is fitted on conversations other than those it is tested on: of the
same family of sets, or of another family. Unanswerable are the questions without a judgment, and
those that a set calls adversarial.
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.calibration import calibration_curve
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from bench.harness.collection import Collection
from bench.harness.connections import connected
from bench.harness.results import RESULTS, Record, Result, append_record, run_folder
from bench.harness.service import running
from bench.quality import memories
from bench.quality.command import console, ended_by_message, read_sets
from bench.quality.pages.tables import answerable_table
from bench.quality.scoring.evaluate import ask_once
from bench.quality.session import Session
from bench.quality.ways import Way
from bench.reports import environment
from bench.reports.plots import COLOURS, MUTED, head, prepare
from bench.reports.progress import progress_bars
from trivium.values import Retrieval

SCENARIO = "answerable"
LEGS = ("lexical", "dense", "facts", "graph")
RESAMPLES = 200
BINS = 8
PLOT_NAME = "reliability.png"

Prediction = tuple[str, str, list[bool], list[float]]
"""The family tested, that fitted to, and of each question whether it has an answer, and the
predicted probability."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One question.

    Attributes:
        family: Of sets; one model is fitted to it.
        conversation: That the question is about.
        features: What the answer says of itself.
        answerable: Whether the memory answers it.
    """

    family: str
    conversation: str
    features: tuple[float, ...]
    answerable: bool


def features_of(retrieval: Retrieval) -> tuple[float, ...]:
    """What an answer says of itself.

    The best score and the number of candidates of each leg, the first hit's score, the share of it
    that the second hit lacks, and the number of legs that found the first hit.
    """
    hits = retrieval.hits
    terms = [term for hit in hits if hit.ledger is not None for term in hit.ledger.leg_terms]
    counts = {report.leg: report.candidate_count for report in retrieval.leg_reports}
    best = [max((term.leg_score for term in terms if term.leg == leg), default=0) for leg in LEGS]
    found = [math.log1p(counts.get(leg, 0)) for leg in LEGS]
    first, second = [*(hit.score for hit in hits[:2]), 0.0, 0.0][:2]
    margin = (first - second) / first if first else 0.0
    return (*best, *found, first, margin, float(len(hits[0].legs) if hits else 0))


def predicted(asked: Sequence[Asked], tested: str, fitted: str) -> tuple[list[bool], list[float]]:
    """Whether each question of the family `tested` has an answer, and the predicted probability.

    Within one family, each conversation is predicted by a model that was fitted to the others.
    """
    truths: list[bool] = []
    probabilities: list[float] = []
    for conversation, questions in _by_conversation(asked, tested):
        others = [
            each for each in asked if each.family == fitted and each.conversation != conversation
        ]
        model = _fitted(others)
        truths += [each.answerable for each in questions]
        probabilities += model.predict_proba(_matrix(questions))[:, 1].tolist()
    return truths, probabilities


def _by_conversation(asked: Iterable[Asked], family: str) -> Iterator[tuple[str, Sequence[Asked]]]:
    found: defaultdict[str, list[Asked]] = defaultdict(list)
    for each in asked:
        if each.family == family:
            found[each.conversation].append(each)
    yield from found.items()


def _fitted(questions: Sequence[Asked]) -> Pipeline:
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.3))
    return model.fit(_matrix(questions), [each.answerable for each in questions])


def _matrix(questions: Sequence[Asked]) -> NDArray[np.float64]:
    return np.array([each.features for each in questions])


def auroc(truths: Sequence[bool], probabilities: Sequence[float]) -> dict[str, float]:
    """The area under the ROC curve, with a 95 % interval over questions."""
    truth, probability = np.array(truths), np.array(probabilities)
    draw = np.random.default_rng(0)
    areas: list[float] = []
    while len(areas) < RESAMPLES:
        chosen = draw.integers(0, len(truth), len(truth))
        if 0 < truth[chosen].sum() < len(truth):
            areas.append(roc_auc_score(truth[chosen], probability[chosen]))
    low, high = np.percentile(areas, [2.5, 97.5])
    mean = roc_auc_score(truth, probability)
    return {"mean": float(mean), "low": float(low), "high": float(high)}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument(
    "folders",
    nargs=-1,
    metavar="FOLDER...",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=RESULTS,
    help="Where to make a folder of results.",
)
def main(folders: Sequence[Path], out: Path) -> None:
    """Predict which questions of each FOLDER, and of the memories, have an answer."""
    with ended_by_message():
        shipped = read_sets(memories.FOLDERS, None, skip_unreadable=False)
        given = read_sets(folders, None, skip_unreadable=False)
        asked = asyncio.run(
            _ask(
                [*((each, "memories") for each in shipped), *((each, each.name) for each in given)]
            )
        )
        predictions = list(predictions_of(asked))
        records = compared(predictions, environment.describe())
        where = run_folder("answerable", out)
        where.mkdir(parents=True)
        for record in records:
            append_record(where, record)
        _plot(predictions, where / PLOT_NAME)
        click.echo(answerable_table(records))
        console.print(f"written to {where}", markup=False)


async def _ask(sets: Sequence[tuple[Collection, str]]) -> list[Asked]:
    asked = []
    async with running(None) as target, connected(target, 1) as connections:
        profiles = await connections.profiles()
        with progress_bars(console) as bars:
            session = Session(connections, profiles, bars)
            for collection, family in sets:
                memory = await session.store(collection)
                bar = bars.add_task(f"querying {collection.name}", total=len(collection.queries))
                for query in collection.queries:
                    found = await ask_once(memory, query, Way("default"), explain=True)
                    asked.append(Asked(family, query.tenant, features_of(found), query.judged))
                    bars.advance(bar)
    return asked


def compared(predictions: Iterable[Prediction], about: Record) -> list[Record]:
    """One record for each pair of families: the tested, and the one fitted to."""
    return [
        Result(
            scenario=SCENARIO,
            parameters={"tested": tested, "fitted": fitted},
            n=len(truths),
            measured={"unanswerable": truths.count(False), "auroc": auroc(truths, probabilities)},
        ).as_record(about)
        for tested, fitted, truths, probabilities in predictions
    ]


def predictions_of(asked: Sequence[Asked]) -> Iterator[Prediction]:
    """Predicts each family that has questions without an answer by each of them."""
    families = dict.fromkeys(each.family for each in asked if not each.answerable)
    for tested in families:
        for fitted in families:
            yield tested, fitted, *predicted(asked, tested, fitted)


def _plot(predictions: Iterable[Prediction], path: Path) -> None:
    """The share of answerable questions by the predicted probability."""
    figure = Figure(figsize=(6.0, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    prepare(axes)
    axes.plot([0, 1], [0, 1], ":", color=MUTED)
    for (tested, fitted, truths, probabilities), colour in zip(predictions, COLOURS, strict=False):
        shares, means = calibration_curve(truths, probabilities, n_bins=BINS, strategy="quantile")
        style = "-" if tested == fitted else "--"
        axes.plot(means, shares, style, marker="o", color=colour, label=f"{tested} by {fitted}")
    head(axes, "Questions that have an answer, as a share", "predicted probability")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=130, facecolor="white")


if __name__ == "__main__":
    main()

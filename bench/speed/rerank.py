"""Tries a reranker: `python -m bench.speed.rerank --model FOLDER_OR_ID`.

A working reranker puts the answering passage first; one with a wrong prompt, or a head that was
not loaded, does so only by chance. It also prints the pairs per second.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import click

from serving.adapters.reranker.checkpoint import open_checkpoint
from serving.domain.errors import DependencyError
from serving.ports.reranking import CrossEncoder

HEAD = 50
"""Pairs at once, as many as the profile `two_stage` reranks."""
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Trial:
    """A question, and passages from the one that answers it to the one that is about nothing."""

    question: str
    passages: tuple[str, ...]


TRIALS = (
    Trial(
        "How many people live in Berlin?",
        (
            "Berlin had a population of 3,520,031 registered inhabitants in an area of 891.82 "
            "square kilometers.",
            "Berlin is well known for its museums.",
            "Add the flour and stir until the dough no longer sticks to the bowl.",
        ),
    ),
    Trial(
        "Where did Mara move in spring?",
        (
            "Mara: we moved to Lisbon in May, into a flat above a bakery.",
            "Mara: moving house is the most tiring thing I have ever done.",
            "The invoice has to be paid within thirty days.",
        ),
    ),
    Trial(
        "why does bread dough need to rest",
        (
            "Resting lets the gluten relax and the yeast produce gas, so the loaf rises and its "
            "crumb is light.",
            "Bread has been baked in this village since the twelfth century.",
            "The compiler reports an error when a variable is used before it is assigned.",
        ),
    ),
)


def answer_is_first(logits: Sequence[float]) -> bool:
    """Whether the first passage has the highest logit; the others differ too little to tell."""
    return logits[0] > max(logits[1:])


def sigmoid(logit: float) -> float:
    """The logit as a probability; without overflow for logits far below 0."""
    return 0.5 * (1.0 + math.tanh(0.5 * logit))


def as_lines(trial: Trial, logits: Sequence[float]) -> str:
    """The trial as lines: the question, then logit, probability and beginning of each passage."""
    verdict = "as expected" if answer_is_first(logits) else "NOT as expected"
    rows = [
        f"{logit:9.3f} {sigmoid(logit):7.4f}  {passage[:60]}"
        for logit, passage in zip(logits, trial.passages, strict=True)
    ]
    return "\n".join([f"{trial.question} ({verdict})", *rows])


def pairs_per_second(
    encoder: CrossEncoder, *, clock: Callable[[], float] = time.perf_counter
) -> float:
    """The median speed of some rounds over `HEAD` passages of the trials; one more is warm-up."""
    passages = [passage for trial in TRIALS for passage in trial.passages]
    texts = [passages[number % len(passages)] for number in range(HEAD)]
    seconds = []
    for _ in range(1 + ROUNDS):
        started = clock()
        encoder.score(encoder.tokenize(TRIALS[0].question, texts))
        seconds.append(clock() - started)
    return HEAD / median(seconds[1:])


def _load(model: str, device: str, threads: int) -> CrossEncoder:
    # Here, since it takes seconds to import.
    from serving.adapters.reranker.torch_cross_encoder import TorchCrossEncoder

    try:
        checkpoint = open_checkpoint(model, download=True)
        return TorchCrossEncoder(checkpoint, device=device, threads=threads)
    except DependencyError as error:
        raise click.ClickException(str(error)) from error


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--model", required=True, help="A folder, or a Hugging Face id, which is fetched.")
@click.option("--device", default="cpu", show_default=True, help="As torch names it.")
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True)
def main(model: str, device: str, threads: int) -> None:
    """Print how a reranker orders three questions, and its speed."""
    encoder = _load(model, device, threads)
    scored = [
        (trial, encoder.score(encoder.tokenize(trial.question, trial.passages))) for trial in TRIALS
    ]
    for trial, logits in scored:
        click.echo(as_lines(trial, logits))
    speed = pairs_per_second(encoder)
    click.echo(f"{speed:.1f} pairs a second, {HEAD} at once ({device}, {threads} threads)")
    if not all(answer_is_first(logits) for _, logits in scored):
        raise click.ClickException("this is not how a reranker orders these passages")


if __name__ == "__main__":
    main()

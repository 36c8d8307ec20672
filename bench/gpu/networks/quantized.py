"""Compares a quantized embedder with bfloat16 on a collection.

`python -m bench.gpu.networks.quantized` runs it.

The service compares the two on a dozen texts at each start, and refuses a model that they differ
on. That says nothing of which texts are found: here the questions of a collection look for the
nearest of its segments in either, and the share that both find is the verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from bench.harness.collection import Collection, read_collection
from serving.adapters.encoder.checkpoint import open_checkpoint
from serving.adapters.encoder.qwen3_encoder import Qwen3Encoder
from serving.domain.errors import DependencyError
from serving.models.precision import QUANTIZED, Precision
from serving.ports.embedding import Vectors

NEAREST = 10
LEAST_OVERLAP = 0.97
"""Of the nearest ten: at most one hit in thirty may be another."""


@dataclass(frozen=True, slots=True)
class Space:
    """The questions and the segments of each tenant, as one precision makes them."""

    tenants: Sequence[tuple[Vectors, Vectors]]

    def nearest(self) -> Iterator[set[int]]:
        """The places of the nearest segments of each question."""
        for questions, segments in self.tenants:
            for row in questions @ segments.T:
                yield set(np.argsort(-row, kind="stable")[:NEAREST].tolist())


def overlap(one: Space, other: Space) -> float:
    """The mean share of a question's nearest that both spaces find."""
    pairs = zip(one.nearest(), other.nearest(), strict=True)
    return float(np.mean([len(found & again) / len(found) for found, again in pairs]))


def least_cosine(one: Space, other: Space) -> float:
    """The least cosine of a segment in one space to itself in the other."""
    return min(
        float((rows * again).sum(axis=1).min())
        for (_, rows), (_, again) in zip(one.tenants, other.tenants, strict=True)
    )


def space(collection: Collection, encoder: Qwen3Encoder) -> Space:
    """Embeds a collection; of texts beyond the window, the first one."""
    tenants = []
    for tenant, memory in collection.memories.items():
        asked = [each.text for each in collection.queries if each.tenant == tenant]
        texts = [f'{each.speaker}: "{each.text}"' for each in memory.segments]
        if asked and texts:
            questions = encoder.encode([encoder.tokenize_query(text) for text in asked])
            windows = [encoder.tokenize_document(text)[0] for text in texts]
            tenants.append((questions, encoder.encode(windows)))
    return Space(tenants)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--model", required=True, help="A folder or a Hugging Face id of a Qwen3-Embedding.")
@click.option(
    "--precision", type=click.Choice(sorted(QUANTIZED)), default="int8", show_default=True
)
@click.option("--device", default="cuda", show_default=True, help="As torch names it.")
@click.option("--dimension", type=int, help="As embedder.dimension.")
@click.option("--least", default=LEAST_OVERLAP, show_default=True, help="Overlap that will do.")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
def main(
    model: str, precision: Precision, device: str, dimension: int | None, least: float, folder: Path
) -> None:
    """Say what the precision changes on the collection in FOLDER; 1 if it is too much."""
    collection = read_collection(folder)
    try:
        checkpoint = open_checkpoint(model, dimension=dimension, download=True)
        stored, kept = (
            space(collection, Qwen3Encoder(checkpoint, device=device, precision=each))
            for each in ("bfloat16", precision)
        )
    except (DependencyError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    shared = overlap(stored, kept)
    click.echo(f"least cosine {least_cosine(stored, kept):.4f}")
    click.echo(f"overlap of the nearest {NEAREST} {shared:.4f} (at least {least})")
    if shared < least:
        raise click.exceptions.Exit(1)


if __name__ == "__main__":
    main()

"""Makes the axes of the token states of an encoder, for late interaction.

`python -m bench.quality.axes` writes the file of the model of the settings in
`serving/adapters/encoder/axes`. They are the first eigenvectors of the second moments of the states
of content words, in the turns of the sets of this repository: the same sets give the same axes.
"""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from bench.harness.collection import as_embedded, read_collection
from bench.quality import memories
from serving.adapters.encoder.onnx_encoder import OnnxEncoder
from serving.adapters.encoder.published import open_model
from serving.adapters.encoder.token_states import axes_path, content_tokens
from serving.config.settings import load_settings

QUALITY = Path(__file__).parent
FOLDERS = (*memories.FOLDERS, QUALITY / "changes", QUALITY / "updates", QUALITY / "diary")

WIDTH = 64
"""As good as the 384 of the model; with 32 LoCoMo loses .01 of recall."""


@click.command()
def main() -> None:
    """Write the axes of the encoder of the settings."""
    settings = load_settings()
    checkpoint = open_model(settings.embedder.model, settings.cache_dir, fetch=True)
    encoder = OnnxEncoder(checkpoint, settings.cache_dir, precision="int8")
    content = content_tokens(checkpoint)
    moments = np.zeros((checkpoint.model.dimension,) * 2)
    turns = [turn for folder in FOLDERS for turn in read_collection(folder).segments]
    for turn in turns:
        for window in encoder.tokenize_document(as_embedded(turn)):
            states, _ = encoder.last_states([window])
            moments += second_moments(states[0][content[np.asarray(window)]])
    # In ascending order of their eigenvalues.
    axes = np.linalg.eigh(moments)[1][:, ::-1][:, :WIDTH]
    np.save(path := axes_path(checkpoint), axes.astype(np.float32))
    click.echo(f"written to {path}")


def second_moments(states: NDArray[np.float32]) -> NDArray[np.float64]:
    """The sum of the outer products of states at length 1: float64 (dimension, dimension)."""
    units = states.astype(np.float64) / np.linalg.norm(states, axis=1, keepdims=True)
    moments: NDArray[np.float64] = units.T @ units
    return moments


if __name__ == "__main__":
    main()

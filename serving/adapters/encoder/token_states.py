"""The states of content words in an encoder's last layer, on few axes, for late interaction.

They are those that a vector is the mean of, so that they take no further pass. An encoder has them
if this folder has axes for its checkpoint; `python -m bench.quality.axes` makes them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from serving.adapters.encoder.checkpoint import EncoderCheckpoint
from serving.domain.languages import language_of
from serving.ports.embedding import AXES_BYTES, TokenIds, TokenStates

AXES = Path(__file__).with_name("axes")
"""The files of axes, by the fingerprints of their checkpoints."""

LENGTH = 127
"""Of a state in int8."""


@dataclass(frozen=True, slots=True, eq=False)
class StateReader:
    """Reads the token states of windows.

    Attributes:
        axes: float32 (dimension, width).
        name: Identifies the axes.
        content: Whether each token of the vocabulary is of a content word: bool (tokens,).
    """

    axes: NDArray[np.float32]
    name: bytes
    content: NDArray[np.bool_]

    @classmethod
    def of(cls, checkpoint: EncoderCheckpoint) -> Self | None:
        """Opens the axes of a checkpoint; None if there are none."""
        if not (path := axes_path(checkpoint)).is_file():
            return None
        name = hashlib.sha256(path.read_bytes()).digest()[:AXES_BYTES]
        return cls(np.load(path), name, content_tokens(checkpoint))

    def read(self, states: NDArray[np.float32], window: TokenIds) -> TokenStates:
        """Reads states: float32 (tokens, dimension), of the window and maybe of its padding."""
        words = states[: len(window)][self.content[np.asarray(window)]] @ self.axes
        words *= LENGTH / np.linalg.norm(words, axis=1, keepdims=True)
        read: TokenStates = words.round().astype(np.int8)
        return read

    def stored(self, states: TokenStates) -> bytes:
        """Returns an entry of `Embedding.states`."""
        return self.name + states.tobytes() if len(states) else b""


def axes_path(checkpoint: EncoderCheckpoint) -> Path:
    """The path of the axes of a checkpoint, if it has some: float32 (dimension, width)."""
    return AXES / f"{checkpoint.model.fingerprint}.npy"


def content_tokens(checkpoint: EncoderCheckpoint) -> NDArray[np.bool_]:
    """Whether each token of a vocabulary of word pieces is of a content word: bool (tokens,).

    The others are function words of English, punctuation, and the tokens of the model itself.
    """
    tokenizer = Tokenizer.from_file(str(checkpoint.folder / "tokenizer.json"))
    function_words = language_of("english").function_words
    content = np.zeros(tokenizer.get_vocab_size(), np.bool_)
    for token, number in tokenizer.get_vocab().items():
        content[number] = token.strip("#").isalnum() and token not in function_words
    return content

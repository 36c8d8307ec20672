"""Qwen3-Embedding in a lean forward pass, on a CPU or a CUDA device.

A text is embedded by the state of its last token, the end token that the tokenizer appends.
That token is the padding token too, and earlier releases of the checkpoints did not append it:
whoever masks what equals the padding, or pools what happens to be last, gets vectors that look
well and find nothing. So the tokenizer is asked at the start, and windows are padded and
measured here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from serving.adapters.encoder.backend import is_last_token_pooled
from serving.adapters.encoder.checkpoint import Checkpoint, in_precision
from serving.adapters.encoder.on_device import to_host, vectors_by_length
from serving.adapters.encoder.onnx_probe import probe_windows
from serving.adapters.encoder.windows import WindowTokenizer, encode_by_length
from serving.domain.errors import DependencyError, UnsoundVectorError
from serving.models.device_vector import DeviceVector
from serving.models.errors import AttentionError, CheckpointError, DeviceMemoryError
from serving.models.precision import Attention, Precision
from serving.models.qwen3_architecture import Qwen3Architecture
from serving.models.qwen3_checkpoint import Probes, load_qwen3
from serving.models.stored_tensors import StoredTensors
from serving.ports import Device, EmbeddingModel, TokenIds, Vectors


class Qwen3Encoder:
    """A `TextEncoder` for Qwen3-Embedding and what was trained from it.

    Args:
        checkpoint: What to load.
        device: As torch names it: "cpu", "cuda", "cuda:1".
        precision: Of weights and arithmetic. Other than float32 it is part of the model's
            fingerprint. float16 is closer to float32 than bfloat16 is, until something exceeds
            65,504: that is an error here, at the start or in the batch that does. int8 and
            float8 are of the weights alone, and computed in bfloat16.
        attention: "varlen" spares a batch beyond the recorded shapes its padding.
        threads: Torch's threads for one forward pass, of the whole process; None leaves them.

    Raises:
        DependencyError: The checkpoint is of another architecture, its tokenizer does not end
            texts as it must, the device cannot be used or has no memory for it, the vectors are
            not finite, or those of a quantized model are not close to those of bfloat16.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        device: str = "cpu",
        precision: Precision = "float32",
        attention: Attention = "padded",
        threads: int | None = 1,
    ) -> None:
        if threads is not None:
            torch.set_num_threads(threads)
        self._precision = precision
        self._model = in_precision(checkpoint.model, precision)
        self._tokenizer = WindowTokenizer(checkpoint)
        with _told(device):
            architecture = Qwen3Architecture.read(checkpoint.architecture)
            if not is_last_token_pooled(checkpoint):
                raise _refused("the checkpoint does not pool its last token alone")
            require_end_token(checkpoint, self._tokenizer, architecture.vocabulary)
            probes = probe_windows(self._tokenizer)
            with StoredTensors(checkpoint.folder) as tensors:
                network = load_qwen3(
                    tensors,
                    architecture,
                    checkpoint.window,
                    torch.device(device),
                    precision,
                    Probes(probes, self._model.dimension),
                )
            self._passes = network.passes(attention)
        self._device = Device(
            is_accelerator=network.device.type != "cpu", token_budget=self._passes.token_budget
        )
        # Texts from the shortest to the longest: a wrong number type shows before any caller does.
        try:
            self.encode(probes)
        except UnsoundVectorError as error:
            raise _refused(error.why) from error

    def model(self) -> EmbeddingModel:
        """The model that makes the vectors."""
        return self._model

    def device(self) -> Device:
        """What computes it."""
        return self._device

    def tokenize_query(self, text: str) -> TokenIds:
        """Tokenizes a question with its prompt; what exceeds the window is cut."""
        return self._tokenizer.query(text)

    def tokenize_document(self, text: str) -> list[TokenIds]:
        """Tokenizes a text into at least one window; each begins within the one before."""
        return self._tokenizer.document(text)

    def encode(self, windows: Sequence[TokenIds]) -> Vectors:
        """Makes one row per window, in their order.

        Raises:
            UnsoundVectorError: A row is not finite.
            DependencyError: The device has no memory left.
        """
        return encode_by_length(
            windows, self._run_to_host, self._model.dimension, self._passes.token_budget
        )

    def encode_queries(self, windows: Sequence[TokenIds]) -> list[DeviceVector | None]:
        """Makes the same rows, which stay on the device; None for one that is not sound.

        Raises:
            DependencyError: The device has no memory left.
        """
        return vectors_by_length(
            windows, self._run, self._model.dimension, self._passes.token_budget
        )

    def _run(self, windows: Sequence[TokenIds]) -> torch.Tensor:
        try:
            return self._passes.run(windows)
        except DeviceMemoryError as error:
            raise _refused(str(error)) from error

    def _run_to_host(self, windows: Sequence[TokenIds]) -> NDArray[np.float32]:
        rows = to_host(self._run)(windows)
        if not np.isfinite(rows).all():
            raise UnsoundVectorError(f"in {self._precision}")
        return rows


def require_end_token(checkpoint: Checkpoint, tokenizer: WindowTokenizer, vocabulary: int) -> None:
    """Asks the tokenizer for what the pooling stands on.

    Args:
        checkpoint: What `tokenizer` is of.
        tokenizer: As it is going to be used.
        vocabulary: How many tokens the network knows.

    Raises:
        DependencyError: A window would end with another token than padding, or hold one that
            the network does not know, which on CUDA ends the process.
    """
    plain = Tokenizer.from_file(str(checkpoint.folder / "tokenizer.json"))
    end = _padding_token(checkpoint)
    end_id = plain.token_to_id(end)
    if end_id is None:
        raise _refused(f"the tokenizer does not know its padding token {end!r}")
    for name, windows in {
        "no text": tokenizer.document(""),
        "a text": tokenizer.document("a"),
        "a question": [tokenizer.query("a")],
        "a long text": tokenizer.document("a b " * checkpoint.window),
    }.items():
        for window in windows:
            if not window or window[-1] != end_id:
                last = plain.id_to_token(window[-1]) if window else None
                raise _refused(
                    f"the tokenizer ends {name} with {last!r}, expected the end token {end!r}"
                )
    most = max(plain.get_vocab(with_added_tokens=True).values())
    if most >= vocabulary:
        raise _refused(f"the tokenizer has token {most}, the network has {vocabulary} of them")


def _padding_token(checkpoint: Checkpoint) -> str:
    path = checkpoint.folder / "tokenizer_config.json"
    token = json.loads(path.read_text()).get("pad_token") if path.is_file() else None
    if token is None:
        raise _refused("tokenizer_config.json names no pad_token")
    # With its properties, in some releases of transformers.
    return str(token["content"] if isinstance(token, dict) else token)


@contextmanager
def _told(device: str) -> Iterator[None]:
    """Says in words what was wrong with a checkpoint or a device."""
    try:
        yield
    except (AttentionError, CheckpointError, DeviceMemoryError) as error:
        raise _refused(str(error)) from error
    except (RuntimeError, AssertionError) as error:
        why = f"cannot be loaded on {device!r} ({type(error).__name__})"
        raise _refused(why) from error


def _refused(why: str) -> DependencyError:
    return DependencyError("embedder", why)

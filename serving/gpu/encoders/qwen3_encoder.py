"""Qwen3-Embedding in a minimal forward pass, on a CPU or a CUDA device.

The vector of a text is the state of its last token, the end token that the tokenizer appends. It is
also the padding token, and earlier releases of the checkpoints did not append it. Masking by
`ids != pad`, or pooling whatever token is last, gives plausible vectors that retrieve nothing. The
tokenizer is therefore checked at start-up, and windows are padded and measured here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from serving.adapters.encoder.checkpoint import EncoderCheckpoint, in_precision
from serving.adapters.encoder.probes import probe_windows
from serving.adapters.encoder.windows import WindowEncoder
from serving.domain.errors import DependencyError, UnsoundVectorError
from serving.gpu.encoders.backend import is_last_token_pooled
from serving.gpu.encoders.on_device import DeviceEncoder
from serving.gpu.networks.errors import CheckpointError, DeviceMemoryError
from serving.gpu.networks.passes import use_threads
from serving.gpu.networks.precision import Precision
from serving.gpu.networks.qwen3.architecture import Qwen3Architecture
from serving.gpu.networks.qwen3.checkpoint import load_qwen3
from serving.gpu.networks.stored_tensors import stored_tensors
from serving.ports.embedding import Device, TokenIds


class Qwen3Encoder(DeviceEncoder):
    """A `TextEncoder` for Qwen3-Embedding and its fine-tuned variants.

    The precision is that of weights and arithmetic. If not float32, it is part of the model's
    fingerprint. float16 is closer to float32 than bfloat16, but overflows above 65,504, which is
    reported as an error at start-up or for the batch. `threads` are torch's for one forward pass,
    process-wide.

    Raises:
        DependencyError: The checkpoint has another architecture, its tokenizer does not append
            the end token, the device cannot be used or lacks memory, or vectors are not finite.
    """

    def __init__(
        self,
        checkpoint: EncoderCheckpoint,
        *,
        device: str = "cpu",
        precision: Precision = "float32",
        threads: int = 1,
    ) -> None:
        use_threads(device, threads)
        self._precision = precision
        super().__init__(checkpoint, in_precision(checkpoint.model, precision))
        with _translated_errors(device):
            architecture = Qwen3Architecture.read(checkpoint.architecture)
            if not is_last_token_pooled(checkpoint):
                raise _refused("the checkpoint does not pool its last token alone")
            require_end_token(checkpoint, self, architecture.vocabulary)
            with stored_tensors(checkpoint.folder) as tensors:
                network = load_qwen3(
                    tensors, architecture, checkpoint.window, torch.device(device), precision
                )
            self._passes = network.passes()
        self._device = Device(
            is_accelerator=network.device.type != "cpu", token_budget=self._passes.token_budget
        )
        # Texts of all lengths: an overflow in this precision shows at start-up.
        try:
            self.encode(probe_windows(self))
        except UnsoundVectorError as error:
            raise _refused(error.why) from error

    def _run(self, windows: Sequence[TokenIds]) -> torch.Tensor:
        try:
            return self._passes.run(windows)
        except DeviceMemoryError as error:
            raise _refused(str(error)) from error

    def _run_to_host(self, windows: Sequence[TokenIds]) -> NDArray[np.float32]:
        rows = super()._run_to_host(windows)
        if not np.isfinite(rows).all():
            raise UnsoundVectorError(f"in {self._precision}")
        return rows


def require_end_token(
    checkpoint: EncoderCheckpoint, encoder: WindowEncoder, vocabulary: int
) -> None:
    """Checks that the tokenizer ends every window with the padding token.

    Raises:
        DependencyError: It does not, or it has a token beyond the network's `vocabulary`; such a
            token would abort the process on CUDA.
    """
    plain = Tokenizer.from_file(str(checkpoint.folder / "tokenizer.json"))
    end = _padding_token(checkpoint)
    end_id = plain.token_to_id(end)
    if end_id is None:
        raise _refused(f"the tokenizer does not know its padding token {end!r}")
    for name, windows in {
        "no text": encoder.tokenize_document(""),
        "a text": encoder.tokenize_document("a"),
        "a question": [encoder.tokenize_query("a")],
        "a long text": encoder.tokenize_document("a b " * checkpoint.window),
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


def _padding_token(checkpoint: EncoderCheckpoint) -> str:
    path = checkpoint.folder / "tokenizer_config.json"
    token = json.loads(path.read_text()).get("pad_token") if path.is_file() else None
    if token is None:
        raise _refused("tokenizer_config.json names no pad_token")
    # Some releases of transformers write a mapping with the token's properties.
    return str(token["content"] if isinstance(token, dict) else token)


@contextmanager
def _translated_errors(device: str) -> Iterator[None]:
    """Raises `DependencyError` for errors of the checkpoint or the device."""
    try:
        yield
    except (CheckpointError, DeviceMemoryError) as error:
        raise _refused(str(error)) from error
    except (RuntimeError, AssertionError) as error:
        why = f"cannot be loaded on {device!r} ({type(error).__name__})"
        raise _refused(why) from error


def _refused(why: str) -> DependencyError:
    return DependencyError("embedder", why)

"""Exports a checkpoint as an ONNX graph, with torch's vectors of the probe texts."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from transformers.utils.logging import disable_progress_bar

from serving.adapters.encoder.checkpoint import EncoderCheckpoint
from serving.adapters.encoder.probes import PADDED_TOKENS, probe_windows
from serving.adapters.encoder.windows import WindowTokenizer, encode_by_length, padded
from serving.domain.errors import DependencyError
from serving.ports.embedding import TokenIds, Vectors

OPSET = 20
"""The first opset with GELU as one operator."""


class _Embedding(nn.Module):
    """A whole sentence-transformers model as one function of two tensors."""

    def __init__(self, model: SentenceTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        features = self.model({"input_ids": input_ids, "attention_mask": attention_mask})
        embedding: Tensor = features["sentence_embedding"]
        return embedding


def export(checkpoint: EncoderCheckpoint, model_path: Path, probe_path: Path) -> None:
    """Exports the checkpoint, in about 10 s for a model of 90 MB.

    Raises:
        DependencyError: The checkpoint cannot be loaded or exported.
    """
    disable_progress_bar()  # type: ignore[no-untyped-call]
    # It warns about every torchvision operator, and no encoder uses one.
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    try:
        model = SentenceTransformer(
            str(checkpoint.folder),
            device="cpu",
            local_files_only=True,
            # Eager attention: its graph has fewer nodes than the export of the fused one.
            model_kwargs={"attn_implementation": "eager", "dtype": "float32"},
        )
        embedding = _Embedding(model).eval()
        np.save(probe_path, _probe_vectors(checkpoint, embedding))
        with warnings.catch_warnings():
            # The exporter warns about its own internals.
            warnings.simplefilter("ignore")
            _export_graph(embedding, model_path)
    except Exception as error:
        why = f"the model cannot be exported to ONNX ({type(error).__name__})"
        raise DependencyError("embedder", why) from error


@torch.inference_mode()
def _probe_vectors(checkpoint: EncoderCheckpoint, embedding: _Embedding) -> Vectors:
    def run(windows: Sequence[TokenIds]) -> NDArray[np.float32]:
        ids, mask = padded(windows)
        rows: Tensor = embedding(torch.from_numpy(ids), torch.from_numpy(mask))
        return rows.numpy()

    windows = probe_windows(WindowTokenizer(checkpoint))
    return encode_by_length(windows, run, checkpoint.model.dimension, PADDED_TOKENS)


def _export_graph(embedding: _Embedding, path: Path) -> None:
    ids = torch.ones((2, 16), dtype=torch.int64)
    mask = torch.ones_like(ids)
    mask[1, 10:] = 0
    shape = {0: torch.export.Dim("windows"), 1: torch.export.Dim("tokens")}
    torch.onnx.export(
        embedding,
        (ids, mask),
        str(path),
        input_names=["input_ids", "attention_mask"],
        output_names=["sentence_embedding"],
        dynamic_shapes={"input_ids": shape, "attention_mask": shape},
        dynamo=True,
        opset_version=OPSET,
        external_data=False,
        verbose=False,
    )

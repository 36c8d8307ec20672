"""The vectors of torch in float32, with which those of other runtimes are compared."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np

from serving.adapters.encoder.checkpoint import EncoderCheckpoint
from serving.adapters.encoder.probes import probe_windows
from serving.adapters.encoder.windows import WindowTokenizer
from serving.gpu.encoders.torch_encoder import TorchEncoder
from serving.ports.embedding import Vectors


def cached_reference(checkpoint: EncoderCheckpoint, cache_dir: Path) -> Vectors:
    """The probe vectors of torch, cached by fingerprint, since computing them takes seconds.

    Raises:
        DependencyError: The checkpoint cannot be loaded.
    """
    path = cache_dir / "probes" / f"{checkpoint.model.fingerprint}.npy"
    if not path.is_file():
        windows = probe_windows(WindowTokenizer(checkpoint))
        _write_atomically(TorchEncoder(checkpoint, threads=None).encode(windows), path)
    cached: Vectors = np.load(path)
    return cached


def _write_atomically(vectors: Vectors, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".draft-", delete=False) as draft:
        np.save(draft, vectors)
    os.replace(draft.name, path)

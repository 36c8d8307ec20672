"""What the vectors of a checkpoint are, to hold other runtimes against: torch in float32.

A runtime or a precision of its own is used only while it gives these vectors: an index holds
the vectors of one fingerprint, whatever made them.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np

from serving.adapters.encoder.checkpoint import Checkpoint
from serving.adapters.encoder.onnx_probe import probe_windows
from serving.adapters.encoder.windows import WindowTokenizer
from serving.domain.errors import DependencyError
from serving.ports import Vectors

LEAST_COSINE = 0.9999
"""Below it, vectors of two runtimes must not share an index."""


def require_same(made: Vectors, expected: Vectors, what: str, remedy: str) -> None:
    """Compares two times the vectors of the probes, float32 (probes, dimension) at unit length.

    Args:
        made: Those of the runtime that is to be used.
        expected: Those of torch.
        what: The runtime, for the message.
        remedy: What the operator can do about it.

    Raises:
        DependencyError: They are of another model, or differ; NaN differs from everything.
    """
    if made.shape != expected.shape:
        raise DependencyError("embedder", f"{what} is of another model; {remedy}")
    least = float((made * expected).sum(axis=1).min())
    if not least >= LEAST_COSINE:
        why = f"{what} differs from its checkpoint (cosine {least:.4f}); {remedy}"
        raise DependencyError("embedder", why)


def kept_reference(checkpoint: Checkpoint, cache_dir: Path) -> Vectors:
    """The vectors that torch makes of the probes, kept by fingerprint: making them takes seconds.

    Raises:
        DependencyError: The checkpoint cannot be loaded.
    """
    path = cache_dir / "probes" / f"{checkpoint.model.fingerprint}.npy"
    if not path.is_file():
        _keep(_made_by_torch(checkpoint), path)
    kept: Vectors = np.load(path)
    return kept


def _made_by_torch(checkpoint: Checkpoint) -> Vectors:
    # Not before it is needed: it imports sentence-transformers, which takes seconds.
    from serving.adapters.encoder.torch_encoder import TorchEncoder

    return TorchEncoder(checkpoint, threads=None).encode(probe_windows(WindowTokenizer(checkpoint)))


def _keep(vectors: Vectors, path: Path) -> None:
    """Writes the file under its name once it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".draft-", delete=False) as draft:
        np.save(draft, vectors)
    os.replace(draft.name, path)

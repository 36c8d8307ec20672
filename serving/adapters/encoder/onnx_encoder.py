"""A sentence encoder through ONNX Runtime on the CPU, exported once from its checkpoint.

The export is kept in a cache folder by the model's fingerprint, beside the vectors that
torch made of a few probe texts. Every start embeds the probes and refuses an export
that does not give the same vectors. A start from the cache imports neither torch nor
transformers.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from serving.adapters.encoder.checkpoint import Checkpoint
from serving.adapters.encoder.onnx_probe import PADDED_TOKENS, probe_windows
from serving.adapters.encoder.reference import require_same
from serving.adapters.encoder.windows import WindowTokenizer, encode_by_length, padded
from serving.domain.errors import DependencyError
from serving.domain.soundness import sound_rows
from serving.ports import Device, EmbeddingModel, TokenIds, Vector, Vectors

logger = logging.getLogger(__name__)

EXPORT_VERSION = 1
"""To be raised when `onnx_export` changes what it writes."""

MODEL_FILE = "model.onnx"
PROBE_FILE = "probe.npy"


class OnnxEncoder:
    """A `TextEncoder` over ONNX Runtime.

    Args:
        checkpoint: What to run.
        cache_dir: Where exports are kept; made if it does not exist.
        threads: Threads for one forward pass; 1 leaves the other cores to the rest of the
            service, and takes the least of the CPU for each query.

    Raises:
        DependencyError: The checkpoint cannot be exported, or the export gives other
            vectors than the checkpoint.
    """

    def __init__(self, checkpoint: Checkpoint, cache_dir: Path, *, threads: int = 1) -> None:
        self._checkpoint = checkpoint
        self._tokenizer = WindowTokenizer(checkpoint)
        folder = _export_once(checkpoint, cache_dir)
        self._session = _open_session(folder / MODEL_FILE, threads)
        self._check_probes(np.load(folder / PROBE_FILE))

    def model(self) -> EmbeddingModel:
        """The model that makes the vectors."""
        return self._checkpoint.model

    def device(self) -> Device:
        """This CPU."""
        return Device(is_accelerator=False, token_budget=PADDED_TOKENS)

    def tokenize_query(self, text: str) -> TokenIds:
        """Tokenizes a question with its prompt; what exceeds the window is cut."""
        return self._tokenizer.query(text)

    def tokenize_document(self, text: str) -> list[TokenIds]:
        """Tokenizes a text into at least one window; each begins within the one before."""
        return self._tokenizer.document(text)

    def encode(self, windows: Sequence[TokenIds]) -> Vectors:
        """Makes one row per window, in their order."""
        return encode_by_length(windows, self._run, self._checkpoint.model.dimension, PADDED_TOKENS)

    def encode_queries(self, windows: Sequence[TokenIds]) -> list[Vector | None]:
        """Makes the same rows; None for one that is zero or not finite."""
        return sound_rows(self.encode(windows))

    def _run(self, windows: Sequence[TokenIds]) -> NDArray[np.float32]:
        ids, mask = padded(windows)
        rows: NDArray[np.float32]
        (rows,) = self._session.run(None, {"input_ids": ids, "attention_mask": mask})
        return rows

    def _check_probes(self, expected: Vectors) -> None:
        made = self.encode(probe_windows(self._tokenizer))
        require_same(made, expected, "the ONNX export", "remove it")


def export_folder(checkpoint: Checkpoint, cache_dir: Path) -> Path:
    """Where the export of a checkpoint is kept."""
    return cache_dir / "onnx" / f"{checkpoint.model.fingerprint}-{EXPORT_VERSION}"


def _export_once(checkpoint: Checkpoint, cache_dir: Path) -> Path:
    """The folder of the export, which is complete once it has its name."""
    folder = export_folder(checkpoint, cache_dir)
    if folder.is_dir():
        return folder
    # Not before it is needed: it imports torch and the exporter, which takes seconds.
    from serving.adapters.encoder.onnx_export import export

    logger.info("exporting the encoder", extra={"fingerprint": checkpoint.model.fingerprint})
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".export-", dir=folder.parent))
    try:
        export(checkpoint, draft / MODEL_FILE, draft / PROBE_FILE)
        _publish(draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder


def _publish(draft: Path, folder: Path) -> None:
    try:
        os.rename(draft, folder)
    except OSError:
        if not folder.is_dir():
            raise
        # Another process was first; its export is as good.


def _open_session(path: Path, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Idle threads sleep: spinning would take a core from the rest of the service.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        # The fused SkipLayerNormalization of 1.31 is slower on the CPU than its parts:
        # 32 texts of 16 tokens in 89 ms instead of 78.
        return onnxruntime.InferenceSession(
            str(path),
            options,
            providers=["CPUExecutionProvider"],
            disabled_optimizers=["SkipLayerNormFusion"],
        )
    except Exception as error:
        why = f"the ONNX export cannot be loaded ({type(error).__name__}); remove it"
        raise DependencyError("embedder", why) from error

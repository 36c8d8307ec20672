"""Loads tokenizers and models of rerankers with the transformers library, offline."""

from __future__ import annotations

from typing import Any

from serving.adapters.reranker.checkpoint import RerankerCheckpoint
from serving.domain.errors import DependencyError
from serving.gpu.networks.precision import Precision


def load_tokenizer(checkpoint: RerankerCheckpoint) -> Any:
    """The tokenizer, truncating at the end of a text."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(
        checkpoint.folder, local_files_only=True, truncation_side="right"
    )


def load_model(
    auto_class: Any, checkpoint: RerankerCheckpoint, device: str, precision: Precision
) -> Any:
    """The model on a device, for inference.

    Args:
        auto_class: The transformers class for the task.
        checkpoint: What to load.
        device: As torch names it.
        precision: Of weights and arithmetic.

    Raises:
        DependencyError: The checkpoint lacks weights; transformers would initialise them randomly.
    """
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # type: ignore[no-untyped-call]
    model, report = auto_class.from_pretrained(
        checkpoint.folder,
        dtype=precision,
        local_files_only=True,
        use_safetensors=True,
        output_loading_info=True,
    )
    if report["missing_keys"] or report["mismatched_keys"]:
        raise DependencyError("reranker", "the checkpoint lacks weights of the model")
    return model.to(device).eval()

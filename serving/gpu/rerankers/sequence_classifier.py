"""BERT and XLM-R cross-encoders, which read both texts at once and have one output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from serving.adapters.reranker.checkpoint import RerankerCheckpoint
from serving.adapters.reranker.pair_tokenizer import PairTokenizer
from serving.domain.errors import DependencyError
from serving.gpu.networks.batches import Forward, Network
from serving.gpu.networks.passes import ACCELERATOR_TOKENS, Passes, open_passes
from serving.gpu.networks.precision import Precision
from serving.ports.reranking import Pair


class SequenceClassifier:
    """A `PairModel` whose one output is the logit."""

    def __init__(self, checkpoint: RerankerCheckpoint, device: str, precision: Precision) -> None:
        self.tokenize = PairTokenizer(checkpoint.folder, checkpoint.window)
        model = _load_model(checkpoint, device, precision)
        forward = forward_of(model, separator_of(*self.tokenize("a", ["b"])))
        self._passes = passes_of(forward, torch.device(device), checkpoint.window)
        self.token_budget = self._passes.token_budget

    def logits(self, batch: Sequence[Pair]) -> list[float]:
        logits: list[float] = self._passes.run([pair.ids for pair in batch])[:, 0].tolist()
        return logits


def passes_of(forward: Forward, device: torch.device, window: int) -> Passes:
    """Prepares a classifier for its device.

    Passes of every size are recorded: one of MiniLM has 124 short kernels, which take longer to
    launch than to run (`bench.gpu`).
    """
    return open_passes(Network(forward, device), 1, window, recorded_tokens=ACCELERATOR_TOKENS)


def forward_of(model: Any, separator: int | None) -> Forward:
    """The forward pass of a model of the transformers library with one output.

    The separator is the token after the question, if the model has token types.
    """

    def forward(ids: Tensor, lengths: Tensor) -> Tensor:
        positions = torch.arange(ids.shape[1], device=ids.device)
        types = {} if separator is None else {"token_type_ids": types_of(ids, separator)}
        mask = (positions < lengths[:, None]).long()
        logits: Tensor = model(input_ids=ids, attention_mask=mask, **types).logits
        return logits.float()

    return forward


def separator_of(pair: Pair) -> int | None:
    """The token before the first one of type 1; None if there are no types."""
    types = list(pair.types or ())
    return pair.ids[types.index(1) - 1] if 1 in types else None


def types_of(ids: Tensor, separator: int) -> Tensor:
    """The token types of BERT for ids (pairs, tokens): 0 up to the first separator, then 1.

    A text cannot write a separator, so the first one ends the question.
    """
    separators = (ids == separator).long()
    return (separators.cumsum(1) - separators).clamp(max=1)


def _load_model(checkpoint: RerankerCheckpoint, device: str, precision: Precision) -> Any:
    """Loads the model for inference, offline."""
    # Imported late: the import takes seconds.
    from transformers import AutoModelForSequenceClassification
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # type: ignore[no-untyped-call]
    model, report = AutoModelForSequenceClassification.from_pretrained(
        checkpoint.folder,
        dtype=precision,
        local_files_only=True,
        use_safetensors=True,
        output_loading_info=True,
    )
    # Those that are missing would be initialised randomly.
    if report["missing_keys"] or report["mismatched_keys"]:
        raise DependencyError("reranker", "the checkpoint lacks weights of the model")
    return model.to(device).eval()

"""BERT and XLM-R cross-encoders, which read both texts at once and have one output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from serving.adapters.reranker.checkpoint import RerankerCheckpoint
from serving.adapters.reranker.pair_tokenizer import PairTokenizer
from serving.domain.errors import DependencyError
from serving.gpu.networks.passes import tokens_of_a_pass
from serving.gpu.networks.precision import Precision
from serving.ports.reranking import Pair

Inputs = dict[str, Tensor]
"""The inputs of a transformers model, by name: each int64 (pairs, longest)."""


class SequenceClassifier:
    """A `PairModel` whose one output is the logit.

    Args:
        checkpoint: What to load.
        device: As torch names it.
        precision: Of weights and arithmetic.
    """

    def __init__(self, checkpoint: RerankerCheckpoint, device: str, precision: Precision) -> None:
        self.tokenize = PairTokenizer(checkpoint.folder, checkpoint.window)
        self._model = _load_model(checkpoint, device, precision)
        self._padding = int(self._model.config.pad_token_id)
        self._has_types = self._model.config.type_vocab_size > 1
        self._device = torch.device(device)
        self.token_budget = tokens_of_a_pass(self._device)

    @torch.inference_mode()
    def logits(self, batch: Sequence[Pair]) -> list[float]:
        inputs = padded(batch, self._padding, with_types=self._has_types)
        on_device = {name: rows.to(self._device) for name, rows in inputs.items()}
        logits: list[float] = self._model(**on_device).logits[:, 0].float().tolist()
        return logits


def _load_model(checkpoint: RerankerCheckpoint, device: str, precision: Precision) -> Any:
    """Loads the model for inference, offline.

    Raises:
        DependencyError: The checkpoint lacks weights; transformers would initialise them randomly.
    """
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
    if report["missing_keys"] or report["mismatched_keys"]:
        raise DependencyError("reranker", "the checkpoint lacks weights of the model")
    return model.to(device).eval()


def padded(pairs: Sequence[Pair], padding: int, *, with_types: bool) -> Inputs:
    """Rows of equal length, padded at the right; `attention_mask` is 1 where a token is."""
    inputs = {
        "input_ids": _rows([pair.ids for pair in pairs], padding),
        "attention_mask": _rows([[1] * len(pair) for pair in pairs], 0),
    }
    if with_types:
        inputs["token_type_ids"] = _rows([pair.types or [0] * len(pair) for pair in pairs], 0)
    return inputs


def _rows(lists: Sequence[Sequence[int]], padding: int) -> Tensor:
    return pad_sequence([torch.tensor(row) for row in lists], True, padding)

"""BERT and XLM-R cross-encoders, which read both texts at once and have one output."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from serving.adapters.reranker.checkpoint import RerankerCheckpoint
from serving.gpu.networks.passes import tokens_of_a_pass
from serving.gpu.networks.precision import Precision
from serving.gpu.rerankers.loading import load_model, load_tokenizer
from serving.gpu.rerankers.pairs import beginning, padded
from serving.ports.reranking import Pair


class SequenceClassifier:
    """A `PairModel` whose one output is the logit.

    Truncation removes the end of the text. A question takes at most half of the window, so part
    of the text is always read.

    Args:
        checkpoint: What to load.
        device: As torch names it.
        precision: Of weights and arithmetic.
    """

    def __init__(self, checkpoint: RerankerCheckpoint, device: str, precision: Precision) -> None:
        from transformers import AutoModelForSequenceClassification

        self._tokenizer = load_tokenizer(checkpoint)
        self._window = checkpoint.window
        self._model = load_model(AutoModelForSequenceClassification, checkpoint, device, precision)
        self._padding = int(self._tokenizer.pad_token_id)
        self._device = torch.device(device)
        self.token_budget = tokens_of_a_pass(self._device)

    def tokenize(self, query: str, texts: Sequence[str]) -> list[Pair]:
        query = beginning(self._tokenizer, query, self._window // 2)
        encoded = self._tokenizer(
            [query] * len(texts),
            list(texts),
            truncation="only_second",
            max_length=self._window,
            # Otherwise a text could contain "[SEP]" and end itself. XLM-R's "</s>" is also in its
            # ordinary vocabulary and remains a token, with little effect.
            split_special_tokens=True,
        )
        types = encoded.get("token_type_ids") or [None] * len(texts)
        return [Pair(*row) for row in zip(encoded["input_ids"], types, strict=True)]

    @torch.inference_mode()
    def logits(self, batch: Sequence[Pair]) -> list[float]:
        inputs = padded(batch, self._padding)
        on_device = {name: rows.to(self._device) for name, rows in inputs.items()}
        logits: list[float] = self._model(**on_device).logits[:, 0].float().tolist()
        return logits

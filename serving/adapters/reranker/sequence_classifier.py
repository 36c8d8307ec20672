"""Encoders of the BERT and XLM-R kind that read both texts at once and have one output."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from serving.adapters.reranker.checkpoint import Checkpoint, require_computed
from serving.adapters.reranker.loading import load_model, load_tokenizer
from serving.adapters.reranker.pairs import beginning, padded
from serving.models.passes import tokens_of_a_pass
from serving.models.precision import Attention, Precision
from serving.ports import Pair


class SequenceClassifier:
    """A `PairModel` whose one output is the logit.

    What exceeds the window is cut from the end of the text. A question takes at most half of the
    window, so that some of the text is always read.

    Args:
        checkpoint: What to load.
        device: As torch names it.
        precision: Of weights and arithmetic; none of the quantized ones.
        attention: "padded", which the transformers library has.

    Raises:
        DependencyError: Precision or attention is one that this kind has not.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        device: str,
        precision: Precision,
        attention: Attention = "padded",
    ) -> None:
        require_computed(checkpoint.kind, precision, attention)
        from transformers import AutoModelForSequenceClassification

        self._tokenizer = load_tokenizer(checkpoint)
        self._window = checkpoint.window
        self._model = load_model(AutoModelForSequenceClassification, checkpoint, device, precision)
        self._padding = int(self._tokenizer.pad_token_id)
        self._device = torch.device(device)
        self.token_budget = tokens_of_a_pass(self._device)

    def tokenize(self, query: str, texts: Sequence[str]) -> list[Pair]:
        """Makes one row of each text, the question before it."""
        query = beginning(self._tokenizer, query, self._window // 2)
        encoded = self._tokenizer(
            [query] * len(texts),
            list(texts),
            truncation="only_second",
            max_length=self._window,
            # Or a text could end itself by writing "[SEP]". XLM-R's "</s>" is a word of its
            # vocabulary besides, and stays one; it tells the model little.
            split_special_tokens=True,
        )
        types = encoded.get("token_type_ids") or [None] * len(texts)
        return [Pair(*row) for row in zip(encoded["input_ids"], types, strict=True)]

    @torch.inference_mode()
    def logits(self, batch: Sequence[Pair]) -> list[float]:
        """The relevance of each row."""
        inputs = padded(batch, self._padding)
        on_device = {name: rows.to(self._device) for name, rows in inputs.items()}
        logits: list[float] = self._model(**on_device).logits[:, 0].float().tolist()
        return logits

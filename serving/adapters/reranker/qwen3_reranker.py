"""Qwen3-Reranker: a language model is asked whether a text answers, and says yes or no.

The prompt is that of the model's authors (its model card, "Transformers Usage"). The logit is
that of "yes" less that of "no", so that its sigmoid is the softmax over the two, the
probability that they define as the score. Of the head, 151,669 rows in the real model, only
these two are needed, and of them only the difference. They are read without the rest of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from serving.adapters.reranker.checkpoint import Checkpoint
from serving.adapters.reranker.loading import load_tokenizer
from serving.adapters.reranker.pairs import beginning
from serving.domain.errors import DependencyError
from serving.models.precision import Attention, Precision
from serving.models.qwen3_architecture import Qwen3Architecture
from serving.models.qwen3_checkpoint import Probes, head_rows, load_qwen3
from serving.models.stored_tensors import StoredTensors
from serving.ports import Pair

BEFORE = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    'the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n'
    "<|im_start|>user\n"
)
AFTER = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"

BODY = "<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {text}"

INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"

PROBE = (
    "When did we sail to Goa?",
    (
        "Caroline: We sailed to Goa on 7 May 2023, and it was wonderful!",
        "The meeting was moved from Tuesday to Thursday because the room was taken. " * 20,
        "",
        "12 345 678.90 EUR -- #4711 (net), due 2026-03-01T12:00Z",
        "昨日、私たちは海へ行きました。",
    ),
)
"""A question with texts that answer it and that do not, for a quantized model to be tried on."""

LEAST_ROOM = 32
"""Tokens of question and text together, below which a window makes no sense."""


class Qwen3Reranker:
    """A `PairModel` over a causal language model.

    What exceeds the window is cut from the end of the text, never from the prompt. A question
    takes at most half of what the prompt leaves.

    Args:
        checkpoint: What to load.
        device: As torch names it.
        precision: Of weights and arithmetic, int8 and float8 of the weights alone; the two rows
            of the head are float32 in any.
        attention: "varlen" spares a batch beyond the recorded shapes its padding.

    Raises:
        DependencyError: The window is too short for the prompt, or "yes" is no single token.
        CheckpointError: It is no Qwen3, lacks tensors, or is another model when quantized.
        AttentionError: Attention cannot be computed so.
        DeviceMemoryError: It does not fit the device.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        device: str,
        precision: Precision,
        attention: Attention = "padded",
    ) -> None:
        self._tokenizer = load_tokenizer(checkpoint)
        yes, no = (self._single_token(word) for word in ("yes", "no"))
        self._before, self._after = self._tokens(BEFORE), self._tokens(AFTER)
        self._room = checkpoint.window - len(self._before) - len(self._after)
        self._most_query = (self._room - len(self._tokens(_body("", "")))) // 2
        if self._most_query < LEAST_ROOM // 2:
            raise DependencyError("reranker", "the model's window is too short for its prompt")
        config = checkpoint.config
        architecture = Qwen3Architecture.read(config)
        most = max(self._tokenizer.get_vocab().values())
        if most >= architecture.vocabulary:
            # On CUDA such a token would end the process.
            known = architecture.vocabulary
            why = f"the tokenizer has token {most}, the network has {known} of them"
            raise DependencyError("reranker", why)
        probes = Probes([pair.ids for pair in self.tokenize(*PROBE)], architecture.hidden)
        with StoredTensors(checkpoint.folder) as tensors:
            network = load_qwen3(
                tensors, architecture, checkpoint.window, torch.device(device), precision, probes
            )
            tied = bool(config.get("tie_word_embeddings"))
            self._yes_less_no = _difference(head_rows(tensors, [yes, no], tied=tied))
        self._passes = network.passes(attention)
        self.token_budget = self._passes.token_budget

    def _single_token(self, word: str) -> int:
        tokens = self._tokens(word)
        if len(tokens) != 1:
            raise DependencyError("reranker", f"the model has no token of its own for {word!r}")
        return tokens[0]

    def _tokens(self, text: str) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=False).input_ids)

    def tokenize(self, query: str, texts: Sequence[str]) -> list[Pair]:
        """Makes one prompt of each text."""
        query = beginning(self._tokenizer, query, self._most_query)
        encoded = self._tokenizer(
            [_body(query, text) for text in texts],
            add_special_tokens=False,
            truncation=True,
            max_length=self._room,
            # Or a text could write "<|im_end|>" and go on in the name of the model.
            split_special_tokens=True,
        )
        return [Pair([*self._before, *body, *self._after]) for body in encoded["input_ids"]]

    def logits(self, batch: Sequence[Pair]) -> list[float]:
        """The logit of "yes" less that of "no", after the last token of each prompt."""
        rows = self._passes.run([pair.ids for pair in batch]).cpu().numpy()
        logits: list[float] = (rows @ self._yes_less_no).tolist()
        return logits


def _difference(rows: torch.Tensor) -> NDArray[np.float32]:
    first, second = rows.numpy()
    difference: NDArray[np.float32] = first - second
    return difference


def _body(query: str, text: str) -> str:
    return BODY.format(instruction=INSTRUCTION, query=query, text=text)

"""Qwen3-Reranker: a language model that answers "yes" or "no" to whether a text is relevant.

The prompt is that of the model's authors (its model card, "Transformers Usage"). The logit is
that of "yes" minus that of "no", so its sigmoid is the softmax over the two, which the authors
define as the score. Of the head, 151,669 rows in the real model, only the difference of these two
rows is needed; the others are not read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from serving.adapters.reranker.checkpoint import RerankerCheckpoint
from serving.adapters.reranker.pair_tokenizer import Beginning, open_tokenizer
from serving.domain.errors import DependencyError
from serving.gpu.networks.precision import Precision
from serving.gpu.networks.qwen3.architecture import Qwen3Architecture
from serving.gpu.networks.qwen3.checkpoint import head_rows, load_qwen3
from serving.gpu.networks.stored_tensors import stored_tensors
from serving.ports.reranking import Pair

BEFORE = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    'the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n'
    "<|im_start|>user\n"
)
AFTER = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"

BODY = "<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {text}"

INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"

MIN_ROOM = 32
"""The least tokens of question and text together that a window must leave."""


class Qwen3Reranker:
    """A `PairModel` over a causal language model.

    Truncation removes the end of the text, never the prompt. A question takes at most half of the
    tokens that the prompt leaves. The precision is that of weights and arithmetic; the two rows of
    the head are always float32.

    Raises:
        DependencyError: The window is too short for the prompt, or "yes" is no single token.
        CheckpointError: It is no Qwen3, or lacks tensors.
        DeviceMemoryError: It does not fit the device.
    """

    def __init__(self, checkpoint: RerankerCheckpoint, device: str, precision: Precision) -> None:
        tokenizer = open_tokenizer(checkpoint.folder)
        tokenizer.encode_special_tokens = False
        self._before, self._after = _tokens(tokenizer, BEFORE), _tokens(tokenizer, AFTER)
        yes, no = (_single_token(tokenizer, word) for word in ("yes", "no"))
        room = checkpoint.window - len(self._before) - len(self._after)
        query_tokens = (room - len(_tokens(tokenizer, _body("", "")))) // 2
        if query_tokens < MIN_ROOM // 2:
            raise DependencyError("reranker", "the model's window is too short for its prompt")
        self._questions = Beginning(checkpoint.folder, query_tokens)
        self._bodies = open_tokenizer(checkpoint.folder)
        self._bodies.enable_truncation(room)
        config = checkpoint.config
        architecture = Qwen3Architecture.read(config)
        most = max(tokenizer.get_vocab().values())
        if most >= architecture.vocabulary:
            # On CUDA such a token would abort the process.
            known = architecture.vocabulary
            why = f"the tokenizer has token {most}, the network has {known} of them"
            raise DependencyError("reranker", why)
        with stored_tensors(checkpoint.folder) as tensors:
            network = load_qwen3(
                tensors, architecture, checkpoint.window, torch.device(device), precision
            )
            tied = bool(config.get("tie_word_embeddings"))
            yes_row, no_row = head_rows(tensors, [yes, no], tied=tied).numpy()
            self._yes_minus_no: NDArray[np.float32] = yes_row - no_row
        self._passes = network.passes()
        self.token_budget = self._passes.token_budget

    def tokenize(self, query: str, texts: Sequence[str]) -> list[Pair]:
        query = self._questions.of(query)
        bodies = [_body(query, text) for text in texts]
        encoded = self._bodies.encode_batch(bodies, add_special_tokens=False)
        return [Pair([*self._before, *body.ids, *self._after]) for body in encoded]

    def logits(self, batch: Sequence[Pair]) -> list[float]:
        """The logit of "yes" minus that of "no", after the last token of each prompt."""
        rows = self._passes.run([pair.ids for pair in batch]).cpu().numpy()
        logits: list[float] = (rows @ self._yes_minus_no).tolist()
        return logits


def _body(query: str, text: str) -> str:
    return BODY.format(instruction=INSTRUCTION, query=query, text=text)


def _tokens(tokenizer: Tokenizer, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False).ids)


def _single_token(tokenizer: Tokenizer, word: str) -> int:
    tokens = _tokens(tokenizer, word)
    if len(tokens) != 1:
        raise DependencyError("reranker", f"the model has no token of its own for {word!r}")
    return tokens[0]

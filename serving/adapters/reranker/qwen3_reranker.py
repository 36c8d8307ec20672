"""Qwen3-Reranker: a language model is asked whether a text answers, and says yes or no.

The prompt is that of the model's authors (its model card, "Transformers Usage"). The logit is
that of "yes" less that of "no", so that its sigmoid is the softmax over the two, the
probability that they define as the score. Of the head, 151,669 rows in the real model, only
these two are needed, and of them only the difference.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from serving.adapters.reranker.checkpoint import Checkpoint
from serving.adapters.reranker.loading import load_model, load_tokenizer
from serving.adapters.reranker.pairs import Inputs, Pair, beginning
from serving.domain.errors import DependencyError

BEFORE = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    'the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n'
    "<|im_start|>user\n"
)
AFTER = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"

BODY = "<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {text}"

INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"

LEAST_ROOM = 32
"""Tokens of question and text together, below which a window makes no sense."""


class Qwen3Reranker:
    """A `PairModel` over a causal language model.

    What exceeds the window is cut from the end of the text, never from the prompt. A question
    takes at most half of what the prompt leaves.

    Args:
        checkpoint: What to load.
        device: As torch names it.
    """

    def __init__(self, checkpoint: Checkpoint, device: str) -> None:
        from transformers import AutoModelForCausalLM

        self._tokenizer = load_tokenizer(checkpoint)
        yes, no = (self._single_token(word) for word in ("yes", "no"))
        self._before, self._after = self._tokens(BEFORE), self._tokens(AFTER)
        self._room = checkpoint.window - len(self._before) - len(self._after)
        self._most_query = (self._room - len(self._tokens(_body("", "")))) // 2
        if self._most_query < LEAST_ROOM // 2:
            raise DependencyError("reranker", "the model's window is too short for its prompt")
        model = load_model(AutoModelForCausalLM, checkpoint, device)
        head = model.get_output_embeddings().weight.detach()
        self._yes_less_no = head[yes].float() - head[no].float()
        # Without the head, which would multiply every token by its 151,669 rows.
        self._body = model.base_model
        # Masked, so any token will do.
        self.padding = 0

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

    def logits(self, inputs: Inputs) -> Tensor:
        """Float32 (n,): "yes" less "no", after the last token of each prompt."""
        hidden = self._body(**inputs, use_cache=False).last_hidden_state
        last = inputs["attention_mask"].sum(dim=1) - 1
        rows = hidden[torch.arange(len(hidden), device=hidden.device), last]
        logits: Tensor = rows.float() @ self._yes_less_no
        return logits


def _body(query: str, text: str) -> str:
    return BODY.format(instruction=INSTRUCTION, query=query, text=text)

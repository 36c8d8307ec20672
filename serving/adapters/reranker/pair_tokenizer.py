"""Tokens of a question and each text, as cross-encoders read them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer

from serving.domain.errors import DependencyError
from serving.ports.reranking import Pair


def open_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a checkpoint, in which no text can write a special token.

    Otherwise a text could contain "[SEP]" and end itself, or "<|im_end|>" and continue as the
    model. XLM-R's "</s>" is also in its ordinary vocabulary and remains a token, with little
    effect. Raises DependencyError if there is no `tokenizer.json` that can be read.
    """
    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:
        # The library raises plain exceptions.
        why = "the checkpoint has no tokenizer.json that can be read"
        raise DependencyError("reranker", why) from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = True
    return tokenizer


class Beginning:
    """Cuts texts to their first tokens, special ones not counted."""

    def __init__(self, folder: Path, tokens: int) -> None:
        self._tokenizer = open_tokenizer(folder)
        self._tokenizer.enable_truncation(tokens)

    def of(self, text: str) -> str:
        """The longest prefix of a text within the limit."""
        offsets = self._tokenizer.encode(text, add_special_tokens=False).offsets
        return text[: offsets[-1][1]] if offsets else ""


class PairTokenizer:
    """Makes pairs of a question and a text, for encoders that read both at once.

    Truncation to the window, special tokens included, removes the end of the text. A question takes
    at most half of it, so part of the text is always read. The texts of a call are tokenized by all
    cores at once, with the interpreter lock released. Raises as `open_tokenizer` does.
    """

    def __init__(self, folder: Path, window: int) -> None:
        self._questions = Beginning(folder, window // 2)
        self._pairs = open_tokenizer(folder)
        self._pairs.enable_truncation(window, strategy="only_second")

    def __call__(self, query: str, texts: Sequence[str]) -> list[Pair]:
        query = self._questions.of(query)
        encoded = self._pairs.encode_batch([(query, text) for text in texts])
        return [Pair(each.ids, each.type_ids) for each in encoded]

"""The layers and tokenizers of tiny random models: of the real ones' kinds, for a handful of words.

Pieces of words are listed, since the trainers of two kinds end otherwise in each run; pairs of
bytes are trained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

WORDS = (
    "we sailed to goa with the family and then went home when did caroline visit the adoption "
    "agency memory retrieval over many years of talk is hard but a b c 1 2 3 ! ? . , :"
)

LAYERS: Mapping[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    # With the usual 0.02 all texts nearly coincide, and no comparison could fail.
    "initializer_range": 0.2,
}
"""The configuration that all tiny models share."""

VOCABULARY = 300
"""The most tokens of each, and so what a tiny model must at least have embeddings for."""


def wordpieces() -> Tokenizer:
    """As BERT has it: words in lower case and their pieces, one text or two."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words, letters = _words_and_letters()
    pieces = [*special, *letters, *(f"##{letter}" for letter in letters), *words]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.add_special_tokens(special)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return tokenizer


def unigrams() -> Tokenizer:
    """As XLM-R has it: pieces of text by their likelihood, one text or two."""
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    words, letters = _words_and_letters()
    pieces = [*dict.fromkeys(("\u2581", *letters, *(f"\u2581{word}" for word in words)))]
    # A word is likelier as one piece than letter by letter.
    vocabulary = [(piece, 0.0) for piece in special] + [
        (piece, -4.0 - number / len(pieces)) for number, piece in enumerate(pieces)
    ]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=special.index("<unk>")))
    tokenizer.add_special_tokens(special)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    return tokenizer


def _words_and_letters() -> tuple[list[str], list[str]]:
    """The words of more than one letter, and all letters, each once and in order."""
    words = sorted({word for word in WORDS.split() if len(word) > 1})
    return words, sorted({*WORDS} - {" "})


QWEN3_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Where Qwen3 parts a text before it makes pairs, as its own tokenizer.json has it."""

END_OF_TEXT = "<|endoftext|>"
"""The first token of Qwen3's: what embedders end a text with, and what all pad with."""

END_OF_TURN = "<|im_end|>"
"""What Qwen3 calls its end of sequence, though embedders never write it."""


def byte_pairs(more_words: Sequence[str] = ()) -> Tokenizer:
    """As Qwen3 has it: pairs of bytes, and nothing around a text, as in its rerankers.

    Args:
        more_words: Trained on in addition to `WORDS`; those that are often there become one token.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN3_WORDS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END_OF_TEXT, "<|im_start|>", END_OF_TURN],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([WORDS, *more_words], trainer)
    return tokenizer


def byte_pairs_with_end() -> Tokenizer:
    """As Qwen3-Embedding has it: every text ends with `END_OF_TEXT`."""
    tokenizer = byte_pairs()
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(
                single=f"$A {END_OF_TEXT}",
                pair=f"$A {END_OF_TEXT} $B {END_OF_TEXT}",
                special_tokens=[(END_OF_TEXT, tokenizer.token_to_id(END_OF_TEXT))],
            ),
        ]
    )
    return tokenizer

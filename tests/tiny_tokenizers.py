"""The tokenizers of tiny random models: of the real ones' kinds, trained on a handful of words."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import (
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

VOCABULARY = 300
"""The most tokens of each, and so what a tiny model must at least have embeddings for."""


def wordpieces() -> Tokenizer:
    """As BERT has it: words in lower case and their pieces, one text or two."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
        show_progress=False,
    )
    tokenizer.train_from_iterator([WORDS], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return tokenizer


def unigrams() -> Tokenizer:
    """As XLM-R has it: pieces of text by their likelihood, one text or two."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=100,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        unk_token="<unk>",
        show_progress=False,
    )
    tokenizer.train_from_iterator([WORDS], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    return tokenizer


def byte_pairs(special_tokens: Sequence[str], more_words: Sequence[str] = ()) -> Tokenizer:
    """As Qwen3 has it: pairs of bytes; what goes around a text is for its model to say.

    Args:
        special_tokens: The first tokens, in this order.
        more_words: Trained on beside `WORDS`; those that are often there become one token.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[*special_tokens],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([WORDS, *more_words], trainer)
    return tokenizer

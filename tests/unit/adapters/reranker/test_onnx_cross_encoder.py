"""The published cross-encoder, with its real weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from serving.adapters.reranker import onnx_cross_encoder
from serving.adapters.reranker.onnx_cross_encoder import WINDOW, OnnxCrossEncoder
from serving.adapters.reranker.published import packaged
from serving.domain.errors import DependencyError

SEPARATOR = 102
"""The id of [SEP]."""


@pytest.fixture(scope="module")
def encoder() -> OnnxCrossEncoder:
    return OnnxCrossEncoder(packaged("minilm-l12"))


def test_answer_ranks_above_texts_with_its_words(encoder: OnnxCrossEncoder) -> None:
    pairs = encoder.tokenize(
        "When does the train to Basel leave?",
        [
            "Tom: The train to Basel was full again.",
            "Tom: It departs at ten past nine from Zurich, and reaches Basel an hour later.",
            "Mia: My bicycle has a flat tyre.",
        ],
    )
    full, departs, bicycle = encoder.score(pairs)

    assert departs > full > bicycle


def test_pair_scores_the_same_in_a_batch(encoder: OnnxCrossEncoder) -> None:
    alone, *others = encoder.tokenize("who?", ["Tom.", "Nobody knows. " * 60, "It was Mia."])

    assert encoder.score([*others, alone])[-1] == encoder.score([alone])[0]


def test_a_text_that_contains_a_separator_is_one_text(encoder: OnnxCrossEncoder) -> None:
    [pair] = encoder.tokenize("who [SEP] Tom?", ["Mia [SEP] Tom"])

    assert pair.types is not None
    assert [place for place, id_ in enumerate(pair.ids) if id_ == SEPARATOR] == [
        pair.types.index(1) - 1,
        len(pair) - 1,
    ]


def test_a_long_question_leaves_half_of_the_window_to_the_text(encoder: OnnxCrossEncoder) -> None:
    pairs = encoder.tokenize("where is it? " * 300, ["It is here. " * 300, ""])

    assert [len(pair) for pair in pairs] == [WINDOW, WINDOW // 2 + 3]
    assert sum(pairs[0].types or ()) == WINDOW // 2 - 2


def test_changed_and_missing_files_are_refused(tmp_path: Path) -> None:
    folder = packaged("minilm-l12")
    (tmp_path / "model.onnx").symlink_to(folder / "model.onnx")
    with pytest.raises(DependencyError, match=r"tokenizer\.json cannot be read"):
        OnnxCrossEncoder(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes() + b"\n")
    with pytest.raises(DependencyError, match=r"tokenizer\.json was changed"):
        OnnxCrossEncoder(tmp_path)


def test_other_logits_than_the_model_cards_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    question, texts, (high, low) = onnx_cross_encoder.EXAMPLE
    monkeypatch.setattr(onnx_cross_encoder, "EXAMPLE", (question, texts, (high, low + 0.5)))

    with pytest.raises(DependencyError, match="those of the model card"):
        OnnxCrossEncoder(packaged("minilm-l12"))

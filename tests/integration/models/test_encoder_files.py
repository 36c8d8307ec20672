"""Checkpoints on disk: what is rejected, and fingerprints."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from serving.adapters.encoder.checkpoint import EncoderCheckpoint, open_checkpoint
from serving.domain.errors import DependencyError


@pytest.fixture
def folder(tiny_bert: EncoderCheckpoint, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_bert.folder, tmp_path / "bert"))


def test_weights_with_another_hash_are_refused(folder: Path) -> None:
    with pytest.raises(DependencyError, match="expected 0000"):
        open_checkpoint(str(folder), sha256="0" * 64)


def test_a_model_that_is_not_on_the_machine_is_refused() -> None:
    with pytest.raises(DependencyError, match="not on this machine"):
        open_checkpoint("nobody/no-such-model")


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json"])
def test_a_checkpoint_that_lacks_a_file_is_refused(folder: Path, file: str) -> None:
    (folder / file).unlink()

    with pytest.raises(DependencyError, match=file.split(".")[1]):
        open_checkpoint(str(folder))


def test_the_same_files_elsewhere_have_the_same_fingerprint(
    folder: Path, tiny_bert: EncoderCheckpoint
) -> None:
    assert open_checkpoint(str(folder)).model == tiny_bert.model


def test_whatever_changes_the_vectors_changes_the_fingerprint(
    folder: Path, tiny_bert: EncoderCheckpoint
) -> None:
    smaller = open_checkpoint(str(folder), dimension=32).model.fingerprint
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 80}')
    shorter = open_checkpoint(str(folder)).model.fingerprint
    pooling = folder / "1_Pooling" / "config.json"
    pooling.write_text(pooling.read_text().replace("cls", "mean"))
    pooled = open_checkpoint(str(folder)).model.fingerprint
    prompts = folder / "config_sentence_transformers.json"
    prompts.write_text(prompts.read_text().replace("when", "who"))
    prompted = open_checkpoint(str(folder)).model.fingerprint

    known = {tiny_bert.model.fingerprint, shorter, smaller, pooled, prompted}
    assert len(known) == 5

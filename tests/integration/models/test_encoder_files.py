"""Checkpoints and exports on disk: what is rejected, what is cached, and fingerprints."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import numpy_helper

from serving.adapters.encoder.checkpoint import EncoderCheckpoint, open_checkpoint
from serving.adapters.encoder.onnx_encoder import MODEL_FILE, OnnxEncoder, export_folder
from serving.composition.gpu import export_encoder
from serving.domain.errors import DependencyError


@pytest.fixture(scope="module")
def exported(tiny_bert: EncoderCheckpoint, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the export of the tiny BERT."""
    cache_dir = tmp_path_factory.mktemp("exported")
    OnnxEncoder(tiny_bert, cache_dir, export=export_encoder)
    return cache_dir


@pytest.fixture
def cache(exported: Path, tmp_path: Path) -> Path:
    """A copy of that cache, to spoil."""
    return Path(shutil.copytree(exported, tmp_path / "cache"))


@pytest.fixture
def folder(tiny_bert: EncoderCheckpoint, tmp_path: Path) -> Path:
    """A copy of the tiny BERT, to spoil."""
    return Path(shutil.copytree(tiny_bert.folder, tmp_path / "bert"))


# ---------------------------------------------------------------- checkpoints


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


@pytest.mark.parametrize("dimension", [65, 0])
def test_more_than_the_model_has_is_refused(folder: Path, dimension: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        open_checkpoint(str(folder), dimension=dimension)


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


# ---------------------------------------------------------------- exports


def test_an_export_that_gives_other_vectors_is_refused(
    cache: Path, tiny_bert: EncoderCheckpoint
) -> None:
    path = export_folder(tiny_bert, cache) / MODEL_FILE
    graph = onnx.load(path)
    for weights in graph.graph.initializer:
        if len(weights.dims) == 2:
            changed = numpy_helper.to_array(weights)[::-1].copy()
            weights.CopyFrom(numpy_helper.from_array(changed, weights.name))
            break
    onnx.save(graph, path)

    with pytest.raises(DependencyError, match="differs from its checkpoint"):
        OnnxEncoder(tiny_bert, cache, export=export_encoder)


def test_an_export_that_cannot_be_read_is_refused(
    cache: Path, tiny_bert: EncoderCheckpoint
) -> None:
    (export_folder(tiny_bert, cache) / MODEL_FILE).write_bytes(b"not a graph")

    with pytest.raises(DependencyError, match="cannot be loaded"):
        OnnxEncoder(tiny_bert, cache, export=export_encoder)


def test_an_export_of_another_model_is_refused(cache: Path, tiny_bert: EncoderCheckpoint) -> None:
    small = open_checkpoint(str(tiny_bert.folder), dimension=16)
    shutil.copytree(export_folder(tiny_bert, cache), export_folder(small, cache))

    with pytest.raises(DependencyError, match="another model"):
        OnnxEncoder(small, cache, export=export_encoder)


def test_the_cache_holds_the_finished_export_and_no_draft(exported: Path) -> None:
    assert len(list((exported / "onnx").iterdir())) == 1


def test_an_export_that_fails_leaves_nothing_behind(folder: Path, tmp_path: Path) -> None:
    checkpoint = open_checkpoint(str(folder))
    (folder / "model.safetensors").write_bytes(b"gone bad since it was opened")

    with pytest.raises(DependencyError, match="cannot be exported"):
        OnnxEncoder(checkpoint, tmp_path / "cache", export=export_encoder)
    assert list((tmp_path / "cache" / "onnx").iterdir()) == []


def test_a_start_from_the_cache_imports_no_torch(
    exported: Path, tiny_bert: EncoderCheckpoint
) -> None:
    program = f"""
import sys
from pathlib import Path
from serving.adapters.encoder.checkpoint import open_checkpoint
from serving.adapters.encoder.onnx_encoder import OnnxEncoder
OnnxEncoder(open_checkpoint({str(tiny_bert.folder)!r}), Path({str(exported)!r}))
print(sorted({{"torch", "transformers", "onnx"}} & sys.modules.keys()))
"""
    outcome = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )

    assert outcome.stdout.strip() == "[]"

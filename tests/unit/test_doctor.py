"""What doctor says of the model is what the service will use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from serving.adapters.encoder.backend import choose_backend
from serving.adapters.encoder.checkpoint import Checkpoint, open_checkpoint
from serving.config import load_settings
from serving.deployments.doctor import examine
from serving.deployments.finding import Finding

pytestmark = pytest.mark.model


def of_model(**embedder: Any) -> Finding:
    [finding] = [
        each for each in examine(load_settings({"embedder": embedder})) if each.part == "model"
    ]
    return finding


@pytest.mark.parametrize(
    ("embedder", "how"),
    [
        ({"backend": "onnx"}, "ONNX Runtime"),
        ({"backend": "bfloat16"}, "bfloat16"),
        ({"backend": "torch"}, "torch on cpu"),
        ({"backend": "auto", "device": "cuda"}, "torch on cuda"),
    ],
)
def test_it_says_what_runs_the_model(embedder: dict[str, str], how: str) -> None:
    finding = of_model(**embedder)

    assert finding.ok
    assert finding.text.startswith("minilm through ")
    assert how in finding.text


def test_a_qwen3_is_run_lean_and_on_an_accelerator_in_bfloat16(tiny_qwen3: Checkpoint) -> None:
    model = str(tiny_qwen3.folder)

    assert of_model(model=model).text == f"{model} through the lean Qwen3 on cpu in float32"
    assert "on cuda in bfloat16" in of_model(model=model, device="cuda").text


def test_by_default_that_is_what_the_service_chooses() -> None:
    chosen = choose_backend("auto", "cpu", open_checkpoint())

    assert chosen in ("onnx", "bfloat16")
    assert of_model() == of_model(backend=chosen)


def test_a_dimension_that_the_model_does_not_have_is_found() -> None:
    finding = of_model(dimension=100_000)

    assert not finding.ok
    assert "dimension" in finding.text


@pytest.mark.parametrize("part", ["embedder", "reranker"])
def test_a_folder_that_is_not_there_is_found_and_an_id_may_still_be_fetched(part: str) -> None:
    def finding(model: str) -> Finding:
        found = examine(load_settings({part: {"model": model}}))
        name = {"embedder": "model"}.get(part, part)
        return next(each for each in found if each.part == name)

    assert finding("nobody/has-this").ok
    assert not finding("/nowhere/at/all").ok


def test_a_folder_without_a_reranker_is_found(tiny_qwen3: Checkpoint) -> None:
    settings = load_settings({"reranker": {"model": str(tiny_qwen3.folder)}})
    [finding] = [each for each in examine(settings) if each.part == "reranker"]

    assert not finding.ok
    assert "is no known reranker" in finding.text


def test_a_precision_that_the_model_does_not_have_is_found(
    tiny_qwen3: Checkpoint, tiny_bert_reranker: Path
) -> None:
    finding = of_model(precision="int8")
    assert not finding.ok
    assert finding.text == "precision int8 is for a Qwen3 alone, and this model is run by torch"
    assert "in int8" in of_model(model=str(tiny_qwen3.folder), precision="int8").text

    settings = {"model": str(tiny_bert_reranker), "precision": "float8"}
    [reranker] = [
        each for each in examine(load_settings({"reranker": settings})) if each.part == "reranker"
    ]
    assert not reranker.ok
    assert "float8 is for a Qwen3-Reranker alone" in reranker.text

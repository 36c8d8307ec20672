"""The doctor reports the model backend that the service uses."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from serving.adapters.encoder.checkpoint import EncoderCheckpoint
from serving.composition import extras
from serving.config.settings import load_settings
from serving.desk.doctor import CheckResult, Gpus, examine

pytestmark = pytest.mark.model


def found(part: str, gpus: Gpus | None = None, /, **sections: Any) -> CheckResult:
    """What the doctor says of a part, under these settings."""
    settings = load_settings(sections)
    results = examine(settings) if gpus is None else examine(settings, gpus)
    [finding] = [each for each in results if each.part == part]
    return finding


def of_model(**embedder: Any) -> CheckResult:
    return found("model", embedder=embedder)


@pytest.mark.parametrize(
    ("model", "device", "runtime"),
    [
        ("minilm", "cpu", "torch on cpu in float32"),
        ("minilm", "cuda", "torch on cuda in float32"),
        ("tiny_qwen3", "cuda", "qwen3 on cuda in bfloat16"),
    ],
)
def test_doctor_names_the_runtime_of_the_model(
    request: pytest.FixtureRequest, model: str, device: str, runtime: str
) -> None:
    checkpoint: EncoderCheckpoint = request.getfixturevalue(model)

    finding = of_model(model=str(checkpoint.folder), device=device)

    assert finding.ok
    assert finding.text == f"{checkpoint.folder} by {runtime}"


def test_a_published_model_may_still_be_fetched(tmp_path: Path) -> None:
    finding = found("model", cache_dir=tmp_path, embedder={"model": "bge-small"})

    assert finding.ok
    assert finding.text == "bge-small is not on this machine; the first start downloads 78 MB"


def test_uncalled_api_model_needs_a_readable_key(tmp_path: Path) -> None:
    api, file = {"url": "http://127.0.0.1:9/v1"}, str(tmp_path / "missing")
    there = of_model(model="m", dimension=8, api=api)
    without_key = of_model(model="m", dimension=8, api={**api, "key_file": file})

    assert there.ok
    assert there.text == "m by the API at http://127.0.0.1:9/v1, which was not asked"
    assert not without_key.ok
    assert "embedder.api.key_file" in without_key.text


@pytest.mark.parametrize("part", ["embedder", "reranker"])
def test_missing_model_folder_is_fault_unlike_hub_id(part: str) -> None:
    name = {"embedder": "model"}.get(part, part)

    assert found(name, **{part: {"model": "nobody/has-this"}}).ok
    assert not found(name, **{part: {"model": "/nowhere/at/all"}}).ok


@pytest.mark.parametrize("installed", [True, False])
def test_published_reranker_is_found_if_installed(
    installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = "json" if installed else "no_such_package"
    monkeypatch.setattr("serving.adapters.reranker.published.PACKAGE", package)
    monkeypatch.setitem(extras.EXTRAS, "rerank", (package,))

    finding = found("reranker", reranker={"model": "minilm-l12"})

    shown = "minilm-l12 by onnx" if installed else "make install-rerank"
    assert (finding.ok, shown in finding.text) == (installed, True), finding.text


@pytest.mark.parametrize(
    ("part", "section", "text"),
    [
        ("reranker", {"reranker": {}}, "is no known reranker"),
        ("model", {"embedder": {"dimension": 100_000}}, "dimension must be from 32 to"),
        (
            "model",
            {"embedder": {"precision": "int8"}},
            "precision int8 is for an ONNX graph, and this model is run by qwen3",
        ),
    ],
)
def test_setting_that_the_model_cannot_meet_is_found(
    tiny_qwen3: EncoderCheckpoint, part: str, section: dict[str, dict[str, Any]], text: str
) -> None:
    [(name, settings)] = section.items()

    finding = found(part, **{name: {"model": str(tiny_qwen3.folder), **settings}})

    assert not finding.ok
    assert text in finding.text


@pytest.mark.parametrize("runs", [True, False])
def test_port_in_use_is_a_fault_unless_the_desk_runs(
    runs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = "bolt://127.0.0.1:1" if runs else None
    monkeypatch.setattr("serving.desk.doctor.running_address", lambda _: address)
    monkeypatch.setattr("serving.desk.doctor.error_of_transaction", lambda _: None)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        finding = found("grpc_port", Gpus(), data_dir=tmp_path, serve={"grpc_port": port})

    assert finding.ok == runs
    shown = f"as a desk runs on {tmp_path}" if runs else "stop the process"
    assert f"{port} " in finding.text
    assert shown in finding.text


H200 = Gpus(driver=True, torch="2.15.0+cu132", devices=("NVIDIA H200",))


@pytest.mark.parametrize(
    ("gpus", "ok", "text"),
    [
        (Gpus(), True, "none: everything runs on the CPU"),
        (H200, True, "NVIDIA H200; torch 2.15.0+cu132"),
        (Gpus(driver=True, torch="2+cpu"), False, "a driver, but torch 2+cpu finds no device"),
        (Gpus(driver=True), True, "a driver, which nothing uses without torch; "),
    ],
)
def test_gpu_is_reported_with_its_use(gpus: Gpus, ok: bool, text: str) -> None:
    finding = found("gpu", gpus)

    assert (finding.ok, finding.text.startswith(text)) == (ok, True), finding.text


@pytest.mark.parametrize("part", ["embedder", "index", "reranker"])
def test_missing_device_of_a_part_is_a_fault(part: str) -> None:
    section = {"device": "cuda:1", **({"model": "folder"} if part == "reranker" else {})}
    text = f"{part}.device is cuda:1, and torch finds 1 CUDA devices"

    results = examine(load_settings({part: section}), H200)

    assert [each.ok for each in results if each.text.startswith(text)] == [False]

"""The doctor on machines that the tests do not run on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from serving.config.settings import load_settings
from serving.desk.doctor.check_result import CheckResult
from serving.desk.doctor.gpu import examine_gpus, fit, runs_on
from serving.desk.doctor.gpu_facts import GpuDevice, GpuFacts, driver_version
from serving.desk.doctor.index import examine_index

CUDA_13 = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")
FITTING = {"torch": "2.15.0", "cuvs-cu13": "26.10.0", "cupy-cuda13x": "14.2.0"}
H200 = GpuFacts(
    driver="580.65.06",
    devices=(GpuDevice("NVIDIA H200", (9, 0), 139.8),),
    torch_cuda="13.2",
    built_for=CUDA_13,
    versions=FITTING,
)
SPARK = replace(H200, devices=(GpuDevice("NVIDIA GB10", (12, 1), 119.7, shares_memory=True),))
NO_GPU = GpuFacts(versions={"torch": "2.15.0"})


def reported(facts: GpuFacts, **settings: Any) -> dict[str, str]:
    """The texts of passed checks, by part."""
    return {each.part: each.text for each in examined(facts, settings) if each.ok}


def faults(facts: GpuFacts, **settings: Any) -> dict[str, str]:
    return {each.part: each.text for each in examined(facts, settings) if not each.ok}


def examined(facts: GpuFacts, settings: dict[str, Any]) -> list[Any]:
    return list(examine_gpus(load_settings(settings), facts))


def of_index(facts: GpuFacts, index: dict[str, str]) -> CheckResult:
    return examine_index(load_settings({"index": index}), facts)


def test_without_a_gpu_nothing_is_wrong() -> None:
    assert faults(NO_GPU) == {}
    assert reported(NO_GPU)["gpu driver"] == "none: everything runs on the CPU"


def test_a_gpu_is_reported_with_its_architecture_and_memory() -> None:
    assert faults(H200, embedder={"device": "cuda"}) == {}
    assert reported(H200) == {
        "gpu driver": "580.65.06, torch is built for CUDA 13.2",
        "gpu 0": "NVIDIA H200, sm_90, 140 GiB",
        "cuvs-cu13": "26.10.0",
        "cupy-cuda13x": "14.2.0",
    }


def test_gpu_of_later_minor_version_runs_existing_code() -> None:
    assert faults(SPARK) == {}
    assert reported(SPARK)["gpu 0"] == "NVIDIA GB10, sm_121, 120 GiB shared with the CPU"


def test_gpu_without_torch_code_is_a_fault() -> None:
    old = replace(H200, devices=(GpuDevice("Tesla P100", (6, 0), 16),))

    assert faults(old)["gpu 0"].startswith("Tesla P100, sm_60, 16 GiB; torch has code for sm_75")


@pytest.mark.parametrize(
    ("architecture", "built", "runs"),
    [
        ("sm_90", "sm_90", True),
        ("sm_121", "sm_120", True),
        ("sm_86", "sm_89", False),
        ("sm_120", "sm_100", False),
        ("sm_120", "compute_90", True),
        ("sm_90", "compute_100", False),
        ("sm_90", "sm_90a", True),
    ],
)
def test_device_runs_code_of_its_capability(architecture: str, built: str, runs: bool) -> None:
    assert runs_on(architecture, (built,)) is runs


def test_old_driver_is_reported_with_the_needed_version() -> None:
    old = replace(H200, driver="550.54.15", devices=())

    assert faults(old)["gpu driver"] == (
        "550.54.15; torch finds no device: it is built for CUDA 13.2, which needs driver 580 or "
        "later"
    )


def test_torch_without_cuda_on_a_gpu_is_a_fault() -> None:
    plain = replace(H200, torch_cuda=None, built_for=(), devices=())

    assert faults(plain)["gpu driver"] == "580.65.06; this torch is built without CUDA"


def test_library_for_another_cuda_is_a_fault() -> None:
    mixed = replace(
        H200, versions={"torch": "2.15.0", "cuvs-cu12": "26.10.0", "cupy-cuda12x": "14.2.0"}
    )

    found = faults(mixed)

    assert found.keys() == {"cuvs-cu12", "cupy-cuda12x"}
    assert "cuvs-cu12 is for CUDA 12, torch 2.15.0 for 13.2" in found["cuvs-cu12"]


@pytest.mark.parametrize(
    ("torch", "cuvs", "fits"),
    [
        ("2.11.0", "26.6.0", True),
        ("2.11.0+cu130", "26.10.0", False),
        ("2.12.0", "26.8.0", False),
        ("2.13.0", "26.10.0", True),
        ("2.15.0", "26.6.0", True),
    ],
)
def test_a_cuvs_that_needs_a_later_torch_is_a_fault(torch: str, cuvs: str, fits: bool) -> None:
    pair = replace(H200, versions={"torch": torch, "cuvs-cu13": cuvs})

    assert ("cuvs-cu13" not in faults(pair)) is fits


CUDA_12 = {"torch": "2.13.0+cu129", "cuvs-cu12": "26.10.0", "cupy-cuda12x": "14.2.0"}


def test_image_with_torch_for_cuda_12_9_is_valid() -> None:
    image = replace(H200, driver="575.57.08", torch_cuda="12.9", versions=CUDA_12)

    assert faults(image) == {}
    said = reported(image)
    assert said["gpu driver"] == "575.57.08, torch is built for CUDA 12.9"
    assert said["cuvs-cu12"] == "26.10.0"
    assert said["cupy-cuda12x"] == "14.2.0"


def test_torch_for_older_cuda_12_does_not_fit_cuvs() -> None:
    older = replace(H200, torch_cuda="12.8", versions={**CUDA_12, "torch": "2.13.0+cu128"})

    assert faults(older) == {
        "cuvs-cu12": "26.10.0; cuvs-cu12 needs torch for CUDA 12.9, got one for 12.8: "
        "see docs/gpu.md"
    }


def test_missing_cuvs_is_reported_with_its_installation() -> None:
    assert "make install-gpu" in reported(replace(H200, versions={"torch": "2.15.0"}))["cuvs"]


def test_a_configured_device_that_does_not_exist_is_a_fault() -> None:
    asked = {
        "embedder": {"device": "cuda"},
        "reranker": {"model": "folder", "device": "cuda:1"},
    }

    assert faults(NO_GPU, **asked).keys() == {"embedder", "reranker"}
    assert faults(H200, **asked) == {
        "reranker": "reranker.device is cuda:1, and torch finds 1 CUDA devices"
    }


@pytest.mark.parametrize(
    ("index", "text"),
    [
        ({"kind": "exact"}, "every vector is read, on the CPU"),
        ({}, "inverted lists, on the CPU; few vectors are all read"),
        ({"device": "cuda", "kind": "exact"}, "every vector is read, on cuda"),
        (
            {"device": "cuda:0"},
            "inverted lists of cuVS 26.10.0, on cuda:0; few vectors are all read",
        ),
    ],
)
def test_doctor_names_the_engine_of_the_index(index: dict[str, str], text: str) -> None:
    assert of_index(H200, index) == CheckResult("index", True, text)


WITHOUT_CUVS = replace(H200, versions={"torch": "2.15.0"})


def test_an_index_on_a_gpu_without_cuvs_scans() -> None:
    on_gpu = {"device": "cuda"}
    lacking = "cuVS is not installed, `make install-gpu` installs it"

    reads = CheckResult("index", True, f"every vector is read, on cuda: {lacking}")
    fails = CheckResult("index", False, f"index.kind is ivf, and {lacking}")
    assert of_index(WITHOUT_CUVS, on_gpu) == reads
    assert of_index(WITHOUT_CUVS, on_gpu | {"kind": "ivf"}) == fails


def test_an_index_on_a_missing_device_is_a_fault() -> None:
    text = "index.device is cuda:1, and torch finds 1 CUDA devices"

    assert of_index(H200, {"device": "cuda:1"}) == CheckResult("index", False, text)


def test_shares_beyond_gpu_memory_are_a_fault() -> None:
    serve = {"placement": "gpu", "gpus": {"embedder": 0.6, "reranker": 0.4}}
    previous = {"previous": {"model": "minilm"}}

    assert (
        reported(H200, serve=serve)["gpu shares"] == "embedder 0.6, reranker 0.4; there are 1 GPUs"
    )
    assert "gpu shares" in faults(NO_GPU, serve=serve)
    assert "previous embedder 0.6" in faults(H200, serve=serve, embedder=previous)["gpu shares"]


def test_a_share_is_never_divided_among_gpus() -> None:
    assert fit([0.4, 0.4, 0.2], 1)
    assert not fit([0.6, 0.6], 1)
    assert not fit([0.6, 0.6, 0.6], 2)
    assert fit([0.5, 1, 0.5], 2)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar 5", "550.54.15"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.82.07  R", "580.82.07"),
        ("something else", ""),
    ],
)
def test_the_driver_says_its_version(text: str, version: str) -> None:
    assert driver_version(text) == version

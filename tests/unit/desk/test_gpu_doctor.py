"""The doctor on machines that the tests do not run on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from serving.config.settings import load_settings
from serving.desk import gpu_facts
from serving.desk.doctor import CheckResult, examine
from serving.desk.gpu_facts import GpuDevice, GpuFacts, gather

H200 = GpuFacts(
    driver="580.65.06",
    devices=(GpuDevice("NVIDIA H200", (9, 0), 139.8),),
    torch_cuda="13.2",
)
NO_GPU = GpuFacts()


def checked(part: str, facts: GpuFacts, **settings: Any) -> list[CheckResult]:
    return [each for each in examine(load_settings(settings), facts) if each.part == part]


@pytest.mark.parametrize(
    ("facts", "ok", "text"),
    [
        (NO_GPU, True, "none: everything runs on the CPU"),
        (
            H200,
            True,
            "NVIDIA H200 (sm_90, 140 GiB); driver 580.65.06, torch for CUDA 13.2",
        ),
        (
            replace(H200, devices=()),
            False,
            "driver 580.65.06; torch is built for CUDA 13.2 and finds no device",
        ),
        (
            replace(H200, devices=(), torch_cuda=None),
            False,
            "driver 580.65.06; torch is built without CUDA and finds no device",
        ),
        (
            GpuFacts(driver="", has_torch=False),
            True,
            "driver of unknown version; nothing uses it without torch, which `make install-models` "
            "installs",
        ),
    ],
    ids=["none", "usable", "no device", "torch for the CPU", "no torch"],
)
def test_gpu_is_reported_with_its_use(facts: GpuFacts, ok: bool, text: str) -> None:
    assert checked("gpu", facts) == [CheckResult("gpu", ok, text)]


@pytest.mark.parametrize("part", ["embedder", "index", "reranker"])
def test_missing_device_of_a_part_is_a_fault(part: str) -> None:
    section = {"device": "cuda:1", **({"model": "folder"} if part == "reranker" else {})}
    text = f"{part}.device is cuda:1, and torch finds 1 CUDA devices"

    assert CheckResult(part, False, text) in checked(part, H200, **{part: section})


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar 5", "550.54.15"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.82.07  R", "580.82.07"),
        ("something else", ""),
    ],
)
def test_driver_version_is_read_from_its_file(
    text: str, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "version"
    file.write_text(text)
    monkeypatch.setattr(gpu_facts, "DRIVER_FILE", file)
    monkeypatch.setattr(gpu_facts, "find_spec", lambda _name: None)

    assert gather() == GpuFacts(driver=version, has_torch=False)

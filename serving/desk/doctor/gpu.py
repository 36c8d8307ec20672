"""The checks of the GPU tier: driver, devices, libraries and shares."""

from __future__ import annotations

import re
from collections.abc import Iterator

from serving.config.settings import Settings
from serving.desk.doctor.check_result import CheckResult
from serving.desk.doctor.gpu_facts import GpuFacts, first_two

LEAST_DRIVER = {12: 525, 13: 580}
"""The oldest driver for each major version of CUDA."""

LIBRARIES = {"cuvs-cu12": 12, "cuvs-cu13": 13, "cupy-cuda12x": 12, "cupy-cuda13x": 13}
"""The major version of CUDA that each of them is built for."""

CUVS_OF_NEW_TORCH = (26, 8)
NEW_TORCH = (2, 13)
"""This cuVS and later versions need this torch or a later one: older ones pin another nvJitLink."""

CUDA_OF_CUVS_12 = (12, 9)
"""cuVS for CUDA 12 needs nvJitLink 12.9 since 26.4; torch for an older CUDA pins an older one."""


def examine_gpus(settings: Settings, facts: GpuFacts) -> Iterator[CheckResult]:
    """Checks what the machine has for the GPU tier, and whether the settings fit it."""
    yield _driver(facts)
    yield from _devices(facts)
    yield from _libraries(facts)
    yield from _asked_devices(settings, facts)
    yield from _shares(settings, facts)


def _driver(facts: GpuFacts) -> CheckResult:
    if facts.driver is None:
        return CheckResult("gpu driver", True, "none: everything runs on the CPU")
    version = facts.driver or "version unknown"
    if facts.devices:
        return CheckResult(
            "gpu driver", True, f"{version}, torch is built for CUDA {facts.torch_cuda}"
        )
    if "torch" not in facts.versions:
        text = f"{version}; nothing uses it without torch, which `make install-models` installs"
        return CheckResult("gpu driver", True, text)
    if facts.cuda_major is None:
        why = "this torch is built without CUDA"
    else:
        least = LEAST_DRIVER.get(facts.cuda_major)
        needs = f", which needs driver {least} or later" if least else ""
        why = f"torch finds no device: it is built for CUDA {facts.torch_cuda}{needs}"
    return CheckResult("gpu driver", False, f"{version}; {why}")


def _devices(facts: GpuFacts) -> Iterator[CheckResult]:
    for number, device in enumerate(facts.devices):
        ok = runs_on(device.architecture, facts.built_for)
        shared = " shared with the CPU" if device.shares_memory else ""
        text = f"{device.name}, {device.architecture}, {device.memory_gib:.0f} GiB{shared}"
        lacking = "" if ok else f"; torch has code for {', '.join(facts.built_for)}"
        yield CheckResult(f"gpu {number}", ok, text + lacking)


def runs_on(architecture: str, built_for: tuple[str, ...]) -> bool:
    """Whether a device can run code that was built for these architectures.

    Machine code ("sm_90") runs on devices of the same major version with an equal or later minor
    version. Code that the driver compiles ("compute_90") runs on all later devices.
    """
    device = _numbers(architecture)
    for built in built_for:
        its = _numbers(built)
        if its <= device and (its[0] == device[0] or built.startswith("compute_")):
            return True
    return False


def _numbers(architecture: str) -> tuple[int, int]:
    """(12, 1) for "sm_121"; a trailing letter is ignored."""
    [(major, minor)] = re.findall(r"_(\d+)(\d)", architecture)
    return int(major), int(minor)


def _libraries(facts: GpuFacts) -> Iterator[CheckResult]:
    """The packages of the GPU tier, each with its incompatibility if there is one."""
    for name, major in LIBRARIES.items():
        if name in facts.versions:
            misfit = _misfit(name, major, facts)
            text = facts.versions[name] + (f"; {misfit}" if misfit else "")
            yield CheckResult(name, not misfit, text)
    if facts.devices and not any(name.startswith("cuvs") for name in facts.versions):
        text = (
            "not installed: an index on the GPU reads every vector; `make install-gpu` installs it"
        )
        yield CheckResult("cuvs", True, text)


def cuvs_of(facts: GpuFacts) -> tuple[str, str]:
    """The cuVS that builds lists, with its version, and why it cannot; "" if not applicable."""
    for name, major in LIBRARIES.items():
        if name.startswith("cuvs") and name in facts.versions:
            return f"cuVS {facts.versions[name]}", _misfit(name, major, facts)
    return "", "cuVS is not installed, `make install-gpu` installs it"


def _misfit(name: str, major: int, facts: GpuFacts) -> str:
    """Why a package is incompatible with this torch; "" if it is compatible."""
    if facts.cuda_major not in (None, major):
        return (
            f"{name} is for CUDA {major}, torch {facts.versions.get('torch')} for "
            f"{facts.torch_cuda}: use separate environments, see docs/gpu.md"
        )
    new_cuvs = name == "cuvs-cu13" and facts.version(name) >= CUVS_OF_NEW_TORCH
    if new_cuvs and facts.version("torch") < NEW_TORCH:
        return f"{name} needs torch 2.13 or later, got {facts.versions['torch']}; cuVS 26.6 fits it"
    if name == "cuvs-cu12" and first_two(facts.torch_cuda or "12.9") < CUDA_OF_CUVS_12:
        return f"{name} needs torch for CUDA 12.9, got one for {facts.torch_cuda}: see docs/gpu.md"
    return ""


def _asked_devices(settings: Settings, facts: GpuFacts) -> Iterator[CheckResult]:
    """The devices in the settings that do not exist."""
    named = {"embedder": settings.embedder.device}
    if settings.reranker.model is not None:
        named["reranker"] = settings.reranker.device
    for part, device in named.items():
        if missing := missing_device(part, device, facts):
            yield CheckResult(part, False, missing)


def missing_device(part: str, device: str, facts: GpuFacts) -> str:
    """The error about the device of a part; "" if the device exists."""
    kind, _, number = device.partition(":")
    if kind == "cuda" and int(number or 0) >= len(facts.devices):
        return f"{part}.device is {device}, and torch finds {len(facts.devices)} CUDA devices"
    return ""


def _shares(settings: Settings, facts: GpuFacts) -> Iterator[CheckResult]:
    """Whether the GPUs have room for one replica of each deployment."""
    gpus = settings.serve.gpus
    shares = {name: share for name, share in gpus.model_dump().items() if share}
    if settings.embedder.previous is not None and gpus.embedder:
        shares["previous embedder"] = gpus.embedder
    if settings.embedder.previous is not None and gpus.index:
        shares["previous index"] = gpus.index
    if shares:
        asked = ", ".join(f"{name} {share:g}" for name, share in shares.items())
        there = len(facts.devices)
        yield CheckResult(
            "gpu shares", fit(list(shares.values()), there), f"{asked}; there are {there} GPUs"
        )


def fit(shares: list[float], gpus: int) -> bool:
    """Whether shares fit on this number of GPUs, each on one of them, placed largest first."""
    left = [1.0] * gpus
    for share in sorted(shares, reverse=True):
        places = [number for number, free in enumerate(left) if free >= share - ROUNDING]
        if not places:
            return False
        fullest = min(places, key=left.__getitem__)
        left[fullest] -= share
    return True


ROUNDING = 1e-9

"""What the doctor makes of the GPU tier: what is there, what does not fit, what is lacking."""

from __future__ import annotations

import re
from collections.abc import Iterator

from serving.config import Settings
from serving.deployments.finding import Finding
from serving.deployments.gpu_facts import GpuFacts, Version

LEAST_DRIVER = {12: 525, 13: 580}
"""The oldest driver for each major version of CUDA."""

LIBRARIES = {"cuvs-cu12": 12, "cuvs-cu13": 13, "cupy-cuda12x": 12, "cupy-cuda13x": 13}
"""The major version of CUDA that each of them is built for."""

CUVS_OF_NEW_TORCH = (26, 8)
NEW_TORCH = (2, 13)
"""From that cuVS on it is for that torch or a later one: before, both pin another nvJitLink."""


def examine_gpus(settings: Settings, facts: GpuFacts) -> Iterator[Finding]:
    """Says what there is for the GPU tier, what does not fit, and what is asked for in vain."""
    yield _driver(facts)
    yield from _devices(facts)
    yield from _libraries(facts)
    yield from _asked_devices(settings, facts)
    yield from _shares(settings, facts)


def _driver(facts: GpuFacts) -> Finding:
    if facts.driver is None:
        return Finding("gpu driver", True, "none: everything runs on the CPU")
    version = facts.driver or "version unknown"
    if facts.devices:
        return Finding("gpu driver", True, f"{version}, torch is built for CUDA {facts.torch_cuda}")
    if facts.cuda_major is None:
        why = "this torch is built without CUDA"
    else:
        least = LEAST_DRIVER.get(facts.cuda_major)
        needs = f", which needs driver {least} or later" if least else ""
        why = f"torch finds no device: it is built for CUDA {facts.torch_cuda}{needs}"
    return Finding("gpu driver", False, f"{version}; {why}")


def _devices(facts: GpuFacts) -> Iterator[Finding]:
    for number, device in enumerate(facts.devices):
        ok = runs_on(device.architecture, facts.built_for)
        shared = " shared with the CPU" if device.shares_memory else ""
        text = f"{device.name}, {device.architecture}, {device.memory_gib:.0f} GiB{shared}"
        lacking = "" if ok else f"; torch has code for {', '.join(facts.built_for)}"
        yield Finding(f"gpu {number}", ok, text + lacking)


def runs_on(architecture: str, built_for: tuple[str, ...]) -> bool:
    """Whether a device can run what was built for these architectures.

    Machine code ("sm_90") runs on its own major version from its minor version on, and code for
    the driver to compile ("compute_90") on all that are later.
    """
    device = _numbers(architecture)
    for built in built_for:
        its = _numbers(built)
        if its <= device and (its[0] == device[0] or built.startswith("compute_")):
            return True
    return False


def _numbers(architecture: str) -> tuple[int, int]:
    """(12, 1) of "sm_121"; a letter at the end is of no account here."""
    [(major, minor)] = re.findall(r"_(\d+)(\d)", architecture)
    return int(major), int(minor)


def _libraries(facts: GpuFacts) -> Iterator[Finding]:
    """The packages of the tier, each with what does not fit about it."""
    for name, major in LIBRARIES.items():
        if name in facts.versions:
            misfit = _misfit(name, major, facts)
            text = facts.versions[name] + (f"; {misfit}" if misfit else "")
            yield Finding(name, not misfit, text)
    if facts.devices and not any(name.startswith("cuvs") for name in facts.versions):
        text = (
            "not installed: an index on the GPU reads every vector; `make install-gpu` installs it"
        )
        yield Finding("cuvs", True, text)
    yield Finding("faiss", True, facts.versions.get("faiss-cpu", "not installed"))


def cuvs_of(facts: GpuFacts) -> tuple[str, str]:
    """The cuVS that makes lists, with its version, and why it cannot; "" for either."""
    for name, major in LIBRARIES.items():
        if name.startswith("cuvs") and name in facts.versions:
            return f"cuVS {facts.versions[name]}", _misfit(name, major, facts)
    return "", "cuVS is not installed, `make install-gpu` installs it"


def _misfit(name: str, major: int, facts: GpuFacts) -> str:
    """What is wrong about a package beside this torch; "" if nothing is."""
    if facts.cuda_major not in (None, major):
        return (
            f"it is for CUDA {major}, torch {facts.versions.get('torch')} for "
            f"{facts.torch_cuda}: they need environments of their own, see docs/gpu.md"
        )
    if name.startswith("cuvs") and facts.version(name) not in _known_cuvs():
        known = " and ".join(".".join(map(str, each)) for each in _known_cuvs())
        return f"the index knows {known}, see docs/gpu.md"
    new_cuvs = name == "cuvs-cu13" and facts.version(name) >= CUVS_OF_NEW_TORCH
    if new_cuvs and facts.version("torch") < NEW_TORCH:
        return f"it needs torch 2.13 or later, this is {facts.versions['torch']}; 26.6 fits it"
    return ""


def _known_cuvs() -> tuple[Version, ...]:
    # Here, since it loads torch, which only a machine with cuVS need wait for.
    from serving.adapters.vector_index.cuvs_c import KNOWN_VERSIONS

    return KNOWN_VERSIONS


def _asked_devices(settings: Settings, facts: GpuFacts) -> Iterator[Finding]:
    """The devices that the settings name and that are not there."""
    named = {"embedder": settings.embedder.device}
    if settings.reranker.model is not None:
        named["reranker"] = settings.reranker.device
    for part, device in named.items():
        if missing := missing_device(part, device, facts):
            yield Finding(part, False, missing)


def missing_device(part: str, device: str, facts: GpuFacts) -> str:
    """What is wrong about the device that a part is to use; "" if it is there."""
    kind, _, number = device.partition(":")
    if kind == "cuda" and int(number or 0) >= len(facts.devices):
        return f"{part}.device is {device}, and torch finds {len(facts.devices)} CUDA devices"
    return ""


def _shares(settings: Settings, facts: GpuFacts) -> Iterator[Finding]:
    """Whether one replica of each deployment finds its share of a GPU."""
    gpus = settings.serve.gpus
    shares = {name: share for name, share in gpus.model_dump().items() if share}
    if settings.embedder.previous is not None and gpus.embedder:
        shares["previous embedder"] = gpus.embedder
    if settings.embedder.previous is not None and gpus.index:
        shares["previous index"] = gpus.index
    if shares:
        asked = ", ".join(f"{name} {share:g}" for name, share in shares.items())
        there = len(facts.devices)
        yield Finding(
            "gpu shares", fit(list(shares.values()), there), f"{asked}; there are {there} GPUs"
        )


def fit(shares: list[float], gpus: int) -> bool:
    """Whether shares fit so many GPUs, each on one of them, the largest placed first."""
    left = [1.0] * gpus
    for share in sorted(shares, reverse=True):
        places = [number for number, free in enumerate(left) if free >= share - ROUNDING]
        if not places:
            return False
        fullest = min(places, key=left.__getitem__)
        left[fullest] -= share
    return True


ROUNDING = 1e-9

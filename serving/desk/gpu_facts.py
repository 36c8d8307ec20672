"""Facts about the GPUs of a machine: devices, driver and packages."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

DRIVER_FILE = Path("/proc/driver/nvidia/version")
DRIVER_DEVICES = (Path("/dev/nvidiactl"), Path("/dev/dxg"))
"""Device files that exist if a driver is loaded: on Linux, and on WSL."""

PACKAGES = ("torch", "cuvs-cu12", "cuvs-cu13", "cupy-cuda12x", "cupy-cuda13x")

GIB = 2**30


@dataclass(frozen=True, slots=True)
class GpuDevice:
    """A CUDA device; `capability` is its compute capability, (12, 1) for sm_121."""

    name: str
    capability: tuple[int, int]
    memory_gib: float

    @property
    def architecture(self) -> str:
        """Its architecture in the notation of compilers."""
        return "sm_" + "".join(map(str, self.capability))


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFacts:
    """The facts that were found.

    Attributes:
        driver: The version of the NVIDIA driver, "" if unknown; None without a driver.
        devices: The devices that torch can see.
        torch_cuda: The CUDA version that torch was built for; None for a CPU build.
        versions: The versions of the installed packages.
    """

    driver: str | None = None
    devices: tuple[GpuDevice, ...] = ()
    torch_cuda: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)


def gather() -> GpuFacts:
    """Inspects this machine; loads torch, which takes seconds, only if there is a driver."""
    versions = dict(_installed())
    driver = _driver()
    if driver is None or "torch" not in versions:
        return GpuFacts(driver=driver, versions=versions)
    import torch

    return GpuFacts(
        driver=driver,
        devices=tuple(_device(number) for number in range(torch.cuda.device_count())),
        torch_cuda=torch.version.cuda,
        versions=versions,
    )


def _installed() -> list[tuple[str, str]]:
    found = []
    for name in PACKAGES:
        try:
            found.append((name, importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _driver() -> str | None:
    if DRIVER_FILE.is_file():
        return driver_version(DRIVER_FILE.read_text())
    return "" if any(path.exists() for path in DRIVER_DEVICES) else None


def driver_version(text: str) -> str:
    """The version in the version file of the driver; "" if there is none."""
    found = re.search(r"\b\d{3}\.\d+(\.\d+)?\b", text)
    return found[0] if found else ""


def _device(number: int) -> GpuDevice:
    import torch

    its = torch.cuda.get_device_properties(number)
    return GpuDevice(
        name=its.name,
        capability=(its.major, its.minor),
        memory_gib=its.total_memory / GIB,
    )

"""Facts about the GPUs of a machine: its devices and their driver."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

DRIVER_FILE = Path("/proc/driver/nvidia/version")
DRIVER_DEVICES = (Path("/dev/nvidiactl"), Path("/dev/dxg"))
"""Device files that exist if a driver is loaded: on Linux, and on WSL."""

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
        has_torch: Whether torch is installed.
        torch_cuda: The CUDA version that torch was built for; None for a CPU build.
    """

    driver: str | None = None
    devices: tuple[GpuDevice, ...] = ()
    has_torch: bool = True
    torch_cuda: str | None = None


def gather() -> GpuFacts:
    """Inspects this machine; loads torch, which takes seconds, only if there is a driver."""
    driver = _driver()
    if driver is None or find_spec("torch") is None:
        return GpuFacts(driver=driver, has_torch=False)
    import torch

    return GpuFacts(
        driver=driver,
        devices=tuple(_device(number) for number in range(torch.cuda.device_count())),
        torch_cuda=torch.version.cuda,
    )


def _driver() -> str | None:
    if DRIVER_FILE.is_file():
        found = re.search(r"\b\d{3}\.\d+(\.\d+)?\b", DRIVER_FILE.read_text())
        return found[0] if found else ""
    return "" if any(path.exists() for path in DRIVER_DEVICES) else None


def _device(number: int) -> GpuDevice:
    import torch

    its = torch.cuda.get_device_properties(number)
    return GpuDevice(
        name=its.name,
        capability=(its.major, its.minor),
        memory_gib=its.total_memory / GIB,
    )

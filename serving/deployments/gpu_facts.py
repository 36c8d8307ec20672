"""What a machine has for the GPU tier: devices, driver, and the packages that use them."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

Version = tuple[int, ...]
"""Such as (26, 10): what is after the second number decides nothing here."""

DRIVER_FILE = Path("/proc/driver/nvidia/version")
DRIVER_DEVICES = (Path("/dev/nvidiactl"), Path("/dev/dxg"))
"""What there is where a driver is: on Linux, and on Linux within Windows."""

PACKAGES = (
    "torch",
    "cuvs-cu12",
    "cuvs-cu13",
    "cupy-cuda12x",
    "cupy-cuda13x",
    "faiss-cpu",
)

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Device:
    """A CUDA device.

    `capability` is that of its code, (12, 1) for sm_121. `shares_memory` if its memory is that
    of the CPU too.
    """

    name: str
    capability: Version
    memory_gib: float
    shares_memory: bool = False

    @property
    def architecture(self) -> str:
        """As compilers name it."""
        return "sm_" + "".join(map(str, self.capability))


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFacts:
    """What was found.

    Attributes:
        driver: The version of NVIDIA's driver, "" if it does not say; None if there is none.
        devices: Those that torch can see.
        torch_cuda: The CUDA that torch was built for; None for a torch without.
        built_for: The architectures that torch has code for, such as "sm_90".
        versions: Of the packages that are installed.
    """

    driver: str | None = None
    devices: tuple[Device, ...] = ()
    torch_cuda: str | None = None
    built_for: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)

    def version(self, package: str) -> Version:
        """The first two numbers of a package's version; none if it is not installed."""
        return first_two(self.versions.get(package, ""))

    @property
    def cuda_major(self) -> int | None:
        """That of torch."""
        return None if self.torch_cuda is None else first_two(self.torch_cuda)[0]


def first_two(version: str) -> Version:
    """The first two numbers of a version: (26, 10) of "26.10.0"."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


def gather() -> GpuFacts:
    """Looks at this machine; loads torch, which takes seconds, only where there is a driver."""
    versions = dict(_installed())
    driver = _driver()
    if driver is None:
        return GpuFacts(versions=versions)
    import torch

    return GpuFacts(
        driver=driver,
        devices=tuple(_device(number) for number in range(torch.cuda.device_count())),
        torch_cuda=torch.version.cuda,
        built_for=tuple(torch.cuda.get_arch_list()),
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
    """The version in what the driver says of itself; "" if there is none."""
    found = re.search(r"\b\d{3}\.\d+(\.\d+)?\b", text)
    return found[0] if found else ""


def _device(number: int) -> Device:
    import torch

    its = torch.cuda.get_device_properties(number)
    return Device(
        name=its.name,
        capability=(its.major, its.minor),
        memory_gib=its.total_memory / GIB,
        shares_memory=bool(getattr(its, "is_integrated", False)),
    )

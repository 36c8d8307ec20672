"""The device that is measured: whether it is there, what it is, and how fast."""

from __future__ import annotations

from collections.abc import Mapping

import click
import torch

from bench.gpu.floors import Speed, measure_speed
from bench.results import Json
from serving.deployments.gpu_facts import gather
from serving.models.precision import Precision

SIDE = {"cuda": 8192, "cpu": 512}
"""Of the matrices that a device's speed is measured with."""


def require_device(device: str) -> None:
    """Ends the command, in words, if there is no such device."""
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise click.ClickException("there is no CUDA device: `python -m serving doctor` says why")


def speed_of(device: torch.device, precision: Precision) -> Speed:
    """Measures how fast it reads and multiplies."""
    return measure_speed(device, precision, SIDE.get(device.type, SIDE["cuda"]))


def about_device(device: torch.device, speed: Speed) -> dict[str, Json]:
    """The device, the driver and the libraries, as each result names them."""
    facts = gather()
    number = device.index or 0
    found = facts.devices[number] if device.type == "cuda" else None
    about: Mapping[str, Json] = {
        "name": found.name if found else "cpu",
        "architecture": found.architecture if found else "",
        "memory_gib": round(found.memory_gib, 1) if found else None,
        "driver": facts.driver,
        "cuda": facts.torch_cuda,
        "bytes_per_s": round(speed.bytes_per_s),
        "operations_per_s": round(speed.operations_per_s),
        "libraries": dict(facts.versions),
    }
    return {"device": about}

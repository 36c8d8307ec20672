"""The device that is measured: its presence, properties and speed."""

from __future__ import annotations

import click
import torch

from bench.gpu.networks.floors import Speed, measure_speed
from bench.harness.results import Json
from bench.reports import environment
from serving.gpu.networks.precision import Precision

SIDE = {"cuda": 8192, "cpu": 512}
"""Of the matrices that a device's speed is measured with."""


def require_device(device: str) -> None:
    """Ends the command with a message if there is no such device."""
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise click.ClickException("there is no CUDA device: `python -m serving doctor` says why")


def speed_of(device: torch.device, precision: Precision) -> Speed:
    """Measures the speed of reading and of multiplying."""
    return measure_speed(device, precision, SIDE.get(device.type, SIDE["cuda"]))


def about_device(device: torch.device, speed: Speed) -> dict[str, Json]:
    """The device with its measured speed, as each result names it."""
    speeds: dict[str, Json] = {
        "bytes_per_s": round(speed.bytes_per_s),
        "operations_per_s": round(speed.operations_per_s),
    }
    return {"device": environment.about_device(str(device)) | speeds}

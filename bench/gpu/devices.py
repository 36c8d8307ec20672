"""The option that names the device of a benchmark."""

from __future__ import annotations

import click


def _existing(_: click.Context, __: click.Parameter, device: str) -> str:
    # Not above: processes that only ask import the module of a command too.
    import torch

    if device.startswith("cuda") and not torch.cuda.is_available():
        raise click.BadParameter("torch finds no CUDA device; DRY=1 runs the scripts on the CPU")
    return device


device_option = click.option(
    "--device", default="cuda", show_default=True, callback=_existing, help="As torch names it."
)

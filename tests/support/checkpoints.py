"""Changes to the files of a checkpoint, most of which spoil it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from safetensors.torch import load_file, save_file
from torch import Tensor

WEIGHTS = "model.safetensors"
Spoil: TypeAlias = Callable[[Path], None]


def rewrite(path: Path, **changes: object) -> None:
    """Changes fields of a JSON file."""
    written: dict[str, Any] = json.loads(path.read_text())
    path.write_text(json.dumps({**written, **changes}))


def rewriting(name: str, **changes: object) -> Spoil:
    """Changes fields of a JSON file of the folder."""
    return lambda folder: rewrite(folder / name, **changes)


def config(**changes: object) -> Spoil:
    """Changes fields of `config.json`."""
    return rewriting("config.json", **changes)


def with_weights(
    folder: Path, changed: Callable[[str, Tensor], Tensor | None], **more: Tensor
) -> None:
    """Rewrites each tensor with `changed`, where None removes it, and adds `more`."""
    rows = {name: changed(name, row) for name, row in load_file(folder / WEIGHTS).items()}
    kept = {name: row.contiguous() for name, row in (rows | more).items() if row is not None}
    save_file(kept, folder / WEIGHTS, metadata={"format": "pt"})


def lacking(name: str) -> Spoil:
    """Removes the tensors of a name, or of a beginning of it."""
    return lambda folder: with_weights(
        folder, lambda each, row: None if each.startswith(name) else row
    )


def with_garbage_for_weights(folder: Path) -> None:
    (folder / WEIGHTS).write_bytes(b"no tensors")

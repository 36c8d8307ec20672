"""Reads the tensors of a folder's safetensors files by name, one at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from serving.gpu.networks.errors import CheckpointError


@dataclass(frozen=True, slots=True)
class StoredTensors:
    """All tensors of one checkpoint, over all of its files; only those that are read are copied."""

    _file_of: dict[str, Any]

    @property
    def names(self) -> Collection[str]:
        return self._file_of.keys()

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor, without reading it."""
        return tuple(self._file_of[name].get_slice(name).get_shape())

    def read(self, name: str) -> Tensor:
        """A tensor on the host, in its stored precision."""
        tensor: Tensor = self._file_of[name].get_tensor(name)
        return tensor

    def rows(self, name: str, numbers: Sequence[int]) -> Tensor:
        """Some rows of a matrix: float32 (len(numbers), columns), on the host."""
        matrix = self._file_of[name].get_slice(name)
        return torch.cat([matrix[number : number + 1] for number in numbers]).float()


@contextmanager
def stored_tensors(folder: Path) -> Iterator[StoredTensors]:
    """Opens the files of a checkpoint, which are memory-mapped until the end of the block.

    Raises CheckpointError if there are none, one cannot be read, or two hold the same tensor.
    """
    file_of: dict[str, Any] = {}
    with ExitStack() as open_files:
        for path in sorted(folder.glob("*.safetensors")):
            try:
                file = open_files.enter_context(safe_open(path, framework="pt", device="cpu"))
            except (SafetensorError, OSError) as error:
                why = f"{path.name} cannot be read ({type(error).__name__})"
                raise CheckpointError(why) from error
            for name in file.keys():  # noqa: SIM118 - the file is not a mapping
                if name in file_of:
                    raise CheckpointError(f"{path.name} has tensor {name!r}, as another file has")
                file_of[name] = file
        if not file_of:
            raise CheckpointError("the checkpoint has no safetensors")
        yield StoredTensors(file_of)

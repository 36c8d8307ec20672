"""Reads the tensors of a folder's safetensors files by name, one at a time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from serving.gpu.networks.errors import CheckpointError


class StoredTensors:
    """All tensors of one checkpoint, over all of its files.

    A context manager. The files are memory-mapped while it is open; only tensors that are read are
    copied. Raises CheckpointError if there are no files, one cannot be read, or two hold the same
    tensor.
    """

    def __init__(self, folder: Path) -> None:
        self._open_files = ExitStack()
        self._file_of: dict[str, Any] = {}
        paths = sorted(folder.glob("*.safetensors"))
        if not paths:
            raise CheckpointError("the checkpoint has no safetensors")
        with ExitStack() as undo:
            undo.callback(self.close)
            for path in paths:
                self._add(path)
            undo.pop_all()

    def _add(self, path: Path) -> None:
        try:
            file = self._open_files.enter_context(safe_open(path, framework="pt", device="cpu"))
        except (SafetensorError, OSError) as error:
            why = f"{path.name} cannot be read ({type(error).__name__})"
            raise CheckpointError(why) from error
        for name in file.keys():  # noqa: SIM118 - the file is not a mapping
            if name in self._file_of:
                raise CheckpointError(f"{path.name} has tensor {name!r}, as another file has")
            self._file_of[name] = file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._file_of.clear()
        self._open_files.close()

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

"""How `CuvsLibrary` starts, over fakes of cuVS and RMM."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch

from serving.adapters.vector_index.lists.inverted_lists import ListsError
from serving.gpu.cuvs_lists import CuvsLibrary


class NoPools:
    """RMM with a driver that has no pools of memory."""

    def __init__(self) -> None:
        raise RuntimeError("operation not supported\nat: async.hpp:71")


def module(name: str, **values: object) -> ModuleType:
    made = ModuleType(name)
    made.__dict__.update(values)
    return made


def test_failure_of_rmm_leaves_the_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = SimpleNamespace(CudaAsyncMemoryResource=NoPools)
    common = module("cuvs.common", Resources=object)
    fakes = {"rmm": module("rmm", mr=memory), "cuvs": module("cuvs"), "cuvs.common": common}
    for name, fake in fakes.items():
        monkeypatch.setitem(sys.modules, name, fake)

    with pytest.raises(ListsError, match=r"^cuVS cannot use cuda:0: [^\n]+$"):
        CuvsLibrary(torch.device("cuda:0"))

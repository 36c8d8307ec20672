"""cuVS without a GPU: the adapter over a fake of the library, whose complaints fail the test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from serving.adapters.vector_index.cuvs_c import Cuvs
from serving.adapters.vector_index.cuvs_lane import Streams
from serving.adapters.vector_index.cuvs_lists import CuvsLibrary
from tests.fake_cuvs import FakeCuvs, HostStream

HOST = torch.device("cpu")
HOST_STREAMS = Streams(HostStream(), HostStream())


@pytest.fixture
def fake_cuvs() -> Iterator[FakeCuvs]:
    """The library; nothing was wrong with how it was called."""
    fake = FakeCuvs()
    yield fake
    assert fake.faults == []


@pytest.fixture(scope="session")
def lasting_cuvs() -> Iterator[CuvsLibrary]:
    """One for a whole suite, as a process has it; nothing was wrong with how it was called."""
    fake = FakeCuvs()
    library = CuvsLibrary(HOST, cuvs=Cuvs(fake), streams=HOST_STREAMS)
    yield library
    library.close()
    assert fake.faults == []


@pytest.fixture
def cuvs(fake_cuvs: FakeCuvs) -> Iterator[CuvsLibrary]:
    """What makes lists of it."""
    library = CuvsLibrary(HOST, cuvs=Cuvs(fake_cuvs), streams=HOST_STREAMS)
    yield library
    library.close()

"""A fake service, and clients of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.unit.client.fake_service import FakeService, running
from trivium import AsyncClient, Client


@pytest.fixture
def fake_service() -> Iterator[FakeService]:
    with running(FakeService()) as service:
        yield service


@pytest.fixture
def client(fake_service: FakeService) -> Iterator[Client]:
    with Client(fake_service.address, tenant="acme", timeout=10) as client:
        yield client


@pytest.fixture
async def async_client(fake_service: FakeService) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(fake_service.address, tenant="acme", timeout=10) as client:
        yield client

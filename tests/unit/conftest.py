"""What no unit test reads: the settings of whoever runs it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def no_settings_of_the_caller() -> Iterator[None]:
    """Unsets the variables of the service, and so of the clients."""
    given = [name for name in os.environ if name.startswith("TRIVIUM_")]  # noqa: TID251 - to unset
    with pytest.MonkeyPatch.context() as patch:
        for name in given:
            patch.delenv(name)
        yield

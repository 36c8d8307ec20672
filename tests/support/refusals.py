"""What a request is refused for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from serving.domain.errors import InvalidRequestError


@contextmanager
def refused_for(*fields: str) -> Iterator[None]:
    """Expects a refusal that names these fields and no other."""
    with pytest.raises(InvalidRequestError) as refused:
        yield
    assert [violation.field for violation in refused.value.violations] == list(fields)

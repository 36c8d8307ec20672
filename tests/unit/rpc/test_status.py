from __future__ import annotations

import pytest

from serving.domain import errors
from trivium.v1.error_reason_pb2 import ErrorReason

ERRORS = [
    each
    for each in vars(errors).values()
    if isinstance(each, type) and issubclass(each, errors.TriviumError)
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_reason_of_each_error_is_published(error: type[errors.TriviumError]) -> None:
    assert ErrorReason.Value(f"ERROR_REASON_{error.reason}") > 0

from __future__ import annotations

import pickle

import pytest

from serving.domain import errors

SAMPLES: dict[type[errors.TriviumError], errors.TriviumError] = {
    type(error): error
    for error in (
        errors.InvalidRequestError([errors.Violation("query", "must not be blank")]),
        errors.UnauthenticatedError("the key is not valid"),
        errors.PermissionDeniedError("the credentials are for another tenant"),
        errors.TextSearchConfigConflictError("acme", "english", "german"),
        errors.ItemNotFoundError("segment", "t1"),
        errors.VersionConflictError("segment", "t1", 3),
        errors.ChangesGoneError("it is of another database"),
        errors.StartingError(),
        errors.StoreUnavailableError("refused"),
        errors.DependencyError("graph", "refused"),
        errors.NotReadyError("index", "starting"),
        errors.BreakerOpenError("graph", "not asked"),
        errors.DeviceLostError("index", "the device was lost"),
        errors.AllLegsFailedError({"graph": "refused"}),
        errors.RequiredLegsError({"graph": "timed out"}),
        errors.UnsoundVectorError("in float16"),
        errors.OverloadedError("the encoder's queue", 0.2),
        errors.RateLimitedError("the tenant's rate of 3 calls per second", 0.2),
        errors.BudgetExhaustedError("reading"),
        errors.TooSlowError(0.025, 0.012),
    )
}
ABSTRACT = {errors.UnavailableError, errors.LegsError, errors.RejectedCallerError}


def every_class(base: type[errors.TriviumError]) -> set[type[errors.TriviumError]]:
    return {base}.union(*(every_class(kind) for kind in base.__subclasses__()))


@pytest.mark.parametrize(
    "kind",
    sorted(
        every_class(errors.TriviumError) - {errors.TriviumError} - ABSTRACT,
        key=str,
    ),
)
def test_an_error_crosses_processes_unchanged(kind: type[errors.TriviumError]) -> None:
    error = SAMPLES[kind]

    copy = pickle.loads(pickle.dumps(error))

    assert type(copy) is kind
    assert str(copy) == str(error)
    assert copy.reason == error.reason

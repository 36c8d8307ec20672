"""The errors that a caller can see: one class for each possible reaction of the caller.

    TriviumError
    |-- InvalidRequestError           fields are malformed
    |-- RejectedCallerError
    |   |-- UnauthenticatedError      the credentials are missing or not valid
    |   `-- PermissionDeniedError     the credentials do not allow the call
    |-- TextSearchConfigConflictError the tenant uses another configuration
    |-- ItemNotFoundError             the item to change is not stored
    |-- VersionConflictError          the item to change has another version
    |-- ChangesGoneError              the log does not have these changes any more
    |-- UnavailableError
    |   |-- StartingError             the service is starting
    |   |-- StoreUnavailableError     PostgreSQL cannot be reached
    |   |-- LegsError
    |   |   |-- AllLegsFailedError    no leg answered
    |   |   `-- RequiredLegsError     a leg that the caller requires did not answer
    |   `-- DependencyError           the store or model of one leg is unavailable
    |       |-- NotReadyError         it is still being prepared
    |       |-- BreakerOpenError      it is not asked, as it failed before
    |       `-- DeviceLostError       its device failed; the process ends
    |-- UnsoundVectorError            the vector of a text is zero or not finite
    |-- OverloadedError               a queue is full, or the service too busy to answer in time
    |   `-- RateLimitedError          the tenant calls more often than it may
    |-- BudgetExhaustedError          the time budget is exhausted
    `-- TooSlowError                  predicted to miss the deadline; not started

Fields are given by position: exceptions keep such arguments, and can be unpickled in another
process by them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple


class Violation(NamedTuple):
    """An invalid field of a request."""

    field: str
    description: str


class TriviumError(Exception):
    """The base class of all errors that a caller can see."""

    reason: ClassVar[str] = "INTERNAL"
    message: ClassVar[str] = ""
    """With the names of fields in braces."""

    variables: ClassVar[Sequence[str]] = ()
    """The fields among the metadata."""

    def __str__(self) -> str:
        return self.message.format_map(vars(self))

    @property
    def metadata(self) -> Mapping[str, str]:
        """The variables of the message."""
        return {name: str(getattr(self, name)) for name in self.variables}


@dataclass(eq=False, repr=False)
class InvalidRequestError(TriviumError):
    """Fields of the request are invalid; lists all of them."""

    reason = "INVALID_FIELD"

    violations: Sequence[Violation]

    def __str__(self) -> str:
        return "; ".join(f"{field}: {description}" for field, description in self.violations)


@dataclass(eq=False, repr=False)
class RejectedCallerError(TriviumError):
    """The caller may not make this call. `why` says what to do, and quotes nothing."""

    message = "{why}"

    why: str


class UnauthenticatedError(RejectedCallerError):
    """The credentials are missing or not valid."""

    reason = "UNAUTHENTICATED"


class PermissionDeniedError(RejectedCallerError):
    """The caller is known, and its credentials do not allow the call."""

    reason = "PERMISSION_DENIED"


@dataclass(eq=False, repr=False)
class TextSearchConfigConflictError(TriviumError):
    """The tenant already uses another text-search configuration."""

    reason = "TEXT_SEARCH_CONFIG_CONFLICT"
    message = (
        "tenant {tenant!r} uses the text-search configuration {configured!r}, not {requested!r}"
    )
    variables = ("tenant", "configured", "requested")

    tenant: str
    configured: str
    requested: str


@dataclass(eq=False, repr=False)
class ItemNotFoundError(TriviumError):
    """The item to change is not stored, or has expired."""

    reason = "ITEM_NOT_FOUND"
    message = "there is no {kind} {id!r}"
    variables = ("kind", "id")

    kind: str
    id: str


@dataclass(eq=False, repr=False)
class VersionConflictError(TriviumError):
    """The item to change has another version than the one that was to be changed."""

    reason = "VERSION_CONFLICT"
    message = "the {kind} {id!r} has version {version}; read it again, and decide"
    variables = ("kind", "id", "version")

    kind: str
    id: str
    version: int


@dataclass(eq=False, repr=False)
class ChangesGoneError(TriviumError):
    """The log does not have the changes after a token any more."""

    reason = "CHANGES_GONE"
    message = "after_token: {why}; list the items, and watch from now on"

    why: str


class UnavailableError(TriviumError):
    """A dependency of the service is unavailable; a retry may succeed."""


class StartingError(UnavailableError):
    """The service is starting; what answers in its place says so."""

    reason = "STARTING"
    message = "the service is starting"


@dataclass(eq=False, repr=False)
class StoreUnavailableError(UnavailableError):
    """PostgreSQL, the source of truth, cannot be reached."""

    reason = "STORE_UNAVAILABLE"
    message = "PostgreSQL cannot be reached ({why})"

    why: str


@dataclass(eq=False, repr=False)
class DependencyError(UnavailableError):
    """A dependency of one leg is unavailable: its store, its index or its model.

    `name` is "graph", "index", "embedder" or "reranker". Reports show `why`, so it must not
    contain a secret or the text of a segment.
    """

    reason = "ALL_LEGS_FAILED"
    message = "{name}: {why}"

    name: str
    why: str


class NotReadyError(DependencyError):
    """A dependency is still being prepared; the leg is skipped with this reason."""


class BreakerOpenError(DependencyError):
    """The dependency is not asked, because it failed the questions before."""


class DeviceLostError(DependencyError):
    """The device failed permanently: its process cannot compute any more and ends."""


@dataclass(eq=False, repr=False)
class LegsError(UnavailableError):
    """Legs did not answer; `reasons` says why, by leg."""

    reasons: Mapping[str, str]

    def __str__(self) -> str:
        listed = "; ".join(f"{leg}: {why}" for leg, why in self.reasons.items())
        return f"{self.message} ({listed})"


class AllLegsFailedError(LegsError):
    """All legs failed."""

    reason = "ALL_LEGS_FAILED"
    message = "no leg answered"


class RequiredLegsError(LegsError):
    """Legs that the caller requires did not answer, or not in full."""

    reason = "REQUIRED_LEG_MISSING"
    message = "required legs did not answer"

    @property
    def metadata(self) -> Mapping[str, str]:
        """Why, by leg."""
        return self.reasons


class UnsoundVectorError(TriviumError):
    """The vector of a text is zero or not finite; a retry with the same text fails too."""

    message = "embedder: {why}"

    def __init__(self, where: str = "") -> None:
        super().__init__(where)
        self.why = f"a vector is zero or not finite {where}".rstrip()


class OverloadedError(TriviumError):
    """A queue is full, or the service is too busy to answer in time."""

    reason = "OVERLOADED"
    message = "{what} is full, try again in {retry_after_s:g} s"

    def __init__(self, what: str, retry_after_s: float = 0.1) -> None:
        super().__init__(what, retry_after_s)
        self.what = what
        self.retry_after_s = retry_after_s


class RateLimitedError(OverloadedError):
    """The tenant calls more often than it may."""

    message = "{what} is used up, try again in {retry_after_s:g} s"


@dataclass(eq=False, repr=False)
class BudgetExhaustedError(TriviumError):
    """The work did not finish within the time budget."""

    reason = "TIME_BUDGET_EXHAUSTED"
    message = "the time budget ran out while {what}"

    what: str


@dataclass(eq=False, repr=False)
class TooSlowError(TriviumError):
    """The work was predicted to take longer than the time left, so it was not started."""

    reason = "TIME_BUDGET_EXHAUSTED"

    predicted_s: float
    left_s: float

    def __str__(self) -> str:
        return (
            f"the work would take about {self.predicted_s * 1e3:.0f} ms, and "
            f"{self.left_s * 1e3:.0f} ms are left"
        )

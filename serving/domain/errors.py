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

Every class passes the arguments of its constructor to `super().__init__`; otherwise it
could not be unpickled in another process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple


class Violation(NamedTuple):
    """An invalid field of a request."""

    field: str
    description: str


class TriviumError(Exception):
    """The base class of all errors that a caller can see."""

    reason: ClassVar[str] = "INTERNAL"

    @property
    def metadata(self) -> Mapping[str, str]:
        """The variables of the message."""
        return {}


class InvalidRequestError(TriviumError):
    """Fields of the request are invalid; lists all of them."""

    reason = "INVALID_FIELD"

    def __init__(self, violations: Sequence[Violation]) -> None:
        super().__init__(tuple(violations))
        self.violations = tuple(violations)

    def __str__(self) -> str:
        return "; ".join(f"{field}: {description}" for field, description in self.violations)


class RejectedCallerError(TriviumError):
    """The caller may not make this call. `why` says what to do, and quotes nothing."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return self.why


class UnauthenticatedError(RejectedCallerError):
    """The credentials are missing or not valid."""

    reason = "UNAUTHENTICATED"


class PermissionDeniedError(RejectedCallerError):
    """The caller is known, and its credentials do not allow the call."""

    reason = "PERMISSION_DENIED"


class TextSearchConfigConflictError(TriviumError):
    """The tenant already uses another text-search configuration."""

    reason = "TEXT_SEARCH_CONFIG_CONFLICT"

    def __init__(self, tenant: str, configured: str, requested: str) -> None:
        super().__init__(tenant, configured, requested)
        self.tenant = tenant
        self.configured = configured
        self.requested = requested

    def __str__(self) -> str:
        return (
            f"tenant {self.tenant!r} uses the text-search configuration {self.configured!r}, "
            f"not {self.requested!r}"
        )

    @property
    def metadata(self) -> Mapping[str, str]:
        """The tenant and both configurations."""
        return {"tenant": self.tenant, "configured": self.configured, "requested": self.requested}


class ItemNotFoundError(TriviumError):
    """The item to change is not stored, or has expired."""

    reason = "ITEM_NOT_FOUND"

    def __init__(self, kind: str, id_: str) -> None:
        super().__init__(kind, id_)
        self.kind = kind
        self.id = id_

    def __str__(self) -> str:
        return f"there is no {self.kind} {self.id!r}"

    @property
    def metadata(self) -> Mapping[str, str]:
        """The kind of the item and its id."""
        return {"kind": self.kind, "id": self.id}


class VersionConflictError(TriviumError):
    """The item to change has another version than the one that was to be changed."""

    reason = "VERSION_CONFLICT"

    def __init__(self, kind: str, id_: str, version: int) -> None:
        super().__init__(kind, id_, version)
        self.kind = kind
        self.id = id_
        self.version = version

    def __str__(self) -> str:
        return f"the {self.kind} {self.id!r} has version {self.version}; read it again, and decide"

    @property
    def metadata(self) -> Mapping[str, str]:
        """The kind of the item, its id, and its present version."""
        return {"kind": self.kind, "id": self.id, "version": str(self.version)}


class ChangesGoneError(TriviumError):
    """The log does not have the changes after a token any more."""

    reason = "CHANGES_GONE"

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return f"after_token: {self.why}; list the items, and watch from now on"


class UnavailableError(TriviumError):
    """A dependency of the service is unavailable; a retry may succeed."""


class StartingError(UnavailableError):
    """The service is starting; what answers in its place says so."""

    reason = "STARTING"

    def __str__(self) -> str:
        return "the service is starting"


class StoreUnavailableError(UnavailableError):
    """PostgreSQL, the source of truth, cannot be reached."""

    reason = "STORE_UNAVAILABLE"

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return f"PostgreSQL cannot be reached ({self.why})"


class DependencyError(UnavailableError):
    """A dependency of one leg is unavailable: its store, its index or its model.

    `name` is "graph", "index", "embedder" or "reranker". Reports show `why`, so it must not
    contain a secret or the text of a segment.
    """

    reason = "ALL_LEGS_FAILED"

    def __init__(self, name: str, why: str) -> None:
        super().__init__(name, why)
        self.name = name
        self.why = why

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


class NotReadyError(DependencyError):
    """A dependency is still being prepared; the leg is skipped with this reason."""


class BreakerOpenError(DependencyError):
    """The dependency is not asked, because it failed the questions before."""


class DeviceLostError(DependencyError):
    """The device failed permanently: its process cannot compute any more and ends."""


class LegsError(UnavailableError):
    """Legs did not answer; `reasons` says why, by leg."""

    failure: ClassVar[str]

    def __init__(self, reasons: Mapping[str, str]) -> None:
        super().__init__(dict(reasons))
        self.reasons = dict(reasons)

    def __str__(self) -> str:
        listed = "; ".join(f"{leg}: {why}" for leg, why in self.reasons.items())
        return f"{self.failure} ({listed})"


class AllLegsFailedError(LegsError):
    """All legs failed."""

    reason = "ALL_LEGS_FAILED"
    failure = "no leg answered"


class RequiredLegsError(LegsError):
    """Legs that the caller requires did not answer, or not in full."""

    reason = "REQUIRED_LEG_MISSING"
    failure = "required legs did not answer"

    @property
    def metadata(self) -> Mapping[str, str]:
        """Why, by leg."""
        return self.reasons


class UnsoundVectorError(TriviumError):
    """The vector of a text is zero or not finite; a retry with the same text fails too."""

    def __init__(self, where: str = "") -> None:
        super().__init__(where)
        self.why = f"a vector is zero or not finite {where}".rstrip()

    def __str__(self) -> str:
        return f"embedder: {self.why}"


class OverloadedError(TriviumError):
    """A queue is full, or the service is too busy to answer in time."""

    reason = "OVERLOADED"

    def __init__(self, what: str, retry_after_s: float = 0.1) -> None:
        super().__init__(what, retry_after_s)
        self.what = what
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        return f"{self.what} is full, try again in {self.retry_after_s:g} s"


class RateLimitedError(OverloadedError):
    """The tenant calls more often than it may."""

    def __str__(self) -> str:
        return f"{self.what} is used up, try again in {self.retry_after_s:g} s"


class BudgetExhaustedError(TriviumError):
    """The work did not finish within the time budget."""

    reason = "TIME_BUDGET_EXHAUSTED"

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"the time budget ran out while {self.what}"


class TooSlowError(TriviumError):
    """The work was predicted to take longer than the time left, so it was not started."""

    reason = "TIME_BUDGET_EXHAUSTED"

    def __init__(self, predicted_s: float, left_s: float) -> None:
        super().__init__(predicted_s, left_s)
        self.predicted_s = predicted_s
        self.left_s = left_s

    def __str__(self) -> str:
        return (
            f"the work would take about {self.predicted_s * 1e3:.0f} ms, and "
            f"{self.left_s * 1e3:.0f} ms are left"
        )

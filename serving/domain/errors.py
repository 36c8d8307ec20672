"""What can go wrong, in the caller's terms; one class per thing a caller can do about it.

    TriviumError
    |-- InvalidRequestError           fields are malformed
    |-- TextSearchConfigConflictError the tenant has another configuration
    |-- UnavailableError
    |   |-- StoreUnavailableError     PostgreSQL cannot be reached
    |   |-- AllLegsFailedError        no leg answered
    |   `-- DependencyError           one leg's store or model cannot be used
    |       |-- NotReadyError         it is not broken, but not complete yet
    |       `-- DeviceLostError       what computes it is gone; its process ends
    |-- UnsoundVectorError            the model made of a text what is no vector
    |-- OverloadedError               a queue is full
    |-- BudgetExhaustedError          the time ran out
    `-- TooSlowError                  the time would run out, so nothing was begun

Every class passes its constructor's arguments to `super().__init__`, so that it
survives pickling between processes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple


class Violation(NamedTuple):
    """One thing that is wrong with a request."""

    field: str
    description: str


class TriviumError(Exception):
    """The base of all errors that a caller may see."""

    reason: ClassVar[str] = "INTERNAL"

    @property
    def metadata(self) -> Mapping[str, str]:
        """The variables of the message."""
        return {}


class InvalidRequestError(TriviumError):
    """Fields of the request are malformed; names all of them."""

    reason = "INVALID_FIELD"

    def __init__(self, violations: Sequence[Violation]) -> None:
        super().__init__(tuple(violations))
        self.violations = tuple(violations)

    def __str__(self) -> str:
        return "; ".join(f"{field}: {description}" for field, description in self.violations)


class TextSearchConfigConflictError(TriviumError):
    """The tenant already has another text-search configuration."""

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
        return {
            "tenant": self.tenant,
            "configured": self.configured,
            "requested": self.requested,
        }


class UnavailableError(TriviumError):
    """Something the service needs is not there; a later try may succeed."""


class StoreUnavailableError(UnavailableError):
    """PostgreSQL, the only truth, cannot be reached."""

    reason = "STORE_UNAVAILABLE"

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return f"PostgreSQL cannot be reached ({self.why})"


class DependencyError(UnavailableError):
    """What one leg needs cannot be used: its store, its index or its model.

    `name` is "graph", "index", "embedder" or "reranker"; `why` must hold no secret and no
    text of a segment, since reports show it.
    """

    reason = "ALL_LEGS_FAILED"

    def __init__(self, name: str, why: str) -> None:
        super().__init__(name, why)
        self.name = name
        self.why = why

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


class NotReadyError(DependencyError):
    """What a leg needs is being made; the leg is skipped, with this as the reason."""


class DeviceLostError(DependencyError):
    """The device failed in a way that stays: its process can compute nothing more, and ends."""


class AllLegsFailedError(UnavailableError):
    """Every leg that was asked failed."""

    reason = "ALL_LEGS_FAILED"

    def __init__(self, reasons: Mapping[str, str]) -> None:
        super().__init__(dict(reasons))
        self.reasons = dict(reasons)

    def __str__(self) -> str:
        listed = "; ".join(f"{leg}: {why}" for leg, why in self.reasons.items())
        return f"no leg answered ({listed})"


class UnsoundVectorError(TriviumError):
    """A text's vector is zero or not finite; another text may do, and this one never will."""

    def __init__(self, where: str = "") -> None:
        super().__init__(where)
        self.why = f"a vector is zero or not finite {where}".rstrip()

    def __str__(self) -> str:
        return f"embedder: {self.why}"


class OverloadedError(TriviumError):
    """A queue is full."""

    reason = "OVERLOADED"

    def __init__(self, what: str, retry_after_s: float = 0.1) -> None:
        super().__init__(what, retry_after_s)
        self.what = what
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        return f"{self.what} is full, try again in {self.retry_after_s:g} s"


class BudgetExhaustedError(TriviumError):
    """The work could not be done in the time given."""

    reason = "TIME_BUDGET_EXHAUSTED"

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"the time budget ran out while {self.what}"


class TooSlowError(TriviumError):
    """The work would take longer than the time given, so it was not begun."""

    reason = "TIME_BUDGET_EXHAUSTED"

    def __init__(self, predicted_s: float, left_s: float) -> None:
        super().__init__(predicted_s, left_s)
        self.predicted_s = predicted_s
        self.left_s = left_s

    def __str__(self) -> str:
        return (
            f"it would take about {self.predicted_s * 1e3:.0f} ms, and "
            f"{self.left_s * 1e3:.0f} ms are left"
        )

"""What the service refuses before it opens anything, and whom it prefers when it is busy."""

from __future__ import annotations

from contextlib import ExitStack, suppress

import pytest

from serving.composition.service import admission_of, running_service, write_slots_of
from serving.config.settings import load_settings
from serving.domain.budget import Deadline
from serving.domain.errors import OverloadedError, RateLimitedError
from serving.domain.ranking.profile import LegSpec, Profile
from serving.rpc.pending import PENDING_CALLS
from tests.support.builders import TENANT

PLAIN = Profile(name="plain", legs=(LegSpec(name="lexical"),))


async def test_malformed_dsn_is_named_and_not_quoted() -> None:
    settings = load_settings({"postgres": {"dsn": "host=/run password=two words"}})

    with pytest.raises(ValueError, match=r"postgres\.dsn does not parse") as raised:
        async with running_service(settings):
            pass

    assert "words" not in str(raised.value)


def test_pending_calls_count_as_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PENDING_CALLS, "count", lambda: 1000)
    admission = admission_of(load_settings())

    with ExitStack() as stack:
        stack.enter_context(admission.admitted(TENANT, PLAIN, Deadline.after(1)))
        with pytest.raises(OverloadedError):
            stack.enter_context(admission.admitted(TENANT, PLAIN, Deadline.after(1)))


async def test_rate_bounds_queries_and_writes_each() -> None:
    settings = load_settings({"serve": {"tenant_calls_per_second": 3}})
    admission, slots = admission_of(settings), write_slots_of(settings)
    queries = writes = 0
    with suppress(RateLimitedError):
        while queries < 10:
            with admission.admitted(TENANT, PLAIN, Deadline.after(60)):
                queries += 1
    with suppress(RateLimitedError):
        while writes < 10:
            async with slots.slot(TENANT):
                writes += 1

    assert (queries, writes) == (3, 3)

"""What the service refuses before it opens anything, and whom it prefers when it is busy."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import ExitStack, suppress

import pytest

from serving.composition.service import admission_of, running_service, write_slots_of
from serving.config.settings import load_settings
from serving.domain.budget import Deadline
from serving.domain.errors import OverloadedError, RateLimitedError
from serving.domain.items.records import TenantName
from serving.domain.ranking.profile import LegSpec, Profile
from serving.rpc.pending import PENDING_CALLS

PLAIN = Profile(name="plain", legs=(LegSpec(name="lexical"),))
HEAVY = TenantName("heavy")
LIGHT = TenantName("light")
WEIGHTED = load_settings({"serve": {"tenant_weights": {"heavy": 9}}})


async def test_a_dsn_that_does_not_parse_is_named_and_not_quoted() -> None:
    settings = load_settings({"postgres": {"dsn": "host=/run password=two words"}})

    with pytest.raises(ValueError, match=r"postgres\.dsn does not parse") as raised:
        async with running_service(settings):
            pass

    assert "words" not in str(raised.value)


def test_questions_are_admitted_by_the_weights_of_the_settings() -> None:
    admission = admission_of(WEIGHTED)
    admitted = 0
    with ExitStack() as stack:
        stack.enter_context(admission.admitted(LIGHT, PLAIN, Deadline.after(60)))
        with suppress(OverloadedError):
            while True:
                stack.enter_context(admission.admitted(HEAVY, PLAIN, Deadline.after(60)))
                admitted += 1

    assert admitted == 9 * 48 // 10


def test_calls_that_wait_to_be_handed_over_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PENDING_CALLS, "count", lambda: 1000)
    admission = admission_of(WEIGHTED)

    with ExitStack() as stack:
        stack.enter_context(admission.admitted(HEAVY, PLAIN, Deadline.after(1)))
        with pytest.raises(OverloadedError):
            stack.enter_context(admission.admitted(HEAVY, PLAIN, Deadline.after(1)))


async def test_writes_wait_by_the_weights_of_the_settings() -> None:
    slots = write_slots_of(WEIGHTED)

    async def write(tenant: TenantName) -> None:
        async with slots.slot(tenant):
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as group:
        writes = {
            tenant: [group.create_task(_refused(write(tenant))) for _ in range(35)]
            for tenant in (HEAVY, LIGHT)
        }
        for _ in range(5):
            await asyncio.sleep(0)
        kept = {tenant: sum(not each.done() for each in of) for tenant, of in writes.items()}
        for each in (*writes[HEAVY], *writes[LIGHT]):
            each.cancel()

    assert kept == {HEAVY: 2 + 26, LIGHT: 1 + 3}


async def test_rates_of_the_settings_bound_questions_and_writes_each() -> None:
    settings = load_settings(
        {"serve": {"tenant_calls_per_second": 2, "tenant_weights": {"heavy": 1.5}}}
    )
    admission, slots = admission_of(settings), write_slots_of(settings)
    asked = written = 0
    with suppress(RateLimitedError):
        while asked < 10:
            with admission.admitted(HEAVY, PLAIN, Deadline.after(60)):
                asked += 1
    with suppress(RateLimitedError):
        while written < 10:
            async with slots.slot(HEAVY):
                written += 1

    assert (asked, written) == (3, 3)


async def _refused(write: Coroutine[None, None, None]) -> None:
    with suppress(OverloadedError):
        await write

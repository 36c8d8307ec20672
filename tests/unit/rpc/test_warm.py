"""Warm: what is loaded before a tenant's first question, and what is said of the rest."""

from __future__ import annotations

from collections.abc import Mapping

import grpc
import pytest

from serving.config.profiles import ProfileBook
from serving.domain.errors import DependencyError, StoreUnavailableError
from serving.pipeline.retrieval.legs.leg import Leg
from serving.pipeline.retrieval.warm import NAMES, QUESTION, Warmer
from tests.fakes.pipeline import BrokenLeg, FixedLeg, FixedNames, RecordingAccess
from tests.support.builders import TENANT, segment
from tests.unit.pipeline.retrieval.retrieving import retriever, store_of
from tests.unit.rpc.calling import Call, service_over
from trivium.v1.retrieval_service_pb2 import WarmRequest, WarmResponse

PROFILE = "two_stage_baseline"
LOST = BrokenLeg(DependencyError("index", "refused"))


def legs(**changed: Leg) -> dict[str, Leg]:
    """The legs of the profile, all of which answer unless they are changed."""
    names = [leg.name for leg in ProfileBook.load()[PROFILE].legs]
    return {name: changed.get(name, FixedLeg("a")) for name in names}


async def warmed(
    legs: Mapping[str, Leg],
    *,
    names: FixedNames | None = None,
    access: RecordingAccess | None = None,
    context: Call | None = None,
) -> WarmResponse:
    retrieving = retriever(await store_of(segment("a")), legs, access=access)
    service = service_over({"warmer": Warmer(retrieving, names or FixedNames())})
    return await service.Warm(WarmRequest(tenant=TENANT, profile=PROFILE), context or Call())


def reasons(response: WarmResponse) -> dict[str, str]:
    """Why what is not warm is not."""
    return {each.part: each.reason for each in response.parts if not each.warm}


async def test_warming_reads_names_and_legs_without_access() -> None:
    asked, names, access = legs(), FixedNames(), RecordingAccess()

    response = await warmed(asked, names=names, access=access)

    assert [each.part for each in response.parts] == [NAMES, *asked]
    assert (reasons(response), response.profile) == ({}, PROFILE)
    assert len(names.asked) == 1
    questions = [[each.query.text for each in leg.requests] for leg in asked.values()]  # type: ignore[attr-defined]
    assert questions == [[QUESTION]] * len(asked)
    assert access.recorded == []


@pytest.mark.parametrize("lost", [["dense"], list(legs())])
async def test_lost_store_is_reported_without_failing(lost: list[str]) -> None:
    context = Call()

    response = await warmed(legs(**dict.fromkeys(lost, LOST)), context=context)

    assert context.code is grpc.StatusCode.OK
    assert reasons(response) == dict.fromkeys(lost, "index: refused")


async def test_names_not_read_in_time_are_reported() -> None:
    response = await warmed(legs(), names=FixedNames(TimeoutError()))

    assert reasons(response) == {NAMES: "the budget ran out"}


async def test_without_postgresql_it_fails_as_every_query_would() -> None:
    context = Call()

    await warmed(legs(dense=BrokenLeg(StoreUnavailableError("refused"))), context=context)

    assert context.code is grpc.StatusCode.UNAVAILABLE

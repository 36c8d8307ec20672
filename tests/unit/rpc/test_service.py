"""What a running service makes of a changed configuration."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from serving.config.profiles import ProfileBook
from serving.domain.items.records import segment_id
from serving.rpc.service import TriviumService
from tests.fakes.pipeline import FixedLeg, RecordingAccess
from tests.support.builders import TENANT, segment
from tests.unit.pipeline.retrieval.retrieving import retriever, store_of
from tests.unit.rpc.test_boundary import RecordingContext
from trivium.v1 import retrieval_service_pb2

NO_USE_CASES: Any = None
"""Profiles are changed without asking anything of them."""


class OddBook(ProfileBook):
    """Fails in a way that nobody has thought of."""

    def reconfigured(self, changes: Any) -> ProfileBook:
        raise RecursionError("/a/path/of/ours")


@pytest.fixture
def service() -> TriviumService:
    return TriviumService(NO_USE_CASES, ProfileBook.load())


def test_changes_are_laid_over_the_profiles_of_the_start(service: TriviumService) -> None:
    service.reconfigure({"profiles": {"default": {"limit": 13}}})
    service.reconfigure({"profiles": {"annie": {"limit": 4}}})

    assert service.profiles["default"].limit == ProfileBook.load()["default"].limit
    assert service.profiles["annie"].limit == 4


@pytest.mark.parametrize(
    ("user_config", "said"),
    [
        ({"profiles": {"mine": {"extends": ["default"]}}}, "profile 'mine': extends"),
        ({"profiles": {"mine": {"extends": {}}}}, "profile 'mine': extends"),
        ({"profiles": {1: {"extends": "default"}}}, "profile 1: a name must be text"),
        ({"profiles": {False: {"extends": "default"}, "x": {}}}, "profile False: a name must be"),
        ({"profiles": {"default": {"limit": 0}}}, "profile 'default': limit"),
        ({"profiles": {"default": None}}, "profile 'default': must be a mapping"),
        ({"profiles": None}, "profiles must be a mapping"),
        ({"profile": {}}, "'profile' cannot be configured"),
    ],
)
def test_whatever_is_wrong_the_profiles_before_go_on_and_it_is_said(
    service: TriviumService, user_config: Any, said: str
) -> None:
    service.reconfigure({"profiles": {"default": {"limit": 13}}})

    service.reconfigure(user_config)

    assert service.profiles["default"].limit == 13
    assert service.rejected_profiles.startswith(said)


def test_an_error_that_nobody_thought_of_ends_nothing_and_is_not_quoted() -> None:
    service = TriviumService(NO_USE_CASES, OddBook.load())
    before = service.profiles

    service.reconfigure({"profiles": {}})

    assert service.profiles is before
    assert service.rejected_profiles == "unexpected error, see the log"


def test_what_is_mended_is_no_longer_refused(service: TriviumService) -> None:
    service.reconfigure({"profiles": {"default": {"limit": 0}}})
    service.reconfigure({"profiles": {"default": {"limit": 15}}})

    assert (service.profiles["default"].limit, service.rejected_profiles) == (15, "")


async def test_a_comparison_does_not_change_what_it_compares() -> None:
    access = RecordingAccess()
    store = await store_of(segment("a"))
    use_cases: Any = SimpleNamespace(
        retriever=retriever(store, {"dense": FixedLeg("a")}, access=access)
    )
    service = TriviumService(use_cases, ProfileBook.load())
    asked = retrieval_service_pb2.RetrieveRequest(
        tenant=TENANT, query="?", profile="two_stage_baseline"
    )

    compared = await service.Compare(
        retrieval_service_pb2.CompareRequest(retrieve=asked, against="default"), RecordingContext()
    )
    before = list(access.recorded)
    await service.Retrieve(asked, RecordingContext())

    assert len(compared.rank_changes) == 1
    assert before == []
    assert access.recorded == [segment_id("a")]


async def test_profiles_are_listed_in_pages(service: TriviumService) -> None:
    names: list[str] = []
    page = retrieval_service_pb2.ListProfilesResponse(next_page_token="")
    for _ in range(len(service.profiles)):
        page = await service.ListProfiles(
            retrieval_service_pb2.ListProfilesRequest(page_size=2, page_token=page.next_page_token),
            RecordingContext(),
        )
        names += [profile.name for profile in page.profiles]
        if not page.next_page_token:
            break

    assert len(page.profiles) <= 2
    assert names == sorted(service.profiles)


async def test_an_invalid_page_of_profiles_is_rejected(service: TriviumService) -> None:
    context = RecordingContext()

    await service.ListProfiles(retrieval_service_pb2.ListProfilesRequest(page_size=-1), context)

    assert context.code is grpc.StatusCode.INVALID_ARGUMENT

"""What a running service makes of a changed configuration."""

from __future__ import annotations

from typing import Any, cast

import grpc
import pytest
from grpc_health.v1 import health_pb2

from serving.config.profiles import ProfileBook
from serving.domain.english.entities import CapitalisedEntities
from serving.domain.errors import DependencyError
from serving.domain.items.records import segment_id
from serving.pipeline.writes.ingest import Ingestor
from serving.ports.embedding import EmbeddingModel
from serving.rpc import health
from serving.rpc.service import TriviumService
from tests.fakes.meaning import FAKE_MODEL, FakeEmbedder
from tests.fakes.pipeline import FixedLeg, RecordingAccess
from tests.fakes.store import InMemoryStore
from tests.support.builders import TENANT, fact, segment
from tests.unit.pipeline.retrieval.retrieving import retriever, store_of
from tests.unit.rpc.calling import Call, service_over
from trivium.v1 import ingest_service_pb2, segment_pb2
from trivium.v1.retrieval_service_pb2 import (
    CompareRequest,
    ListProfilesRequest,
    ListProfilesResponse,
    RetrieveRequest,
)


class OddBook(ProfileBook):
    """Fails in a way that nobody has thought of."""

    def reconfigured(self, changes: Any) -> ProfileBook:
        raise RecursionError("/a/path/of/ours")


@pytest.fixture
def service() -> TriviumService:
    return service_over()


def test_changes_are_laid_over_the_profiles_of_the_start(service: TriviumService) -> None:
    service.reconfigure({"profiles": {"default": {"limit": 13}}})
    service.reconfigure({"profiles": {"annie": {"limit": 4}}})

    assert service.profiles["default"].limit == ProfileBook.load()["default"].limit
    assert service.profiles["annie"].limit == 4


@pytest.mark.parametrize(
    ("user_config", "said"),
    [
        ({"profiles": {"mine": {"extends": ["default"]}}}, "profile 'mine': extends"),
        ({"profiles": {False: {"extends": "default"}, "x": {}}}, "profile False: a name must be"),
        ({"profiles": {"default": None}}, "profile 'default': must be a mapping"),
        ({"profiles": None}, "profiles must be a mapping"),
        ({"profile": {}}, "unknown field 'profile'; only 'profiles' can be set"),
    ],
)
def test_bad_reconfiguration_keeps_profiles_and_is_reported(
    service: TriviumService, user_config: Any, said: str
) -> None:
    service.reconfigure({"profiles": {"default": {"limit": 13}}})

    service.reconfigure(user_config)

    assert service.profiles["default"].limit == 13
    assert service.rejected_profiles.startswith(said)


def test_unexpected_reconfiguration_error_is_reported_without_quoting() -> None:
    service = TriviumService(cast(Any, None), OddBook.load())
    before = service.profiles

    service.reconfigure({"profiles": {}})

    assert service.profiles is before
    assert service.rejected_profiles == "unexpected error, see the log"


def test_mended_profile_is_no_longer_reported(service: TriviumService) -> None:
    service.reconfigure({"profiles": {"default": {"limit": 0}}})
    service.reconfigure({"profiles": {"default": {"limit": 15}}})

    assert (service.profiles["default"].limit, service.rejected_profiles) == (15, "")


async def test_a_comparison_does_not_change_what_it_compares() -> None:
    access = RecordingAccess()
    store = await store_of(segment("a"))
    service = service_over({"retriever": retriever(store, {"dense": FixedLeg("a")}, access=access)})
    asked = RetrieveRequest(tenant=TENANT, query="?", profile="two_stage_baseline")

    compared = await service.Compare(CompareRequest(retrieve=asked, against="default"), Call())
    before = list(access.recorded)
    await service.Retrieve(asked, Call())

    assert len(compared.rank_changes) == 1
    assert before == []
    assert access.recorded == [segment_id("a")]


class LostEmbedder(FakeEmbedder):
    """An embedder that cannot be reached."""

    async def model(self) -> EmbeddingModel:
        raise DependencyError("embedder", "it was stopped by the test")


def ingesting(embedder: FakeEmbedder) -> TriviumService:
    """A service that stores in memory."""
    ingestor = Ingestor(InMemoryStore(), CapitalisedEntities())
    return service_over({"ingestor": ingestor, "embedder": embedder})


def batch(*vector: float) -> ingest_service_pb2.IngestRequest:
    """A segment, with a vector if there is one."""
    said = segment_pb2.Segment(id="a", text="We sailed.")
    if vector:
        said.embedding.model_fingerprint = FAKE_MODEL.fingerprint
        said.embedding.values.extend(vector)
    item = ingest_service_pb2.IngestItem(segment=said)
    return ingest_service_pb2.IngestRequest(tenant=TENANT, items=[item])


async def test_a_vector_is_compared_with_the_model_of_the_service() -> None:
    service = ingesting(FakeEmbedder())

    response = await service.Ingest(batch(1.0), Call())

    (violation,) = response.outcomes[0].violations
    assert violation.description == "must have the model's 16 dimensions, has 1"


async def test_a_write_needs_no_embedder_unless_it_brings_a_vector() -> None:
    service = ingesting(LostEmbedder())
    with_vector, without = Call(), Call()

    await service.Ingest(batch(1.0), with_vector)
    stored = await service.Ingest(batch(), without)

    assert with_vector.code is grpc.StatusCode.UNAVAILABLE
    assert stored.outcomes[0].state == ingest_service_pb2.ITEM_STATE_CREATED


async def test_dry_run_counts_speakers_and_erases_nothing() -> None:
    speakers = ["j.doe", "J.Doe", "j.doe", "j-doe"]
    turns = [segment(str(place), speaker=name) for place, name in enumerate(speakers)]
    store = await store_of(*turns, fact("f", "x", "y", "z", evidence=("0", "1", "2")))
    service = service_over({"store": store})
    request = ingest_service_pb2.ForgetRequest(tenant=TENANT, speaker="j.doe", dry_run=True)

    counted = await service.Forget(request, Call())

    named = [(each.speaker, each.segment_count) for each in counted.speakers]
    assert named == [("j.doe", 2), ("J.Doe", 1)]
    assert (counted.segment_count, counted.fact_count) == (3, 1)
    assert not counted.receipts
    assert await store.count(TENANT, [turn.item for turn in turns]) == 4


async def test_profiles_are_listed_in_pages(service: TriviumService) -> None:
    names: list[str] = []
    page = ListProfilesResponse()
    while not names or page.next_page_token:
        request = ListProfilesRequest(page_size=2, page_token=page.next_page_token)
        page = await service.ListProfiles(request, Call())
        assert 1 <= len(page.profiles) <= 2
        names += [profile.name for profile in page.profiles]

    assert names == sorted(service.profiles)


async def test_an_invalid_page_of_profiles_is_rejected(service: TriviumService) -> None:
    context = Call()

    await service.ListProfiles(ListProfilesRequest(page_size=-1), context)

    assert context.code is grpc.StatusCode.INVALID_ARGUMENT


async def test_watch_of_health_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "WATCH_S", 0.01)
    monkeypatch.setattr(health, "POLL_S", 0.0)
    service = service_over({"store": InMemoryStore()})

    watch = service.Watch(health_pb2.HealthCheckRequest(), cast(Any, None))

    seen = [response.status async for response in watch]

    assert seen == [health_pb2.HealthCheckResponse.SERVING]

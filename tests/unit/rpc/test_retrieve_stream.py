"""RetrieveStream: the newest transcript wins, and nothing goes on for the one before it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import BadRequest

from serving.config.profiles import ProfileBook
from serving.domain.budget import Deadline
from serving.domain.errors import BudgetExhaustedError, DependencyError, StoreUnavailableError
from serving.domain.items.records import segment_id
from serving.domain.ranking.ranked_list import Candidate
from serving.pipeline.retrieval import newest
from serving.pipeline.retrieval.admission import MIN_CONCURRENCY, Admission
from serving.pipeline.retrieval.legs.leg import Leg, LegAnswer, LegRequest
from serving.pipeline.retrieval.newest import newest_answers
from serving.pipeline.retrieval.warm import NAMES, QUESTION, Warmer
from serving.rpc.registration import Malformed
from serving.rpc.retrieval_service import MAX_STREAMED, StreamedCall
from serving.rpc.service import TriviumService
from tests.fakes.pipeline import BrokenLeg, FixedLeg, FixedNames, RecordingAccess
from tests.support.builders import TENANT, segment
from tests.support.stepped_clock import SteppedClock
from tests.unit.pipeline.retrieval.retrieving import retriever, store_of
from tests.unit.rpc.calling import Call, service_over
from trivium.v1 import retrieval_service_pb2 as pb

NOBODY: Any = None
LEGS = ("lexical", "dense", "graph")
DEFAULT = ProfileBook.load()["default"]


class GatedLeg(Leg):
    """A leg that finds a segment of the query's name, once a test lets it."""

    def __init__(self) -> None:
        self.running: list[str] = []
        self.cancelled: list[str] = []
        self.finished: list[str] = []
        self.failing: set[str] = set()
        self._open: dict[str, asyncio.Event] = {}

    async def find(self, request: LegRequest) -> LegAnswer:
        text = request.query.text
        self.running.append(text)
        try:
            await self._gate(text).wait()
        except asyncio.CancelledError:
            self.cancelled.append(text)
            raise
        finally:
            self.running.remove(text)
        if text in self.failing:
            raise StoreUnavailableError("refused")
        self.finished.append(text)
        return LegAnswer([Candidate(segment_id(text), 1.0)])

    def open(self, *texts: str) -> None:
        for text in texts:
            self._gate(text).set()

    def _gate(self, text: str) -> asyncio.Event:
        return self._open.setdefault(text, asyncio.Event())


class Utterance:
    """A stream to a service over gated legs, and what came back of it."""

    service: TriviumService
    call: asyncio.Task[None]

    def __init__(self) -> None:
        self.legs = {name: GatedLeg() for name in LEGS}
        self.access = RecordingAccess()
        self.context = Call()
        self.responses: list[pb.RetrieveStreamResponse] = []
        self.requests: asyncio.Queue[Any] = asyncio.Queue()

    async def read(self) -> None:
        async for response in self.service.RetrieveStream(self.sent(), self.context):
            self.responses.append(response)

    async def sent(self) -> AsyncIterator[Any]:
        while (request := await self.requests.get()) is not None:
            yield request

    async def hear(self, text: str, *, final: bool = False) -> None:
        self.requests.put_nowait(pb.RetrieveStreamRequest(retrieve=request_of(text), final=final))
        await settled()

    async def end(self, text: str) -> None:
        """Hears the final transcript, and waits for its answer."""
        await self.hear(text, final=True)
        await self.call

    async def send(self, message: object) -> None:
        self.requests.put_nowait(message)
        await settled()

    async def let(self, *texts: str) -> None:
        for leg in self.legs.values():
            leg.open(*texts)
        await settled()

    def fail(self, text: str) -> None:
        for leg in self.legs.values():
            leg.failing.add(text)

    def all_legs(self, what: str) -> list[str]:
        """The texts that every leg is running, or has cancelled or finished."""
        (texts,) = {tuple(getattr(leg, what)) for leg in self.legs.values()}
        return list(texts)

    @property
    def answered(self) -> list[tuple[int, bool, str]]:
        """The number of each response, whether it is the final one, and its first hit."""
        return [
            (each.request_number, each.final, each.retrieved.hits[0].segment.id)
            for each in self.responses
        ]


def request_of(text: str) -> pb.RetrieveRequest:
    request = pb.RetrieveRequest(tenant=TENANT, query=text)
    request.time_budget.FromSeconds(20)
    request.profile_overrides.update({"resolve_names": False})
    return request


async def settled() -> None:
    """Lets every task run until all of them wait."""
    for _ in range(50):
        await asyncio.sleep(0)


async def prepared(admission: Admission | None = None) -> Utterance:
    utterance = Utterance()
    store = await store_of(*(segment(name) for name in "abc"))
    retrieving = retriever(store, utterance.legs, access=utterance.access, admission=admission)
    utterance.service = service_over({"retriever": retrieving})
    return utterance


async def begun(admission: Admission | None = None) -> Utterance:
    utterance = await prepared(admission)
    utterance.call = asyncio.create_task(utterance.read())
    return utterance


async def test_no_leg_of_a_replaced_transcript_goes_on() -> None:
    utterance = await begun()
    await utterance.hear("a")
    assert utterance.all_legs("running") == ["a"]

    await utterance.hear("b")

    assert utterance.all_legs("cancelled") == ["a"]
    assert utterance.all_legs("running") == ["b"]
    await utterance.hear("c", final=True)
    await utterance.let("a", "b", "c")
    await utterance.call
    assert utterance.all_legs("finished") == ["c"]
    assert utterance.answered == [(3, True, "c")]


async def test_an_early_answer_says_which_request_it_answers() -> None:
    utterance = await begun()
    await utterance.hear("a")
    await utterance.let("a")
    await utterance.hear("b")
    await utterance.let("b", "c")
    await utterance.end("c")

    assert utterance.answered == [(1, False, "a"), (2, False, "b"), (3, True, "c")]


async def test_the_final_answer_is_that_of_retrieve() -> None:
    utterance = await begun()
    await utterance.let("b")
    await utterance.hear("a")
    await utterance.end("b")

    unary = await utterance.service.Retrieve(request_of("b"), Call())

    (streamed,) = utterance.responses
    for response in (unary, streamed.retrieved):
        response.ClearField("statistics")
        for report in response.leg_reports:
            report.ClearField("elapsed")
    assert streamed.retrieved == unary


@pytest.mark.parametrize("early", [True, False])
async def test_final_request_equal_to_previous_reuses_its_search(early: bool) -> None:
    utterance = await begun()
    await utterance.hear("a")
    if early:
        await utterance.let("a")
    await utterance.hear("a", final=True)
    await utterance.let("a")
    await utterance.call

    assert utterance.all_legs("finished") == ["a"]
    assert utterance.answered == [(1, False, "a")] * early + [(2, True, "a")]


async def test_only_a_final_answer_counts_as_an_access() -> None:
    utterance = await begun()
    await utterance.let("a", "b")
    await utterance.hear("a")
    before = list(utterance.access.recorded)

    await utterance.end("b")

    assert before == []
    assert utterance.access.recorded == [segment_id("b")]


async def test_failed_transcript_does_not_end_the_stream() -> None:
    utterance = await begun()
    utterance.fail("a")
    await utterance.let("a", "b")
    await utterance.hear("a")
    await utterance.end("b")

    assert utterance.answered == [(2, True, "b")]
    assert utterance.context.code is grpc.StatusCode.OK


async def test_a_final_request_that_fails_gives_the_status_of_retrieve() -> None:
    utterance = await begun()
    utterance.fail("b")
    await utterance.let("a", "b")
    await utterance.hear("a")
    await utterance.end("b")
    unary = Call()
    await utterance.service.Retrieve(request_of("b"), unary)

    assert unary.code is grpc.StatusCode.UNAVAILABLE
    assert (utterance.context.code, utterance.context.status) == (unary.code, unary.status)
    assert utterance.answered == [(1, False, "a")]


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (pb.RetrieveStreamRequest(retrieve=pb.RetrieveRequest(tenant=TENANT)), "retrieve.query"),
        (pb.RetrieveStreamRequest(retrieve=pb.RetrieveRequest(query="?")), "retrieve.tenant"),
        (pb.RetrieveStreamRequest(final=True), "retrieve.tenant"),
        (Malformed(), "request"),
    ],
)
async def test_an_invalid_request_ends_the_stream_and_its_search(
    message: object, field: str
) -> None:
    utterance = await begun()
    await utterance.hear("a")
    await utterance.send(message)
    await utterance.call

    bad = utterance.context.detail(BadRequest)
    assert utterance.context.code is grpc.StatusCode.INVALID_ARGUMENT
    assert bad.field_violations[0].field == field
    assert utterance.all_legs("cancelled") == ["a"]


@pytest.mark.parametrize("leaves", [True, False], ids=["caller leaves", "no final request"])
async def test_a_stream_that_ends_early_leaves_nothing_running(leaves: bool) -> None:
    utterance = await begun()
    await utterance.hear("a")

    if leaves:
        utterance.call.cancel()
    await utterance.send(None)
    await asyncio.wait([utterance.call])

    assert (utterance.responses, utterance.context.code) == ([], grpc.StatusCode.OK)
    assert utterance.all_legs("cancelled") == ["a"]


async def test_caller_leaving_between_answers_leaves_nothing_running(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger="serving")
    # The loop is that of the session: other tests may have tasks in it.
    of_others = asyncio.all_tasks()
    utterance = await prepared()
    responses = utterance.service.RetrieveStream(utterance.sent(), utterance.context)
    await utterance.let("a")
    await utterance.hear("a")
    await anext(responses)

    await responses.aclose()

    logged = [vars(each)["code"] for each in caplog.records if each.getMessage() == "call"]
    left = [repr(task) for task in asyncio.all_tasks() - of_others]
    assert not [task for task in left if "/serving/" in task]
    assert logged == ["CANCELLED"]


async def test_a_stream_has_a_bounded_number_of_requests() -> None:
    utterance = await begun()

    for _ in range(MAX_STREAMED):
        utterance.requests.put_nowait(pb.RetrieveStreamRequest(retrieve=request_of("a")))
    await utterance.call

    assert utterance.context.code is grpc.StatusCode.INVALID_ARGUMENT
    assert f"final: must be true in request {MAX_STREAMED} at the latest" in (
        utterance.context.details
    )


async def test_a_stream_ends_if_no_final_request_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newest, "MAX_STREAM_S", 0)

    async def never() -> AsyncIterator[StreamedCall]:
        await asyncio.Event().wait()
        yield NOBODY

    with pytest.raises(BudgetExhaustedError, match="waiting for the final request"):
        await anext(newest_answers(never(), NOBODY))


async def test_replaced_transcripts_do_not_count_as_load() -> None:
    """A search that its caller gave up late counts with its whole budget; these are withdrawn."""
    admission = Admission(clock=SteppedClock())
    utterance = await begun(admission)
    for number in range(30):
        await utterance.hear("ab"[number % 2])
    await utterance.let("c")
    await utterance.end("c")

    with ExitStack() as asking:
        for _ in range(MIN_CONCURRENCY + 1):
            asking.enter_context(admission.admitted(TENANT, DEFAULT, Deadline.after(0.1)))


# ---------------------------------------------------------------- warming


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
) -> pb.WarmResponse:
    retrieving = retriever(await store_of(segment("a")), legs, access=access)
    service = service_over({"warmer": Warmer(retrieving, names or FixedNames())})
    return await service.Warm(pb.WarmRequest(tenant=TENANT, profile=PROFILE), context or Call())


def reasons(response: pb.WarmResponse) -> dict[str, str]:
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


async def test_stream_without_postgresql_fails_as_a_query() -> None:
    context = Call()

    await warmed(legs(dense=BrokenLeg(StoreUnavailableError("refused"))), context=context)

    assert context.code is grpc.StatusCode.UNAVAILABLE

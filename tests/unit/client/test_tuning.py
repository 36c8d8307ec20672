"""What those who tune ranking ask by the client and by the command line."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.testing import CliRunner, Result
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct
from hypothesis import given
from hypothesis import strategies as st

from serving.config.profiles import ProfileBook
from tests.fakes.service import Failure, FakeService
from trivium import (
    AsyncClient,
    Client,
    DecayTerm,
    FusionMethod,
    ImportanceTerm,
    Ledger,
    LegTerm,
    Loss,
    RerankTerm,
    Stage,
)
from trivium.cli.app import trivium
from trivium.v1 import retrieval_service_pb2 as messages
from trivium.v1.item_pb2 import ItemRef
from trivium.v1.segment_pb2 import Segment

Run = Callable[..., Result]


@pytest.fixture
def run(fake_service: FakeService) -> Run:
    def run(*arguments: str) -> Result:
        options = ["--address", fake_service.address, "--tenant", "acme"]
        return CliRunner(env={"COLUMNS": "110"}).invoke(trivium, [*options, *arguments])

    return run


@pytest.fixture
def client(fake_service: FakeService) -> Iterator[Client]:
    with Client(fake_service.address, tenant="acme") as client:
        yield client


def struct(**fields: Any) -> Struct:
    made = Struct()
    made.update(fields)
    return made


# ---------------------------------------------------------------- the ledger


def term(**fields: Any) -> LegTerm:
    given_fields: dict[str, Any] = {
        "leg": "dense",
        "rank": 2,
        "weight": 1.5,
        "leg_score": 0.4,
        "term": 0.0,
    }
    return LegTerm(**{**given_fields, **fields})


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (FusionMethod.RECIPROCAL_RANK, 1.5 / 62),
        (FusionMethod.CONVEX, 1.5 * 1.4 / 1.9),
        (FusionMethod.SCORE, 0.6),
    ],
)
def test_a_term_is_worked_out_by_the_ledgers_method(method: FusionMethod, expected: float) -> None:
    assert term(min_score=-1, max_score=0.9).recompute(method, 60) == pytest.approx(
        expected, abs=1e-12
    )


def test_a_method_of_a_newer_server_is_not_guessed() -> None:
    ledger = Ledger(
        leg_terms=(term(),), fused_score=0, rank_constant=60, method=FusionMethod.UNKNOWN
    )

    with pytest.raises(ValueError, match="method is unknown"):
        ledger.recompute()


@given(st.floats(-30, 30), st.floats(0, 1), st.floats(0, 100))
def test_score_is_recomputed_from_the_whole_ledger(
    logit: float, weight: float, age_days: float
) -> None:
    ledger = Ledger(
        leg_terms=(term(), term(leg="lexical", rank=1)),
        fused_score=0,
        rank_constant=60,
        importance=ImportanceTerm(importance=0.5, multiplier=0.85, boost=0.01),
        decay=DecayTerm(
            age=timedelta(days=age_days), half_life=timedelta(days=30), floor=0.3, multiplier=0
        ),
        rerank=RerankTerm(logit=logit, weight=weight, scale=0.05),
    )

    coarse = (1.5 / 62 + 1.5 / 61) * 0.85 * max(0.3, 2 ** (-age_days / 30)) + 0.01
    expected = (1 - weight) * coarse / 0.05 + weight / (1 + math.exp(-logit))
    assert ledger.recompute() == pytest.approx(expected, abs=1e-9)


# ---------------------------------------------------------------- the client


def test_changes_and_seeds_go_along_with_a_question(
    client: Client, fake_service: FakeService
) -> None:
    client.retrieve(
        "why?",
        profile_overrides={"sort": "recency", "limit": 3},
        seed_ids=["a"],
        required_legs=["graph"],
    )

    request = fake_service.request()
    assert request.profile_overrides == struct(sort="recency", limit=3)
    assert list(request.seed_ids) == ["a"]
    assert list(request.required_legs) == ["graph"]


def test_stages_are_read_with_what_became_of_reranking(
    client: Client, fake_service: FakeService
) -> None:
    hit = messages.Hit(segment=Segment(id="a"), stage=messages.STAGE_COARSE_FALLBACK)
    report = messages.RerankReport(stage=messages.STAGE_COARSE_FALLBACK, reason="no weights")
    fake_service.will_answer("Retrieve", messages.RetrieveResponse(hits=[hit], rerank=report))

    found = client.retrieve("why?")

    assert found.hits[0].stage is Stage.COARSE_FALLBACK
    assert found.rerank is not None
    assert found.rerank.reason == "no weights"


def test_profiles_are_read_as_data(client: Client, fake_service: FakeService) -> None:
    note = messages.ProfileNote(leg="graph", text="silent")
    profile = messages.Profile(name="annie", definition=struct(limit=5), notes=[note])
    fake_service.will_answer("ListProfiles", messages.ListProfilesResponse(profiles=[profile]))

    (found,) = client.list_profiles()

    assert (found.name, found.definition, found.notes) == (
        "annie",
        {"limit": 5},
        {"graph": "silent"},
    )


def test_all_pages_of_profiles_are_read(client: Client, fake_service: FakeService) -> None:
    fake_service.will_answer(
        "ListProfiles",
        messages.ListProfilesResponse(
            profiles=[messages.Profile(name="annie")], next_page_token="more"
        ),
        messages.ListProfilesResponse(profiles=[messages.Profile(name="default")]),
    )

    found = [profile.name for profile in client.list_profiles(page_size=1)]

    assert found == ["annie", "default"]
    asked = [(each.page_size, each.page_token) for each in fake_service.requests]
    assert asked == [(1, ""), (1, "more")]


def test_an_absence_needs_exactly_one_id(client: Client) -> None:
    for given_ids in ({}, {"segment_id": "a", "fact_id": "b"}):
        with pytest.raises(ValueError, match="exactly one of segment_id and fact_id"):
            client.explain_absence("why?", **given_ids)  # type: ignore[arg-type]


def test_an_absence_is_read_leg_by_leg(client: Client, fake_service: FakeService) -> None:
    leg = messages.LegAbsence(leg="dense", rank=30, score=0.5, depth=20, reason="below")
    fake_service.will_answer(
        "ExplainAbsence",
        messages.ExplainAbsenceResponse(loss=messages.LOSS_BELOW_DEPTH, legs=[leg]),
    )

    absence = client.explain_absence("why?", fact_id="f")

    assert fake_service.request().item == ItemRef(fact_id="f")
    assert (absence.loss, absence.rank, absence.hit) == (Loss.BELOW_DEPTH, None, None)
    assert (absence.legs[0].rank, absence.legs[0].score) == (30, 0.5)


def test_a_context_is_a_briefing_within_three_seconds(
    client: Client, fake_service: FakeService
) -> None:
    fake_service.will_answer("Retrieve", messages.RetrieveResponse(briefing="<memory></memory>"))

    assert client.load_context() == "<memory></memory>"
    request = fake_service.request()
    assert (request.limit, request.profile, request.query) == (10, "opening", "")
    assert fake_service.deadlines_s[0] == pytest.approx(3, rel=0.1)


def test_context_of_a_query_is_searched_for(client: Client, fake_service: FakeService) -> None:
    client.load_context("The wedding")

    request = fake_service.request()
    assert (request.limit, request.profile, request.query) == (10, "", "The wedding")


@pytest.mark.parametrize(
    "code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN]
)
def test_without_the_service_a_bot_starts_without_memory(
    client: Client, fake_service: FakeService, code: grpc.StatusCode
) -> None:
    fake_service.will_answer("Retrieve", *[Failure(code)] * 4)

    assert client.load_context() == ""


async def test_bot_starts_without_memory_if_nothing_listens(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with AsyncClient("127.0.0.1:1", tenant="acme") as nobody:
        assert await nobody.load_context() == ""
    assert "starting without memory: " in caplog.text


# ---------------------------------------------------------------- the command line


def test_fields_of_the_profile_are_set_from_the_command_line(
    run: Run, fake_service: FakeService
) -> None:
    run(
        "ask",
        "--profile-override",
        "legs.graph.weight=0",
        "--profile-override",
        "sort=recency",
        "--seed-id",
        "a",
        "why?",
    )

    request = fake_service.requests[0]
    assert request.profile_overrides == struct(legs={"graph": {"weight": 0}}, sort="recency")
    assert list(request.seed_ids) == ["a"]


@pytest.mark.parametrize("given_fields", [["limit"], ["=3"], ["limit=3", "limit.depth=4"]])
def test_malformed_override_is_rejected(run: Run, given_fields: list[str]) -> None:
    options = [part for each in given_fields for part in ("--profile-override", each)]

    result = run("ask", *options, "why?")

    assert result.exit_code == 2
    assert "--profile-override" in result.stderr


def test_profiles_are_listed_and_one_is_shown_whole(run: Run, fake_service: FakeService) -> None:
    profiles = [
        messages.Profile(name="annie", description="of a voice", definition=struct(limit=5)),
        messages.Profile(name="default", description="ours"),
    ]
    answer = messages.ListProfilesResponse(profiles=profiles)
    fake_service.will_answer("ListProfiles", answer, answer, answer)

    assert "of a voice" in run("profiles").stdout
    assert "limit: 5" in run("profiles", "annie").stdout
    assert run("profiles", "nobody").exit_code == 1


@pytest.mark.parametrize("name", sorted(ProfileBook.load()))
def test_shown_profile_is_a_valid_file_of_it(
    run: Run, fake_service: FakeService, tmp_path: Path, name: str
) -> None:
    book = ProfileBook.load()
    answer = messages.ListProfilesResponse()
    ParseDict(book.definition(name), answer.profiles.add(name=name).definition)
    answer.profiles[0].notes.add(leg="dense", text="while the others agree: " + "long " * 40)
    fake_service.will_answer("ListProfiles", answer)

    shown = run("profiles", name).stdout

    (tmp_path / "copied.yaml").write_text(shown)
    assert replace(ProfileBook.load(tmp_path)["copied"], name=name) == book[name]
    assert shown.splitlines()[0] == f"# {name}"
    assert ".0\n" not in shown


def test_two_orders_are_shown_side_by_side(run: Run, fake_service: FakeService) -> None:
    changes = [
        messages.RankChange(item=ItemRef(segment_id="up"), rank=3, against_rank=1),
        messages.RankChange(item=ItemRef(segment_id="gone"), rank=1),
        messages.RankChange(item=ItemRef(fact_id="new"), against_rank=2),
    ]
    fake_service.will_answer(
        "Compare", messages.CompareResponse(overlap=1 / 3, rank_changes=changes)
    )

    result = run("compare", "why?", "--profile", "annie", "--against", "default")

    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["up", "3", "1", "+2"] in lines
    assert ["gone", "1", "-", "gone"] in lines
    assert ["new", "-", "2", "new"] in lines
    assert "33% of all hits are under both" in result.stdout
    assert fake_service.request().against == "default"


def test_comparison_shows_moved_and_missing_hits(run: Run, fake_service: FakeService) -> None:
    hit = messages.Hit(segment=Segment(id="up", text="We sailed to Goa."), rank=1, score=0.4496)
    retrieved = messages.RetrieveResponse(
        profile="two_stage",
        hits=[hit],
        rerank=messages.RerankReport(
            stage=messages.STAGE_COARSE_FALLBACK, reason="the service has no reranker"
        ),
    )
    late = messages.LegReport(
        leg="dense", state=messages.LEG_STATE_TIMED_OUT, reason="the budget ran out"
    )
    against = messages.RetrieveResponse(profile="two_stage_baseline", leg_reports=[late])
    fake_service.will_answer(
        "Compare",
        messages.CompareResponse(
            retrieved=retrieved,
            against=against,
            rank_changes=[messages.RankChange(item=ItemRef(segment_id="up"), rank=1)],
        ),
    )

    shown = run("compare", "why?", "--against", "two_stage_baseline").stdout

    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert "up 1 (0.4496) - gone We sailed to Goa." in lines
    assert "two_stage: coarse_fallback: the service has no reranker" in shown
    assert "two_stage_baseline: dense timed out: the budget ran out" in shown


@pytest.mark.parametrize(
    ("command", "method"),
    [(["compare", "--against", "annie"], "Compare"), (["why", "t1"], "ExplainAbsence")],
)
def test_clocks_go_along_with_whatever_asks(
    run: Run, fake_service: FakeService, command: Sequence[str], method: str
) -> None:
    name, *rest = command

    run(name, "why?", *rest, "--as-of", "2025-10-21", "--known-at", "2025-10-22")

    asked = fake_service.requests[0].retrieve
    assert asked.as_of.ToJsonString() == "2025-10-21T00:00:00Z"
    assert asked.known_at.ToJsonString() == "2025-10-22T00:00:00Z"


def test_a_comparison_needs_something_to_compare_with(run: Run) -> None:
    assert run("compare", "why?").exit_code == 2


def test_absence_is_explained_leg_by_leg(run: Run, fake_service: FakeService) -> None:
    leg = messages.LegAbsence(leg="dense", rank=30, depth=20, reason="rank 30 is below 20")
    fake_service.will_answer(
        "ExplainAbsence",
        messages.ExplainAbsenceResponse(
            loss=messages.LOSS_BELOW_DEPTH, reason="too deep", legs=[leg]
        ),
    )

    result = run("why", "why?", "t1")

    assert result.exit_code == 1
    assert "t1: below depth: too deep" in result.stdout
    assert "rank 30 is below 20" in result.stdout


def test_absence_as_json_has_every_field(run: Run, fake_service: FakeService) -> None:
    fake_service.will_answer(
        "ExplainAbsence", messages.ExplainAbsenceResponse(loss=messages.LOSS_NONE, rank=1)
    )

    result = run("why", "why?", "t1", "--json")

    assert result.exit_code == 0
    assert json.loads(result.stdout)["loss"] == "not lost"

"""What those who tune ranking ask by the client and by the command line."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct
from hypothesis import given
from hypothesis import strategies as st

from serving.config.profiles import ProfileBook
from tests.fakes.service import Failure, FakeService
from tests.fixtures.client import CommandLine
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
from trivium.v1 import retrieval_service_pb2 as messages
from trivium.v1.item_pb2 import ItemRef
from trivium.v1.segment_pb2 import Segment


def struct(**fields: Any) -> Struct:
    made = Struct()
    made.update(fields)
    return made


# ---------------------------------------------------------------- the ledger


def term(leg: str = "dense", rank: int = 2, **fields: Any) -> LegTerm:
    return LegTerm(leg=leg, rank=rank, weight=1.5, leg_score=0.4, term=0.0, **fields)


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (FusionMethod.RECIPROCAL_RANK, 1.5 / 62),
        (FusionMethod.CONVEX, 1.5 * 1.4 / 1.9),
        (FusionMethod.SCORE, 0.6),
    ],
)
def test_a_term_is_worked_out_by_the_ledgers_method(method: FusionMethod, expected: float) -> None:
    found = term(min_score=-1, max_score=0.9).recompute(method, 60)

    assert found == pytest.approx(expected, abs=1e-12)


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
    changes = {"sort": "recency", "limit": 3}
    client.retrieve("why?", profile_overrides=changes, seed_ids=["a"], required_legs=["graph"])

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


def test_all_pages_of_profiles_are_read_as_data(client: Client, fake_service: FakeService) -> None:
    note = messages.ProfileNote(leg="graph", text="silent")
    annie = messages.Profile(name="annie", definition=struct(limit=5), notes=[note])
    fake_service.will_answer(
        "ListProfiles",
        messages.ListProfilesResponse(profiles=[annie], next_page_token="more"),
        messages.ListProfilesResponse(profiles=[messages.Profile(name="default")]),
    )

    first, second = client.list_profiles(page_size=1)

    assert (first.name, first.definition, first.notes) == (
        "annie",
        {"limit": 5},
        {"graph": "silent"},
    )
    assert second.name == "default"
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
    client.load_context("The wedding")

    asked = [(each.limit, each.profile, each.query) for each in fake_service.requests]
    assert asked == [(10, "opening", ""), (10, "", "The wedding")]
    assert fake_service.deadlines_s[0] == pytest.approx(3, rel=0.1)


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


def test_fields_of_the_profile_are_set_from_the_command_line(cli: CommandLine) -> None:
    weight = ["--profile-override", "legs.graph.weight=0"]

    cli.run("ask", *weight, "--profile-override", "sort=recency", "--seed-id", "a", "why?")

    request = cli.service.requests[0]
    assert request.profile_overrides == struct(legs={"graph": {"weight": 0}}, sort="recency")
    assert list(request.seed_ids) == ["a"]


@pytest.mark.parametrize("given_fields", [["limit"], ["=3"], ["limit=3", "limit.depth=4"]])
def test_malformed_override_is_rejected(cli: CommandLine, given_fields: list[str]) -> None:
    options = [part for each in given_fields for part in ("--profile-override", each)]

    result = cli.run("ask", *options, "why?")

    assert result.exit_code == 2
    assert "--profile-override" in result.stderr


def test_profiles_are_listed_and_one_is_shown_whole(cli: CommandLine) -> None:
    annie = messages.Profile(name="annie", description="of a voice", definition=struct(limit=5))
    answer = messages.ListProfilesResponse(profiles=[annie, messages.Profile(name="default")])
    cli.service.will_answer("ListProfiles", answer, answer, answer)

    assert "of a voice" in cli.run("profiles").stdout
    assert "limit: 5" in cli.run("profiles", "annie").stdout
    assert cli.run("profiles", "nobody").exit_code == 1


@pytest.mark.parametrize("name", sorted(ProfileBook.load()))
def test_shown_profile_is_a_valid_file_of_it(cli: CommandLine, tmp_path: Path, name: str) -> None:
    book = ProfileBook.load()
    answer = messages.ListProfilesResponse()
    ParseDict(book.definition(name), answer.profiles.add(name=name).definition)
    answer.profiles[0].notes.add(leg="dense", text="while the others agree: " + "long " * 40)

    shown = cli.run("profiles", name, ListProfiles=answer).stdout

    (tmp_path / "copied.yaml").write_text(shown)
    assert replace(ProfileBook.load(tmp_path)["copied"], name=name) == book[name]
    assert shown.splitlines()[0] == f"# {name}"
    assert ".0\n" not in shown


def test_two_orders_are_shown_side_by_side(cli: CommandLine) -> None:
    changes = [
        messages.RankChange(item=ItemRef(segment_id="up"), rank=3, against_rank=1),
        messages.RankChange(item=ItemRef(segment_id="gone"), rank=1),
        messages.RankChange(item=ItemRef(fact_id="new"), against_rank=2),
    ]
    compared = messages.CompareResponse(overlap=1 / 3, rank_changes=changes)

    result = cli.run("compare", "why?", "--against", "default", Compare=compared)

    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["up", "3", "1", "+2"] in lines
    assert ["gone", "1", "-", "gone"] in lines
    assert ["new", "-", "2", "new"] in lines
    assert "33% of all hits are under both" in result.stdout
    assert cli.service.request().against == "default"


def test_comparison_shows_moved_and_missing_hits(cli: CommandLine) -> None:
    compared = messages.CompareResponse(
        retrieved=messages.RetrieveResponse(
            profile="two_stage",
            hits=[messages.Hit(segment={"id": "up", "text": "We sailed."}, rank=1, score=0.4496)],
            rerank={"stage": "STAGE_COARSE_FALLBACK", "reason": "the service has no reranker"},
        ),
        against=messages.RetrieveResponse(
            profile="two_stage_baseline",
            leg_reports=[
                {"leg": "dense", "state": "LEG_STATE_TIMED_OUT", "reason": "the budget ran out"}
            ],
        ),
        rank_changes=[messages.RankChange(item=ItemRef(segment_id="up"), rank=1)],
    )

    shown = cli.run("compare", "why?", "--against", "two_stage_baseline", Compare=compared).stdout

    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert "up 1 (0.4496) - gone We sailed." in lines
    assert "two_stage: coarse_fallback: the service has no reranker" in lines
    assert "two_stage_baseline: dense timed out: the budget ran out" in lines


@pytest.mark.parametrize(("name", "rest"), [("compare", ["--against", "annie"]), ("why", ["t1"])])
def test_clocks_go_along_with_whatever_asks(cli: CommandLine, name: str, rest: list[str]) -> None:
    cli.run(name, "why?", *rest, "--as-of", "2025-10-21", "--known-at", "2025-10-22")

    asked = cli.service.requests[0].retrieve
    assert asked.as_of.ToJsonString() == "2025-10-21T00:00:00Z"
    assert asked.known_at.ToJsonString() == "2025-10-22T00:00:00Z"


def test_a_comparison_needs_something_to_compare_with(cli: CommandLine) -> None:
    assert cli.run("compare", "why?").exit_code == 2


def test_absence_is_explained_leg_by_leg(cli: CommandLine) -> None:
    leg = messages.LegAbsence(leg="dense", rank=30, depth=20, reason="rank 30 is below 20")
    absent = messages.ExplainAbsenceResponse(
        loss=messages.LOSS_BELOW_DEPTH, reason="too deep", legs=[leg]
    )

    result = cli.run("why", "why?", "t1", ExplainAbsence=absent)

    assert result.exit_code == 1
    assert "t1: below depth: too deep" in result.stdout
    assert "rank 30 is below 20" in result.stdout


def test_absence_as_json_has_every_field(cli: CommandLine) -> None:
    found = messages.ExplainAbsenceResponse(loss=messages.LOSS_NONE, rank=1)

    result = cli.run("why", "why?", "t1", "--json", ExplainAbsence=found)

    assert result.exit_code == 0
    assert json.loads(result.stdout)["loss"] == "not lost"

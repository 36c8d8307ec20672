"""What those who tune ranking ask by the client and by the command line."""

from __future__ import annotations

import json
import math
import re
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
    AdjacentTerm,
    Client,
    CurrencyReason,
    CurrencyTerm,
    DecayTerm,
    DiversityTerm,
    FusionMethod,
    ImportanceTerm,
    ItemKind,
    ItemRef,
    Ledger,
    LegTerm,
    Loss,
    RerankTerm,
    Stage,
)
from trivium.cli.ledger import ledger_lines
from trivium.v1 import item_pb2
from trivium.v1 import retrieval_service_pb2 as messages


def struct(**fields: Any) -> Struct:
    made = Struct()
    made.update(fields)
    return made


# ---------------------------------------------------------------- the ledger


def term(leg: str = "dense", rank: int = 2, **fields: Any) -> LegTerm:
    return LegTerm(leg=leg, rank=rank, weight=1.5, leg_score=0.4, term=0.0, **fields)


def test_a_method_of_a_newer_server_is_not_guessed() -> None:
    ledger = Ledger(
        leg_terms=(term(),), fused_score=0, rank_constant=60, method=FusionMethod.UNKNOWN
    )

    with pytest.raises(ValueError, match="method is unknown"):
        ledger.recompute()


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


def test_stages_are_read_with_the_outcome_of_reranking(
    client: Client, fake_service: FakeService
) -> None:
    hit = {"segment": {"id": "a"}, "stage": "STAGE_COARSE_FALLBACK"}
    report = {"stage": "STAGE_COARSE_FALLBACK", "reason": "no weights"}
    fake_service.will_answer("Retrieve", {"hits": [hit], "rerank": report})

    found = client.retrieve("why?")

    assert found.hits[0].stage is Stage.COARSE_FALLBACK
    assert found.rerank is not None
    assert found.rerank.reason == "no weights"


def test_all_pages_of_profiles_are_read_as_data(client: Client, fake_service: FakeService) -> None:
    note = {"leg": "graph", "text": "silent"}
    annie = {"name": "annie", "definition": struct(limit=5), "notes": [note]}
    fake_service.will_answer(
        "ListProfiles",
        {"profiles": [annie], "next_page_token": "more"},
        {"profiles": [{"name": "default"}]},
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


def test_an_absence_is_read_leg_by_leg(client: Client, fake_service: FakeService) -> None:
    leg = {"leg": "dense", "rank": 30, "score": 0.5, "depth": 20, "reason": "below"}
    fake_service.will_answer(
        "ExplainAbsence",
        {"loss": "LOSS_BELOW_DEPTH", "legs": [leg]},
    )

    absence = client.explain_absence("why?", fact_id="f")

    assert fake_service.request().item == item_pb2.ItemRef(fact_id="f")
    assert (absence.loss, absence.rank, absence.hit) == (Loss.BELOW_DEPTH, None, None)
    assert (absence.legs[0].rank, absence.legs[0].score) == (30, 0.5)


def test_a_context_is_a_briefing_within_three_seconds(
    client: Client, fake_service: FakeService
) -> None:
    fake_service.will_answer("Retrieve", {"briefing": "<memory></memory>"})

    assert client.load_context() == "<memory></memory>"
    client.load_context("The wedding")

    asked = [(each.limit, each.profile, each.query) for each in fake_service.requests]
    assert asked == [(10, "opening", ""), (10, "", "The wedding")]
    assert fake_service.deadlines_s[0] == pytest.approx(3, rel=0.1)


@pytest.mark.parametrize(
    "code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN]
)
def test_without_the_service_a_bot_starts_without_memory(
    client: Client,
    fake_service: FakeService,
    caplog: pytest.LogCaptureFixture,
    code: grpc.StatusCode,
) -> None:
    fake_service.will_answer("Retrieve", *[Failure(code)] * 4)

    assert client.load_context() == ""
    assert "starting without memory: " in caplog.text


# ---------------------------------------------------------------- the command line


def test_profiles_are_listed_and_one_is_shown_whole(cli: CommandLine) -> None:
    annie = {"name": "annie", "description": "of a voice", "definition": struct(limit=5)}
    answer = {"profiles": [annie, {"name": "default"}]}
    cli.service.will_answer("ListProfiles", answer, answer, answer)

    assert "of a voice" in cli.run("profiles").stdout
    assert "limit: 5" in cli.run("profiles", "annie").stdout
    assert cli.run("profiles", "nobody").exit_code == 1


@pytest.mark.parametrize("name", sorted(ProfileBook.load()))
def test_shown_profile_is_a_valid_profile_file(cli: CommandLine, tmp_path: Path, name: str) -> None:
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
        {"item": {"segment_id": "up"}, "rank": 3, "against_rank": 1},
        {"item": {"segment_id": "gone"}, "rank": 1},
        {"item": {"fact_id": "new"}, "against_rank": 2},
    ]
    compared = {"overlap": 1 / 3, "rank_changes": changes}

    result = cli.run("compare", "why?", "--against", "default", Compare=compared)

    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["up", "3", "1", "+2"] in lines
    assert ["gone", "1", "-", "gone"] in lines
    assert ["new", "-", "2", "new"] in lines
    assert "33% of all hits are under both" in result.stdout
    assert cli.service.request().against == "default"


def test_comparison_shows_moved_and_missing_hits(cli: CommandLine) -> None:
    compared = {
        "retrieved": {
            "profile": "two_stage",
            "hits": [{"segment": {"id": "up", "text": "We sailed."}, "rank": 1, "score": 0.4496}],
            "rerank": {"stage": "STAGE_COARSE_FALLBACK", "reason": "the service has no reranker"},
        },
        "against": {
            "profile": "two_stage_baseline",
            "leg_reports": [
                {"leg": "dense", "state": "LEG_STATE_TIMED_OUT", "reason": "the budget ran out"}
            ],
        },
        "rank_changes": [{"item": {"segment_id": "up"}, "rank": 1}],
    }

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


def test_absence_is_explained_leg_by_leg(cli: CommandLine) -> None:
    leg = {"leg": "dense", "rank": 30, "depth": 20, "reason": "rank 30 is below 20"}
    absent = {"loss": "LOSS_BELOW_DEPTH", "reason": "too deep", "legs": [leg]}

    result = cli.run("why", "why?", "t1", ExplainAbsence=absent)

    assert result.exit_code == 1
    assert "t1: below depth: too deep" in result.stdout
    assert "rank 30 is below 20" in result.stdout


def test_absence_as_json_has_every_field(cli: CommandLine) -> None:
    found = {"loss": "LOSS_NONE", "rank": 1}

    result = cli.run("why", "why?", "t1", "--json", ExplainAbsence=found)

    assert result.exit_code == 0
    assert json.loads(result.stdout)["loss"] == "not lost"


# ---------------------------------------------------------------- ledger lines


def worked_out(expression: str) -> float:
    """The value of an expression as it is printed."""
    python = expression.replace(" x ", " * ").replace("^", "**").removesuffix(", in days")
    assert re.fullmatch(r"[-+*/() .,e\d]*|.*(max|sigmoid).*", python), python
    names = {"max": max, "sigmoid": lambda logit: 0.5 * (1 + math.tanh(logit / 2))}
    return float(eval(python, {"__builtins__": {}}, names))


def printed(ledger: Ledger) -> dict[str, tuple[str, float]]:
    """What each line works out, by what it is called: the expression, and its value."""
    lines = [line for line in ledger_lines(ledger) if " = " in line]
    parts = [re.fullmatch(r"([\w, ]+): (.+) = ([-\d.e+]+)( \(.*\))?", line) for line in lines]
    return {
        part[1].split()[0] if part[1].startswith("adjacent") else part[1]: (part[2], float(part[3]))
        for part in parts
        if part
    }


def recomputed_term(leg: str, rank: int, leg_score: float, method: FusionMethod) -> LegTerm:
    unset = LegTerm(
        leg=leg, rank=rank, weight=0.6, leg_score=leg_score, term=0, min_score=-1, max_score=1
    )
    return replace(unset, term=unset.recompute(method, 60))


OTHER = ItemRef(ItemKind.SEGMENT, "other")

ledgers = st.builds(
    lambda method, ranks, score, shares, importance, decay, rerank, factors, weight: Ledger(
        method=method,
        rank_constant=60,
        leg_terms=(
            terms := tuple(
                recomputed_term(f"leg{n}", r, score, method) for n, r in enumerate(ranks)
            )
        ),
        fused_score=math.fsum(each.term for each in terms),
        adjacent=tuple(AdjacentTerm(share=0.1, score=each, by=OTHER) for each in shares),
        importance=importance,
        decay=decay,
        rerank=rerank,
        currency=tuple(CurrencyTerm(factor=each, reason=CurrencyReason.ASKS) for each in factors),
        tenant_weight=weight,
    ),
    st.sampled_from([FusionMethod.RECIPROCAL_RANK, FusionMethod.CONVEX, FusionMethod.SCORE]),
    st.lists(st.integers(1, 300), min_size=1, max_size=4),
    st.floats(0.01, 1),
    st.lists(st.floats(0.01, 1), max_size=2),
    st.none()
    | st.builds(
        ImportanceTerm,
        importance=st.floats(0, 1),
        multiplier=st.just(1.0) | st.floats(0.7, 1),
        boost=st.just(0.0) | st.floats(0.001, 0.01),
    ),
    st.none()
    | st.builds(
        lambda age, half_life, floor: DecayTerm(
            age=timedelta(days=age),
            half_life=timedelta(days=half_life),
            floor=floor,
            multiplier=max(floor, 2 ** -(timedelta(days=age) / timedelta(days=half_life))),
        ),
        st.floats(0, 100),
        st.floats(5, 60),
        st.sampled_from([0.0, 0.3]),
    ),
    st.none()
    | st.builds(
        RerankTerm, logit=st.floats(-9, 9), weight=st.floats(0, 1), scale=st.floats(0.01, 1)
    ),
    st.lists(st.floats(0.3, 2), max_size=2),
    st.none() | st.floats(0.1, 9),
)


LAST = ("sum", "adjacent", "score", "reranked", "what holds now", "tenant")
"""The lines whose last has the score."""


@given(ledgers)
def test_ledger_lines_add_up_to_the_score(ledger: Ledger) -> None:
    lines = printed(ledger)

    for expression, value in lines.values():
        assert worked_out(expression) == pytest.approx(value, rel=1e-4, abs=1e-7)
    last = next(name for name in reversed(LAST) if name in lines)
    assert lines[last][1] == pytest.approx(ledger.recompute(), rel=1e-5, abs=1e-9)
    if "score" in lines and ledger.decay is not None:
        assert lines["age"][1] == pytest.approx(ledger.decay.multiplier, rel=1e-5)


def test_the_lines_follow_the_formula() -> None:
    ledger = Ledger(
        leg_terms=(recomputed_term("dense", 1, 0.5, FusionMethod.RECIPROCAL_RANK),),
        rank_constant=60,
        fused_score=0.6 / 61,
        importance=ImportanceTerm(importance=0.9, multiplier=0.97, boost=0.002),
        decay=DecayTerm(
            age=timedelta(days=3), half_life=timedelta(days=30), floor=0.3, multiplier=2**-0.1
        ),
        rerank=RerankTerm(logit=1.5, weight=0.7, scale=0.02),
        currency=(
            CurrencyTerm(factor=0.5, reason=CurrencyReason.ASKS),
            CurrencyTerm(
                factor=1.2,
                reason=CurrencyReason.TAKES_PLACE,
                by=ItemRef(ItemKind.SEGMENT, "c"),
            ),
        ),
        diversity=DiversityTerm(
            trade_off=0.7,
            relevance=0.0154321,
            max_similarity=0.0625,
            value=-0.00795,
            closest=ItemRef(ItemKind.SEGMENT, "b"),
        ),
        reserved_by="graph",
    )

    assert list(ledger_lines(ledger)) == [
        "dense: 0.6 / (60 + 1) = 0.00983607 (leg score 0.5)",
        "sum: 0.00983607 = 0.00983607",
        "importance 0.9: x 0.97 + 0.002",
        "age: max(0.3, 2^-(3 / 30)), in days = 0.933033",
        "score: 0.00983607 x 0.97 x 0.933033 + 0.002 = 0.0109021",
        "reranked: 0.3 x 0.0109021 / 0.02 + 0.7 x sigmoid(1.5) = 0.735833",
        "what holds now: 0.735833 x 0.5 x 1.2 = 0.4415 (asks; takes the place of c)",
        "diversity: 0.7 x 0.0154321 - 0.3 x 0.0625 = -0.00795 (like b)",
        "in a place reserved for graph",
    ]


def test_importance_without_effect_is_shown() -> None:
    silent = ImportanceTerm(importance=0.5, multiplier=1, boost=0)
    ledger = Ledger(leg_terms=(), rank_constant=60, fused_score=0.0, importance=silent)

    assert "importance 0.5: nothing" in ledger_lines(ledger)

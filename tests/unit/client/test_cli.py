from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import grpc
import pytest
from click.testing import CliRunner, Result
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2

from tests.fakes.service import Failure, FakeService
from trivium.cli.app import trivium
from trivium.files.reading import read_items
from trivium.files.records import Problem
from trivium.v1.catalog_service_pb2 import (
    DeadLetter,
    GetSegmentsResponse,
    GetStatsResponse,
    IndexStats,
    IndexTier,
    LegStats,
    ListFactsResponse,
    ListSegmentsResponse,
    ProjectionStats,
    ServiceStats,
    TenantStats,
)
from trivium.v1.fact_pb2 import Fact
from trivium.v1.ingest_service_pb2 import (
    ITEM_STATE_REJECTED,
    LOOKUP_KEY_ID,
    LOOKUP_KEY_TEXT,
    LOOKUP_KEY_VECTOR,
    ForgetResponse,
    IngestStreamResponse,
    ItemOutcome,
    ItemViolation,
    Lookup,
    SpeakerCount,
    StoreReceipt,
)
from trivium.v1.item_pb2 import ItemRef
from trivium.v1.retrieval_service_pb2 import (
    FUSION_METHOD_RECIPROCAL_RANK,
    LEG_STATE_OK,
    LEG_STATE_TIMED_OUT,
    Coercion,
    DecayTerm,
    Hit,
    ImportanceTerm,
    Ledger,
    LegReport,
    LegTerm,
    RetrieveResponse,
    Statistics,
)
from trivium.v1.segment_pb2 import Segment

Run = Callable[..., Result]


@pytest.fixture
def run(fake_service: FakeService) -> Run:
    """`run("ask", "why?")` is `trivium --address ... --tenant acme ask why?`."""

    def run(*arguments: str, tenant: str = "acme", typed: str = "") -> Result:
        options = ["--address", fake_service.address, "--tenant", tenant]
        given = [*(options if tenant else options[:2]), *arguments]
        return CliRunner(env={"COLUMNS": "90"}).invoke(trivium, given, input=typed)

    return run


def segment(id_: str, text: str = "We sailed to Goa.") -> Segment:
    return Segment(id=id_, text=text, speaker="Nora")


def found(*ids: str) -> RetrieveResponse:
    hits = [
        Hit(segment=segment(id_), rank=rank, score=1 / rank, legs=["lexical", "dense", "graph"])
        for rank, id_ in enumerate(ids, start=1)
    ]
    return RetrieveResponse(hits=hits, profile="default")


def written(folder: Path, name: str, *lines: object) -> str:
    path = folder / name
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return str(path)


# ---------------------------------------------------------------- help and errors


def test_help_documents_the_exit_codes(run: Run) -> None:
    result = run("--help")

    assert result.exit_code == 0
    assert "  4  the service is unreachable or overloaded; try again" in result.output


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (grpc.StatusCode.UNAVAILABLE, 4),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, 4),
        (grpc.StatusCode.DEADLINE_EXCEEDED, 5),
        (grpc.StatusCode.INVALID_ARGUMENT, 6),
        (grpc.StatusCode.FAILED_PRECONDITION, 6),
        (grpc.StatusCode.UNAUTHENTICATED, 6),
        (grpc.StatusCode.INTERNAL, 7),
    ],
)
def test_error_of_the_service_is_an_exit_code_and_a_line(
    run: Run, fake_service: FakeService, code: grpc.StatusCode, expected: int
) -> None:
    fake_service.will_answer("GetStats", *[Failure(code, "as told")] * 4)

    result = run("stats")

    assert result.exit_code == expected
    assert result.stderr == f"Error: {code.name}: as told\n"


def test_error_shows_its_details(run: Run, fake_service: FakeService) -> None:
    violation = error_details_pb2.BadRequest.FieldViolation(field="limit", description="below 0")
    details = [
        error_details_pb2.ErrorInfo(reason="INVALID_FIELD", domain="trivium.v1"),
        error_details_pb2.BadRequest(field_violations=[violation]),
        error_details_pb2.RetryInfo(retry_delay=Duration(seconds=1)),
        error_details_pb2.RequestInfo(request_id="r-7"),
    ]
    failure = Failure(grpc.StatusCode.INVALID_ARGUMENT, "malformed", details)
    fake_service.will_answer("Retrieve", failure)

    result = run("ask", "why?", "--limit", "-1")

    assert result.stderr.splitlines() == [
        "Error: INVALID_FIELD: 1 invalid field",
        "  limit: below 0",
        "  try again in 1 s",
        "  in the server's log: r-7",
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ["ask"],
        ["ask", "--file", "no such file"],
        ["ingest"],
        ["ingest", "no such file"],
        ["forget"],
        ["forget", "--session", "a", "--everything"],
        ["forget", "--session", "a", "--from", "2026-03-19"],
        ["forget", "--label", "project"],
        ["forget", "--label", "=goa"],
        ["--timeout", "0", "stats"],
        ["show"],
    ],
)
def test_wrong_command_line_is_a_usage_error(run: Run, arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 2


def test_tenant_must_be_named(run: Run) -> None:
    result = run("stats", tenant="")

    assert result.exit_code == 2
    assert "missing --tenant or TRIVIUM_TENANT" in result.stderr


def test_tenant_may_follow_the_command(run: Run, fake_service: FakeService) -> None:
    result = run("stats", "--tenant", "alice")

    assert result.exit_code == 0
    assert fake_service.request().tenant == "alice"


def test_address_and_tenant_come_from_the_environment(fake_service: FakeService) -> None:
    environment = {"TRIVIUM_ADDRESS": fake_service.address, "TRIVIUM_TENANT": "alice"}

    result = CliRunner(env=environment).invoke(trivium, ["stats"])

    assert result.exit_code == 0
    assert fake_service.request().tenant == "alice"


def test_interruption_is_clean(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt  # what SIGINT becomes, where it is not ignored

    monkeypatch.setattr("trivium.client.Client.stats", interrupt)

    result = run("stats")

    assert (result.exit_code, result.stderr) == (130, "interrupted\n")


def test_timeout_is_that_of_the_call(run: Run, fake_service: FakeService) -> None:
    run("--timeout", "100", "stats")

    assert fake_service.deadlines_s == [pytest.approx(100, rel=0.1)]


# ---------------------------------------------------------------- ingest


def test_files_are_stored_and_counted(run: Run, fake_service: FakeService, tmp_path: Path) -> None:
    corpus = written(tmp_path, "corpus.jsonl", {"id": "t1", "text": "We sailed."})
    fact = {"subject": "Nora", "relation": "likes", "object": "Goa", "evidence": ["t1"]}
    facts = written(tmp_path, "facts.jsonl", fact)
    answer = IngestStreamResponse(created_count=2, consistency_token="1~e~0~9")
    fake_service.will_answer("IngestStream", answer)

    result = run("ingest", corpus, facts)

    (message,) = fake_service.request()
    assert result.exit_code == 0
    assert [each.WhichOneof("item") for each in message.items] == ["segment", "fact"]
    assert "acme" in result.stdout
    assert "2/2" in result.stderr


def test_times_without_a_zone_are_counted(
    run: Run, fake_service: FakeService, tmp_path: Path
) -> None:
    times = ("2026-03-19T18:30:00", "2026-03-19T18:30:00Z", "")
    lines = [{"id": at, "text": "We sailed.", "timestamp": at} for at in times]
    fake_service.will_answer("IngestStream", IngestStreamResponse(created_count=3))

    result = run("ingest", written(tmp_path, "corpus.jsonl", *lines))

    assert "read the times of 1 items, which have no time zone, as UTC" in result.stdout


def test_token_is_whole_on_a_narrow_terminal(
    run: Run, fake_service: FakeService, tmp_path: Path
) -> None:
    token = "1~" + 90 * "9"
    fake_service.will_answer("IngestStream", IngestStreamResponse(consistency_token=token))

    result = run("ingest", written(tmp_path, "corpus.jsonl", {"id": "t1", "text": "We sailed."}))

    assert result.stdout.splitlines()[-1] == f"consistency token {token}"


def test_rejected_lines_are_counted_whoever_rejects_them(
    run: Run, fake_service: FakeService, tmp_path: Path
) -> None:
    lines = [{"id": "t1"}, {"id": "t2", "colour": "red"}, {"id": "t3", "text": "We sailed."}]
    fake_service.will_answer("IngestStream", IngestStreamResponse(rejected_count=1))

    result = run("ingest", written(tmp_path, "corpus.jsonl", *lines))

    assert (result.exit_code, result.stdout.splitlines()[-1]) == (3, "rejected 3 lines")


def test_bad_lines_are_named_and_the_others_stored(
    run: Run, fake_service: FakeService, tmp_path: Path
) -> None:
    corpus = written(tmp_path, "corpus.jsonl", {"id": "t1"}, {"id": "t2", "text": "We sailed."})

    result = run("ingest", corpus)

    (message,) = fake_service.request()
    assert result.exit_code == 3
    assert f"{corpus}:1: 'text' is missing or blank" in result.stderr
    assert [item.segment.id for item in message.items] == ["t2"]


def test_question_that_is_no_text_is_a_usage_error(run: Run) -> None:
    result = run("ask", "cut \udcff")

    assert result.exit_code == 2
    assert "not in the encoding of the terminal" in result.stderr


def test_rejected_items_are_named_by_their_line(
    run: Run, fake_service: FakeService, tmp_path: Path
) -> None:
    lines = [{"id": f"t{place}", "text": "We sailed."} for place in range(3)]
    corpus = written(tmp_path, "corpus.jsonl", *lines)
    violation = ItemViolation(field="items[1].segment.id", description="is too long")
    rejected = ItemOutcome(
        index=1,
        item=ItemRef(segment_id="t1"),
        state=ITEM_STATE_REJECTED,
        violations=[violation],
    )
    fake_service.will_answer(
        "IngestStream", IngestStreamResponse(rejected_count=1, rejected=[rejected])
    )

    result = run("ingest", corpus)

    assert result.exit_code == 3
    assert f"{corpus}:2: id is too long" in result.stderr


def test_scopes_become_tenants(run: Run, fake_service: FakeService, tmp_path: Path) -> None:
    lines = [
        {"id": "t1", "text": "We sailed.", "scope": "conv-1"},
        {"id": "t1", "text": "We sailed.", "scope": "conv-2"},
        {"id": "t2", "text": "We sailed."},
    ]

    run("ingest", "--tenant-from-scope", written(tmp_path, "corpus.jsonl", *lines))

    tenants = [message.tenant for (message,) in fake_service.requests]
    assert tenants == ["conv-1", "conv-2", "acme"]


def test_standard_input_is_stored(run: Run, fake_service: FakeService) -> None:
    result = run("ingest", "-", typed="Nora: We sailed.\n")

    (message,) = fake_service.request()
    assert result.exit_code == 0
    assert message.items[0].segment.speaker == "Nora"


# ---------------------------------------------------------------- ask


def test_hits_are_shown_with_the_retrievers_that_found_them(
    run: Run, fake_service: FakeService
) -> None:
    fake_service.will_answer("Retrieve", found("t1"))

    result = run("ask", "Where did we sail?")

    assert result.exit_code == 0
    assert "words, meaning" in result.stdout
    assert "relations (graph)" in result.stdout
    assert "We sailed to Goa." in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 90


def test_empty_answer_is_reported(run: Run, fake_service: FakeService) -> None:
    known = GetStatsResponse(tenant=TenantStats(text_search_config="english"))
    fake_service.will_answer("GetStats", known)

    result = run("ask", "Where did we sail?")

    assert (result.exit_code, result.stderr) == (0, "")
    assert "nothing found" in result.stdout


@pytest.mark.parametrize("command", [["ask"], ["compare", "--against", "annie"]])
def test_unknown_tenant_is_said(run: Run, fake_service: FakeService, command: list[str]) -> None:
    fake_service.will_answer("GetStats", GetStatsResponse(tenant=TenantStats()))

    result = run(*command, "Where did we sail?")

    assert result.exit_code == 1
    assert result.stderr == "acme: unknown tenant, nothing is stored for it\n"


@pytest.mark.parametrize(
    ("given", "seconds"),
    [("2026-03-19", 0), ("2026-03-19T18:30:00Z", 66_600), ("2026-03-19T18:30:00+00:00", 66_600)],
)
def test_time_is_taken_as_the_commands_print_it(
    run: Run, fake_service: FakeService, given: str, seconds: int
) -> None:
    fake_service.will_answer("Retrieve", found("t1"))

    run("ask", "why?", "--as-of", given)

    assert fake_service.request().as_of.seconds == 1_773_878_400 + seconds


@pytest.mark.parametrize(
    ("zone", "hour"), [("Asia/Kolkata", "18:30"), ("-08:00", "08:00"), ("UTC", "00:00")]
)
def test_time_without_a_zone_is_the_callers(
    run: Run, fake_service: FakeService, zone: str, hour: str
) -> None:
    fake_service.will_answer("Retrieve", found("t1"))

    run("--time-zone", zone, "ask", "why?", "--as-of", "2026-03-19")

    assert fake_service.request().as_of.ToJsonString()[11:16] == hour


@pytest.mark.parametrize(
    ("options", "time", "why"),
    [
        (["--time-zone", "Mars"], "2026-03-19", "'Mars' is no time zone"),
        ([], "19 March", "such as 2026-03-19 or"),
    ],
)
def test_unknown_time_or_zone_is_a_usage_error(
    run: Run, options: list[str], time: str, why: str
) -> None:
    result = run(*options, "ask", "why?", "--as-of", time)

    assert (result.exit_code, why in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("expected", "code", "told"),
    [
        ("t3", 0, "t3 is at rank 3"),
        ("t4", 1, "t4 is at rank 4, not among the first 3"),
        ("t9", 1, "t9 is not among the 4 hits"),
    ],
)
def test_expected_hit_must_be_among_the_first_three(
    run: Run, fake_service: FakeService, expected: str, code: int, told: str
) -> None:
    fake_service.will_answer("Retrieve", found("t1", "t2", "t3", "t4"))

    result = run("ask", "why?", "--expect", expected)

    assert result.exit_code == code
    assert told in result.stdout.splitlines()


def test_questions_of_a_file_are_asked_and_summed_up(
    run: Run, fake_service: FakeService, tmp_path: Path
) -> None:
    path = written(
        tmp_path,
        "questions.jsonl",
        {"text": "one?", "answer": ["t1"], "as_of": "2025-10-01T00:00:00Z"},
        {"text": "two?", "answer": ["t9"]},
        {"text": "three?", "answerable": False},
    )
    fake_service.will_answer("Retrieve", found("t1"), found("t2"))

    result = run("ask", "--file", path)

    assert result.exit_code == 1
    assert [request.query for request in fake_service.requests] == ["one?", "two?", "three?"]
    assert fake_service.requests[0].as_of.ToJsonString() == "2025-10-01T00:00:00Z"
    assert "has no answer, and no hits" in result.stdout
    assert result.stdout.splitlines()[-1] == (
        "1 of 2 answers among the first 3; no hits for 1 of 1 questions without an answer."
    )


def test_explanation_shows_the_ledger_and_the_times(run: Run, fake_service: FakeService) -> None:
    ledger = Ledger(
        leg_terms=[
            LegTerm(
                leg="graph",
                rank=2,
                weight=2,
                leg_score=0.25,
                term=2 / 62,
                path="harmonium -[repaired by]-> Anselm",
                fact_ids=["f1"],
            )
        ],
        rank_constant=60,
        method=FUSION_METHOD_RECIPROCAL_RANK,
        fused_score=2 / 62,
        importance=ImportanceTerm(importance=0.5, multiplier=0.85),
        decay=DecayTerm(
            age=Duration(seconds=86400), half_life=Duration(seconds=86400), multiplier=0.5
        ),
    )
    hit = Hit(segment=segment("t1"), rank=1, score=0.01, legs=["graph"], ledger=ledger)
    reports = [
        LegReport(leg="graph", state=LEG_STATE_OK, elapsed=Duration(nanos=4_200_000)),
        LegReport(leg="dense", state=LEG_STATE_TIMED_OUT, reason="the budget ran out"),
    ]
    statistics = Statistics(total=Duration(nanos=12_300_000))
    fake_service.will_answer(
        "Retrieve", RetrieveResponse(hits=[hit], leg_reports=reports, statistics=statistics)
    )

    result = run("ask", "--explain", "why?")

    assert fake_service.request().explain
    for part in (
        "graph: 2 / (60 + 2) = 0.0322581 (leg score 0.25)",
        "sum: 0.0322581 = 0.0322581",
        "harmonium -[repaired by]-> Anselm",
        "evidence of f1",
        "importance 0.5: x 0.85",
        "age: 2^-(1 / 1), in days = 0.5",
        "score: 0.0322581 x 0.85 x 0.5 = 0.0137097",
        "4.2 ms",
        "total 12.3 ms",
        "dense timed out: the budget ran out",
    ):
        assert part in result.stdout


def test_options_of_ask_reach_the_service(run: Run, fake_service: FakeService) -> None:
    options = [
        "--limit",
        "7",
        "--profile",
        "annie",
        "--as-of",
        "2025-10-01",
        "--consistency-token",
        "1~e~0~9",
    ]
    known = ["--known-at", "2025-10-02"]

    run("ask", *options, *known, "why?")

    request = fake_service.requests[0]
    assert (request.limit, request.profile) == (7, "annie")
    assert request.as_of.ToJsonString() == "2025-10-01T00:00:00Z"
    assert request.known_at.ToJsonString() == "2025-10-02T00:00:00Z"
    assert request.consistency_token == "1~e~0~9"


def test_coercions_are_printed(run: Run, fake_service: FakeService) -> None:
    coercion = Coercion(field="limit", given="200", used="100")
    fake_service.will_answer("Retrieve", RetrieveResponse(coercions=[coercion]))

    assert "limit: 100 instead of 200" in run("ask", "why?").stdout


def test_briefing_is_shown_in_place_of_the_hits(run: Run, fake_service: FakeService) -> None:
    block = "<memory>\n- Nora said\n</memory>"
    fake_service.will_answer("Retrieve", RetrieveResponse(briefing=block))

    result = run("ask", "--briefing", "why?")

    assert fake_service.requests[0].HasField("briefing")
    assert block in result.stdout


def test_stored_text_cannot_steer_the_terminal(run: Run, fake_service: FakeService) -> None:
    hit = Hit(segment=segment("t1", "\x1b[2Jgone \u202e[red]not markup[/red]"), rank=1)
    fake_service.will_answer("Retrieve", RetrieveResponse(hits=[hit]))

    result = run("ask", "why?")

    assert not {"\x1b", "\u202e"} & set(result.stdout)
    assert "[red]not markup[/red]" in result.stdout


def test_stored_text_in_json_cannot_steer_the_terminal(run: Run, fake_service: FakeService) -> None:
    text = "\x1b[2J \x9b2J \u202egone \u2066 \n Zoë"
    fake_service.will_answer(
        "Retrieve", RetrieveResponse(hits=[Hit(segment=segment("t1", text), rank=1)])
    )

    shown = run("ask", "--json", "why?").stdout

    assert not {"\x1b", "\x9b", "\u202e", "\u2066"} & set(shown)
    (told,) = json.loads(shown)
    assert told["retrieval"]["hits"][0]["item"]["text"] == text


def test_ask_writes_json(run: Run, fake_service: FakeService) -> None:
    answer = found("t1")
    answer.statistics.total.FromMilliseconds(12)
    fake_service.will_answer("Retrieve", answer)

    (told,) = json.loads(run("ask", "--json", "why?").stdout)

    assert told["question"]["text"] == "why?"
    assert told["retrieval"]["hits"][0]["item"]["id"] == "t1"
    assert told["retrieval"]["statistics"]["total"] == 0.012


# ---------------------------------------------------------------- show, stats, forget


def test_show_prints_segments_and_misses_none_silently(run: Run, fake_service: FakeService) -> None:
    answer = GetSegmentsResponse(segments=[segment("t1")], missing_ids=["t9"])
    fake_service.will_answer("GetSegments", answer)

    result = run("show", "t1", "t9")

    assert result.exit_code == 1
    assert "We sailed to Goa." in result.stdout
    assert result.stderr == "t9: not found\n"


def test_stats_show_counts_missing_in_time(run: Run, fake_service: FakeService) -> None:
    slow = ServiceStats(degraded=["counts: no answer in time"])
    fake_service.will_answer("GetStats", GetStatsResponse(service=slow))

    result = run("stats")

    assert result.exit_code == 0
    assert "unknown: not counted in time" in result.stdout
    assert "counts: no answer in time" in result.stdout


def test_neighbours_show_the_closing_of_a_relation(run: Run, fake_service: FakeService) -> None:
    closed = Fact(id="1", subject="Ann", relation="lives in", object="Goa")
    closed.closings.add(fact_id="2").at.FromJsonString("2026-03-01T12:00:00Z")
    ended_before = Fact(id="3", subject="Ann", relation="lives in", object="Rome")
    ended_before.valid_to.FromJsonString("2026-02-01T12:00:00Z")
    ended_before.closings.add(fact_id="2").at.FromJsonString("2026-03-01T12:00:00Z")
    open_again = Fact(id="4", subject="Ann", relation="lives in", object="Oslo")
    wrong = open_again.closings.add(fact_id="2")
    wrong.retracted_at.FromJsonString("2026-04-01T12:00:00Z")
    person = Segment(id="ann", text="Ann", entity="Ann")
    fake_service.will_answer("GetSegments", GetSegmentsResponse(segments=[person]))
    fake_service.will_answer(
        "ListFacts", ListFactsResponse(facts=[closed, ended_before, open_again])
    )

    result = run("show", "--neighbours", "ann")

    assert result.stdout.splitlines() == [
        "Ann -[lives in]-> Goa  (until 2026-03-01, closed by 2)",
        "Ann -[lives in]-> Oslo",
        "Ann -[lives in]-> Rome  (until 2026-02-01)",
    ]


def test_neighbours_are_the_relations_of_what_a_segment_stands_for(
    run: Run, fake_service: FakeService
) -> None:
    symbol = Segment(id="python:a.f", text="def f()", entity="a.f")
    fake_service.will_answer("GetSegments", GetSegmentsResponse(segments=[symbol]))
    ended = Fact(id="3", subject="a.f", relation="calls", object="a.z")
    ended.valid_to.FromJsonString("2026-03-01T12:00:00Z")
    fake_service.will_answer(
        "ListFacts",
        ListFactsResponse(
            facts=[Fact(id="1", subject="a.main", relation="calls", object="a.f")],
            next_page_token="more",
        ),
        ListFactsResponse(
            facts=[Fact(id="2", subject="a.f", relation="calls", object="a.g\x1b[2J"), ended]
        ),
    )

    result = run("show", "--neighbours", "python:a.f")

    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "a.f -[calls]-> a.g [2J",
        "a.f -[calls]-> a.z  (until 2026-03-01)",
        "a.main -[calls]-> a.f",
    ]
    asked = fake_service.requests[1:]
    assert [(each.entities, each.page_token) for each in asked] == [
        (["a.f"], ""),
        (["a.f"], "more"),
    ]


def test_neighbours_are_written_as_json(run: Run, fake_service: FakeService) -> None:
    symbol = Segment(id="s", text="def f()", entity="a.f")
    answer = GetSegmentsResponse(segments=[symbol], missing_ids=["t9"])
    fake_service.will_answer("GetSegments", answer)
    fact = Fact(id="1", subject="a.f", relation="calls", object="a.g")
    fake_service.will_answer("ListFacts", ListFactsResponse(facts=[fact]))

    result = run("show", "--json", "--neighbours", "s", "t9")

    told = json.loads(result.stdout)
    assert result.exit_code == 1
    assert [(each["id"], each["entity"]) for each in told["neighbours"]] == [("s", "a.f")]
    assert told["neighbours"][0]["facts"][0]["object"] == "a.g"
    assert told["missing_ids"] == ["t9"]


@pytest.mark.parametrize(
    ("answer", "expected", "said"),
    [
        (GetSegmentsResponse(segments=[segment("t1")]), 1, "t1: represents no entity"),
        (GetSegmentsResponse(missing_ids=["t1"]), 1, "t1: not found"),
        (
            GetSegmentsResponse(segments=[Segment(id="t1", text="a", entity="a")]),
            0,
            "t1: has no relations",
        ),
    ],
)
def test_an_id_without_neighbours_says_why(
    run: Run, fake_service: FakeService, answer: GetSegmentsResponse, expected: int, said: str
) -> None:
    fake_service.will_answer("GetSegments", answer)

    result = run("show", "--neighbours", "t1")

    assert (result.exit_code, result.stdout, result.stderr) == (expected, "", f"{said}\n")


def test_stats_are_shown(run: Run, fake_service: FakeService) -> None:
    fake_service.will_answer(
        "GetStats",
        GetStatsResponse(
            tenant=TenantStats(
                segment_count=163, embedded_count=225, embeddable_count=226, time_zone="Asia/Tokyo"
            ),
            projections=[ProjectionStats(projection="embedding", pending_count=4)],
            index=IndexStats(reason="loading"),
            dead_letters=[
                DeadLetter(projection="graph", item=ItemRef(segment_id="t7"), reason="too long")
            ],
            legs=[LegStats(leg="dense", answer_count=41, p50={"nanos": 4_200_000})],
        ),
    )

    result = run("stats")

    assert result.exit_code == 0
    for part in (
        *("163 (0 sensitive)", "225 of 226", "Asia/Tokyo"),
        *("not ready: loading", "embedding", "too long"),
    ):
        assert part in result.stdout
    (leg,) = [line.split() for line in result.stdout.splitlines() if "dense" in line]
    assert leg == ["dense", "41", "0", "0", "0", "4.2", "ms", "0.0", "ms"]


def test_stats_tell_how_vectors_are_searched(run: Run, fake_service: FakeService) -> None:
    exact = IndexTier(kind="fact", vector_count=40)
    lists = IndexTier(
        kind="segment",
        vector_count=90_000,
        approximate=True,
        rebuilding="filling 40 %",
    )
    index = IndexStats(ready=True, vector_count=90_040, epoch=3, tiers=[lists, exact])
    fake_service.will_answer("GetStats", *[GetStatsResponse(index=index)] * 2)

    shown = " ".join(run("stats").stdout.split())
    written = json.loads(run("stats", "--json").stdout)["index"]["tiers"]

    assert "90000, searched approximately; rebuild: filling 40 %" in shown
    assert "40, searched exactly" in shown
    assert written[0]["approximate"]


def test_forgetting_asks_first(run: Run, fake_service: FakeService) -> None:
    result = run("forget", "--everything", typed="n\n")

    assert result.exit_code == 1
    assert "Erase EVERYTHING of 'acme'?" in result.stderr
    assert fake_service.requests == []


def test_dry_run_shows_the_exact_names(run: Run, fake_service: FakeService) -> None:
    speakers = [SpeakerCount(speaker="j.doe", segment_count=2), SpeakerCount(segment_count=1)]
    counted = ForgetResponse(segment_count=3, fact_count=1, speakers=speakers)
    fake_service.will_answer("Forget", counted, counted)

    shown = run("forget", "--dry-run", "--speaker", "j.doe")
    written = run("forget", "--dry-run", "--speaker", "j.doe", "--json")

    assert "Would erase 3 segments and 1 facts." in shown.stdout
    assert '"j.doe"' in shown.stdout
    assert json.loads(written.stdout)["segments_by_speaker"] == {"j.doe": 2, "": 1}
    assert [(each.speaker, each.dry_run) for each in fake_service.requests] == [("j.doe", True)] * 2


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--segment-id", "t1", "--fact-id", "f1"], "ids"),
        (["--session", "s1"], "session"),
        (["--speaker", "Nora"], "speaker"),
        (["--everything"], "everything"),
        (["--label", "project=goa"], "filter"),
        (["--until", "2026-03-19"], "filter"),
    ],
)
def test_forgetting_erases_what_is_named(
    run: Run, fake_service: FakeService, arguments: list[str], expected: str
) -> None:
    receipt = StoreReceipt(store="postgres", verified=True)
    fake_service.will_answer("Forget", ForgetResponse(segment_count=1, receipts=[receipt]))

    result = run("forget", "--yes", *arguments)

    assert result.exit_code == 0
    assert fake_service.request().WhichOneof("selector") == expected
    assert "Erased 1 segments and 0 facts." in result.stdout


def test_forgetting_by_labels_and_times_sends_them_together(
    run: Run, fake_service: FakeService
) -> None:
    given = ["--label", "project=goa", "--label", "project=a=b", "--label", "source="]

    result = run("forget", *given, "--from", "2026-03-19", "--until", "2026-03-20", typed="y\n")

    sent = fake_service.request().filter
    assert [(label.key, [*label.values]) for label in sent.labels] == [
        ("project", ["goa", "a=b"]),
        ("source", [""]),
    ]
    assert sent.event_time.start.ToDatetime(tzinfo=UTC) == datetime(2026, 3, 19, tzinfo=UTC)
    assert sent.event_time.end.ToDatetime(tzinfo=UTC) == datetime(2026, 3, 20, tzinfo=UTC)
    assert "project=goa or a=b" in result.stderr
    assert "from 2026-03-19" in result.stderr


@pytest.mark.parametrize(("verified", "remaining", "expected"), [(True, 0, 0), (False, 3, 1)])
def test_forget_writes_its_receipts_as_json(
    run: Run, fake_service: FakeService, verified: bool, remaining: int, expected: int
) -> None:
    receipt = StoreReceipt(
        store="graph",
        verified=verified,
        remaining_count=remaining,
        reason="?",
        lookups=[Lookup(key=LOOKUP_KEY_TEXT, asked_count=20, found_count=3)],
    )
    fake_service.will_answer(
        "Forget", ForgetResponse(segment_count=2, fact_count=1, receipts=[receipt])
    )

    result = run("forget", "--yes", "--json", "--session", "s1")

    told = json.loads(result.stdout)
    assert result.exit_code == expected
    assert (told["segment_count"], told["fact_count"]) == (2, 1)
    assert told["receipts"] == [
        {
            "store": "graph",
            "verified": verified,
            "remaining_count": remaining,
            "reason": "?",
            "removed_count": 0,
            "lookups": [{"key": "text", "asked_count": 20, "found_count": 3}],
        }
    ]


def test_forgetting_shows_how_each_store_was_asked(run: Run, fake_service: FakeService) -> None:
    by_id = Lookup(key=LOOKUP_KEY_ID, asked_count=40)
    by_vector = Lookup(key=LOOKUP_KEY_VECTOR, asked_count=20)
    receipt = StoreReceipt(store="vector_index", verified=True, lookups=[by_id, by_vector])
    fake_service.will_answer("Forget", ForgetResponse(receipts=[receipt]))

    result = run("forget", "--yes", "--session", "s1")

    assert "40 by id, 20 by vector" in result.stdout


def test_export_writes_files_that_ingest_reads(
    run: Run, fake_service: FakeService, tmp_path: Path
) -> None:
    first = ListSegmentsResponse(segments=[segment("s1")], next_page_token="more")
    fake_service.will_answer(
        "ListSegments", first, ListSegmentsResponse(segments=[segment("s2", "We\nsang.")])
    )
    fact = Fact(id="f1", subject="Nora", relation="mentions", object="Goa", evidence=["s1"])
    fake_service.will_answer("ListFacts", ListFactsResponse(facts=[fact]))
    german = TenantStats(text_search_config="german")
    fake_service.will_answer("GetStats", GetStatsResponse(tenant=german))
    folder = tmp_path / "new" / "export"

    result = run("export", str(folder))

    assert result.exit_code == 0
    assert "2 segments and 1 facts" in result.stdout
    assert "--text-search-config german" in result.stdout
    assert (folder / "segments.jsonl").stat().st_mode & 0o077 == 0
    for name, ids in (("segments", ["s1", "s2"]), ("facts", ["f1"])):
        problems: list[Problem] = []
        found = read_items([str(folder / f"{name}.jsonl")], problems.append)
        assert ([each.item.id for each in found], problems) == (ids, [])


def test_export_overwrites_nothing_and_leaves_no_part(
    run: Run, fake_service: FakeService, tmp_path: Path
) -> None:
    first = ListSegmentsResponse(segments=[segment("s1")], next_page_token="more")
    fake_service.will_answer("ListSegments", first, Failure(grpc.StatusCode.NOT_FOUND, "gone"))

    assert run("export", str(tmp_path)).exit_code != 0
    assert list(tmp_path.iterdir()) == []

    (tmp_path / "segments.jsonl").write_text("mine")
    result = run("export", str(tmp_path))

    assert result.exit_code != 0
    assert "segments.jsonl: File exists" in result.stderr
    assert (tmp_path / "segments.jsonl").read_text() == "mine"

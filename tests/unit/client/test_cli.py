from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.testing import CliRunner
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2

from tests.fakes.service import Failure, FakeService
from tests.fixtures.client import CommandLine
from trivium.cli.app import trivium
from trivium.files.reading import read_items
from trivium.files.records import Problem
from trivium.v1.admin_service_pb2 import (
    AuditEntry,
)
from trivium.v1.fact_pb2 import Fact
from trivium.v1.ingest_service_pb2 import (
    IngestStreamResponse,
)
from trivium.v1.retrieval_service_pb2 import (
    Hit,
    RetrieveRequest,
    RetrieveResponse,
)
from trivium.v1.segment_pb2 import Segment

TURN = {"id": "t1", "text": "We sailed."}


def segment(id_: str, text: str = "We sailed to Goa.") -> Segment:
    return Segment(id=id_, text=text, speaker="Nora")


def found(*ids: str) -> RetrieveResponse:
    hits = [
        Hit(segment=segment(id_), rank=rank, score=1 / rank, legs=["lexical", "dense", "graph"])
        for rank, id_ in enumerate(ids, start=1)
    ]
    return RetrieveResponse(hits=hits, profile="default")


def written(folder: Path, *lines: object, name: str = "corpus.jsonl") -> str:
    path = folder / name
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return str(path)


# ---------------------------------------------------------------- help and errors


def test_help_documents_the_exit_codes(cli: CommandLine) -> None:
    result = cli.run("--help")

    assert result.exit_code == 0
    assert "  4  the service is unreachable or overloaded; try again" in result.output


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (grpc.StatusCode.UNAVAILABLE, "", 4),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "", 4),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "", 5),
        (grpc.StatusCode.INVALID_ARGUMENT, "", 6),
        (grpc.StatusCode.FAILED_PRECONDITION, "", 6),
        (grpc.StatusCode.UNAUTHENTICATED, "", 6),
        (grpc.StatusCode.INTERNAL, "", 7),
        (grpc.StatusCode.NOT_FOUND, "ITEM_NOT_FOUND", 1),
        (grpc.StatusCode.ABORTED, "VERSION_CONFLICT", 6),
    ],
)
def test_error_of_the_service_is_an_exit_code_and_a_line(
    cli: CommandLine, code: grpc.StatusCode, reason: str, expected: int
) -> None:
    details = [error_details_pb2.ErrorInfo(reason=reason)] if reason else []
    cli.service.will_answer("GetStats", *[Failure(code, "as told", details)] * 4)

    result = cli.run("stats")

    assert result.exit_code == expected
    assert result.stderr == f"Error: {reason or code.name}: as told\n"


def test_error_shows_its_details(cli: CommandLine) -> None:
    violation = error_details_pb2.BadRequest.FieldViolation(field="limit", description="below 0")
    details = [
        error_details_pb2.ErrorInfo(reason="INVALID_FIELD", domain="trivium.v1"),
        error_details_pb2.BadRequest(field_violations=[violation]),
        error_details_pb2.RetryInfo(retry_delay=Duration(seconds=1)),
        error_details_pb2.RequestInfo(request_id="r-7"),
    ]
    failure = Failure(grpc.StatusCode.INVALID_ARGUMENT, "malformed", details)

    result = cli.run("ask", "why?", "--limit", "-1", Retrieve=failure)

    assert result.stderr.splitlines() == [
        "Error: INVALID_FIELD: 1 invalid field",
        "  limit: below 0",
        "  try again in 1 s",
        "  in the server's log: r-7",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ask"], ""),
        (["ask", "--file", "no such file"], ""),
        (["ask", "cut \udcff"], "not in the encoding of the terminal"),
        (["--time-zone", "Mars", "ask", "why?", "--as-of", "2026-03-19"], "'Mars' is no time zone"),
        (["ask", "why?", "--as-of", "19 March"], "such as 2026-03-19 or"),
        (["ask", "why?", "--filter", '{"colour": "red"}'], "is no filter"),
        (["ask", "why?", "--ask-tenant", "mine=much"], "'much' is no number"),
        (["ask", "why?", "--ask-tenant", "me", "--ask-tenant", "me=2"], "'me' is named twice"),
        (["ingest"], ""),
        (["ingest", "no such file"], ""),
        (["forget"], ""),
        (["forget", "--session", "a", "--everything"], ""),
        (["forget", "--session", "a", "--from", "2026-03-19"], ""),
        (["forget", "--label", "project"], ""),
        (["forget", "--label", "=goa"], ""),
        *(
            (["--timeout", each, "stats"], "is not in the range")
            for each in ("0", "inf", "1e30", "nan")
        ),
        (["show"], ""),
        (["describe"], "give either --speaker or --entity"),
        (["patch", "--title", "Trip"], "exactly one of --segment-id and --fact-id"),
        (["compare", "why?"], "missing --against or --against-override"),
        *(
            (["ask", "why?", *each], "Invalid value for '--profile-override'")
            for each in (
                ["--profile-override", "limit"],
                ["--profile-override", "=3"],
                ["--profile-override", "limit=3", "--profile-override", "limit.depth=4"],
            )
        ),
    ],
)
def test_wrong_command_line_is_a_usage_error(
    cli: CommandLine, arguments: list[str], said: str
) -> None:
    result = cli.run(*arguments)

    assert (result.exit_code, said in result.stderr) == (2, True)


def test_tenant_must_be_named(cli: CommandLine) -> None:
    result = cli.run("stats", tenant="")

    assert result.exit_code == 2
    assert "missing --tenant or TRIVIUM_TENANT" in result.stderr


@pytest.mark.parametrize(
    ("options", "variables"), [(["--tenant", "alice"], {}), ([], {"TRIVIUM_TENANT": "alice"})]
)
def test_tenant_follows_the_command_or_is_a_variable(
    fake_service: FakeService, options: list[str], variables: dict[str, str]
) -> None:
    environment = {"TRIVIUM_ADDRESS": fake_service.address, **variables}

    result = CliRunner(env=environment).invoke(trivium, ["stats", *options])

    assert result.exit_code == 0
    assert fake_service.request().tenant == "alice"


def test_interruption_is_clean(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt  # what SIGINT becomes, where it is not ignored

    monkeypatch.setattr("trivium.client.Client.stats", interrupt)

    result = cli.run("stats")

    assert (result.exit_code, result.stderr) == (130, "interrupted\n")


def test_timeout_is_that_of_the_call(cli: CommandLine) -> None:
    cli.run("--timeout", "100", "stats")

    assert cli.service.deadlines_s == [pytest.approx(100, rel=0.1)]


# ---------------------------------------------------------------- ingest


def test_files_are_stored_and_counted(cli: CommandLine, tmp_path: Path) -> None:
    fact = {"subject": "Nora", "relation": "likes", "object": "Goa", "evidence": ["t1"]}
    files = [written(tmp_path, TURN), written(tmp_path, fact, name="facts.jsonl")]

    result = cli.run("ingest", *files, IngestStream={"created_count": 2})

    (message,) = cli.service.request()
    assert result.exit_code == 0
    assert [each.WhichOneof("item") for each in message.items] == ["segment", "fact"]
    assert "acme" in result.stdout
    assert "2/2" in result.stderr


def test_times_without_a_zone_are_counted(cli: CommandLine, tmp_path: Path) -> None:
    times = ("2026-03-19T18:30:00", "2026-03-19T18:30:00Z", "")
    corpus = written(tmp_path, *[{**TURN, "id": at, "timestamp": at} for at in times])

    result = cli.run("ingest", corpus, IngestStream={"created_count": 3})

    assert "read the times of 1 items, which have no time zone, as UTC" in result.stdout


def test_token_is_whole_on_a_narrow_terminal(cli: CommandLine, tmp_path: Path) -> None:
    stored = IngestStreamResponse(consistency_token="1~" + 90 * "9")

    result = cli.run("ingest", written(tmp_path, TURN), IngestStream=stored)

    assert result.stdout.splitlines()[-1] == f"consistency token {stored.consistency_token}"


def test_bad_lines_are_named_and_counted_others_stored(cli: CommandLine, tmp_path: Path) -> None:
    corpus = written(tmp_path, {"id": "t2"}, {"id": "t3", "colour": "red"}, TURN)

    result = cli.run("ingest", corpus, IngestStream={"rejected_count": 1})

    (message,) = cli.service.request()
    assert [item.segment.id for item in message.items] == ["t1"]
    assert f"{corpus}:1: 'text' is missing or blank" in result.stderr
    # Whoever rejects them.
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (3, "rejected 3 lines")


def test_rejected_items_are_named_by_their_line(cli: CommandLine, tmp_path: Path) -> None:
    corpus = written(tmp_path, *[{**TURN, "id": f"t{place}"} for place in range(3)])
    stored = IngestStreamResponse(rejected_count=1)
    rejected = stored.rejected.add(index=1, item={"segment_id": "t1"}, state="ITEM_STATE_REJECTED")
    rejected.violations.add(field="items[1].segment.id", description="is too long")

    result = cli.run("ingest", corpus, IngestStream=stored)

    assert result.exit_code == 3
    assert f"{corpus}:2: id is too long" in result.stderr


def test_scopes_become_tenants(cli: CommandLine, tmp_path: Path) -> None:
    corpus = written(tmp_path, {**TURN, "scope": "conv-1"}, {**TURN, "scope": "conv-2"}, TURN)

    cli.run("ingest", "--tenant-from-scope", corpus)

    tenants = [message.tenant for (message,) in cli.service.requests]
    assert tenants == ["conv-1", "conv-2", "acme"]


def test_standard_input_is_stored(cli: CommandLine) -> None:
    result = cli.run("ingest", "-", typed="Nora: We sailed.\n")

    (message,) = cli.service.request()
    assert result.exit_code == 0
    assert message.items[0].segment.speaker == "Nora"


# ---------------------------------------------------------------- ask


def test_hits_are_shown_with_retrievers_and_coercions(cli: CommandLine) -> None:
    answer = found("t1")
    answer.coercions.add(field="limit", given="200", used="100")

    result = cli.run("ask", "Where did we sail?", Retrieve=answer)

    assert result.exit_code == 0
    for part in ("words, meaning", "relations (graph)", "We sailed to Goa."):
        assert part in result.stdout
    assert "limit: 100 instead of 200" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 90


def test_empty_answer_is_reported(cli: CommandLine) -> None:
    known = {"tenant": {"text_search_config": "english"}}

    result = cli.run("ask", "Where did we sail?", GetStats=known)

    assert (result.exit_code, result.stderr) == (0, "")
    assert "nothing found" in result.stdout


@pytest.mark.parametrize("command", [["ask"], ["compare", "--against", "annie"]])
def test_unknown_tenant_is_said(cli: CommandLine, command: list[str]) -> None:
    result = cli.run(*command, "Where did we sail?", GetStats={"tenant": {}})

    assert result.exit_code == 1
    assert result.stderr == "acme: unknown tenant, nothing is stored for it\n"


@pytest.mark.parametrize(
    ("options", "given", "sent"),
    [
        ([], "2026-03-19", "2026-03-19T00:00:00Z"),
        ([], "2026-03-19T18:30:00Z", "2026-03-19T18:30:00Z"),
        ([], "2026-03-19T18:30:00+00:00", "2026-03-19T18:30:00Z"),
        (["--time-zone", "Asia/Kolkata"], "2026-03-19", "2026-03-18T18:30:00Z"),
        (["--time-zone", "-08:00"], "2026-03-19", "2026-03-19T08:00:00Z"),
        (["--time-zone", "UTC"], "2026-03-19", "2026-03-19T00:00:00Z"),
    ],
)
def test_time_without_a_zone_is_the_callers(
    cli: CommandLine, options: list[str], given: str, sent: str
) -> None:
    cli.run(*options, "ask", "why?", "--as-of", given, Retrieve=found("t1"))

    assert cli.service.request().as_of.ToJsonString() == sent


@pytest.mark.parametrize(
    ("expected", "code", "told"),
    [
        ("t3", 0, "t3 is at rank 3"),
        ("t4", 1, "t4 is at rank 4, not among the first 3"),
        ("t9", 1, "t9 is not among the 4 hits"),
    ],
)
def test_expected_hit_must_be_among_the_first_three(
    cli: CommandLine, expected: str, code: int, told: str
) -> None:
    hits = found("t1", "t2", "t3", "t4")

    result = cli.run("ask", "why?", "--expect", expected, Retrieve=hits)

    assert result.exit_code == code
    assert told in result.stdout.splitlines()


def test_questions_of_a_file_are_asked_and_summed_up(cli: CommandLine, tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {"text": "one?", "answer": ["t1"], "as_of": "2025-10-01T00:00:00Z"},
        {"text": "two?", "answer": ["t9"]},
        {"text": "three?", "answerable": False},
    )
    cli.service.will_answer("Retrieve", found("t1"), found("t2"))

    result = cli.run("ask", "--file", path)

    assert result.exit_code == 1
    assert [request.query for request in cli.service.requests] == ["one?", "two?", "three?"]
    assert cli.service.requests[0].as_of.ToJsonString() == "2025-10-01T00:00:00Z"
    assert "has no answer, and no hits" in result.stdout
    assert result.stdout.splitlines()[-1] == (
        "1 of 2 answers among the first 3; no hits for 1 of 1 questions without an answer."
    )


def test_explanation_shows_the_ledger_and_the_times(cli: CommandLine) -> None:
    path = "harmonium -[repaired by]-> Anselm"
    graph = {"leg": "graph", "rank": 2, "weight": 2, "leg_score": 0.25, "term": 2 / 62}
    ledger = {
        "leg_terms": [{**graph, "path": path, "fact_ids": ["f1"]}],
        "rank_constant": 60,
        "method": "FUSION_METHOD_RECIPROCAL_RANK",
    }
    late = {"leg": "dense", "state": "LEG_STATE_TIMED_OUT", "reason": "the budget ran out"}
    answer = {
        "hits": [{"segment": segment("t1"), "legs": ["graph"], "ledger": ledger}],
        "leg_reports": [{"leg": "graph", "elapsed": {"nanos": 4_200_000}}, late],
        "statistics": {"total": {"nanos": 12_300_000}},
    }

    result = cli.run("ask", "--explain", "why?", Retrieve=answer)

    assert cli.service.request().explain
    for part in (
        "graph: 2 / (60 + 2) = 0.0322581 (leg score 0.25)",
        path,
        "evidence of f1",
        "4.2 ms",
        "total 12.3 ms",
        "dense timed out: the budget ran out",
    ):
        assert part in result.stdout


def test_options_of_ask_reach_the_service(cli: CommandLine) -> None:
    chosen = ["--limit", "7", "--profile", "annie", "--consistency-token", "1~e~0~9"]
    clocks = ["--as-of", "2025-10-01", "--known-at", "2025-10-02"]
    changes = ["legs.graph.weight=0", "sort=recency"]
    weights = [part for each in changes for part in ("--profile-override", each)]

    cli.run("ask", *chosen, *clocks, *weights, "--seed-id", "a", "--required-leg", "graph", "why?")

    assert cli.service.requests[0] == RetrieveRequest(
        tenant="acme",
        query="why?",
        time_budget=Duration(seconds=1, nanos=800_000_000),
        limit=7,
        profile="annie",
        as_of=datetime(2025, 10, 1),
        known_at=datetime(2025, 10, 2),
        consistency_token="1~e~0~9",
        profile_overrides={"legs": {"graph": {"weight": 0}}, "sort": "recency"},
        seed_ids=["a"],
        required_legs=["graph"],
    )


def test_filter_of_ask_is_json(cli: CommandLine) -> None:
    given = '{"any_of": [{"kinds": ["note"]}, {"labels": [{"key": "a", "number": {"min": 3}}]}]}'

    cli.run("ask", "--filter", given, "why?")

    kinds, labels = cli.service.requests[0].filter.any_of
    assert list(kinds.kinds) == ["note"]
    assert labels.labels[0].number.min == 3


def test_tenants_of_ask_are_asked_together(cli: CommandLine) -> None:
    hit = {"segment": segment("t1"), "rank": 1, "tenant": "family"}

    shown = cli.run(
        *("ask", "--ask-tenant", "mine", "--ask-tenant", "family=0.5", "why?"),
        tenant="",
        Retrieve={"hits": [hit]},
    ).stdout

    request = cli.service.requests[0]
    assert request.tenant == ""
    assert [(each.tenant, each.weight) for each in request.tenants] == [
        ("mine", 1),
        ("family", 0.5),
    ]
    assert "family · t1" in shown


def test_briefing_is_shown_in_place_of_the_hits(cli: CommandLine) -> None:
    block = "<memory>\n- Nora said\n</memory>"

    result = cli.run("ask", "--briefing", "why?", Retrieve={"briefing": block})

    assert cli.service.requests[0].HasField("briefing")
    assert block in result.stdout


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("\x1b[2Jgone \u202e[red]not markup[/red]", []),
        ("\x1b[2J \x9b2J \u202egone \u2066 \n Zoë", ["--json"]),
    ],
    ids=["table", "json"],
)
def test_stored_text_cannot_steer_the_terminal(
    cli: CommandLine, text: str, options: list[str]
) -> None:
    answer = {"hits": [{"segment": segment("t1", text), "rank": 1}]}

    shown = cli.run("ask", *options, "why?", Retrieve=answer).stdout

    assert not {"\x1b", "\x9b", "\u202e", "\u2066"} & set(shown)
    if options:
        (told,) = json.loads(shown)
        assert told["retrieval"]["hits"][0]["item"]["text"] == text
    else:
        assert "[red]not markup[/red]" in shown


def test_ask_writes_json(cli: CommandLine) -> None:
    answer = found("t1")
    answer.statistics.total.FromMilliseconds(12)

    (told,) = json.loads(cli.run("ask", "--json", "why?", Retrieve=answer).stdout)

    assert told["question"]["text"] == "why?"
    assert told["retrieval"]["hits"][0]["item"]["id"] == "t1"
    assert told["retrieval"]["statistics"]["total"] == 0.012


# ---------------------------------------------------------------- show, stats


def test_show_prints_segments_and_misses_none_silently(cli: CommandLine) -> None:
    answer = {"segments": [segment("t1")], "missing_ids": ["t9"]}

    result = cli.run("show", "t1", "t9", GetSegments=answer)

    assert result.exit_code == 1
    assert "We sailed to Goa." in result.stdout
    assert result.stderr == "t9: not found\n"


def test_description_is_shown_or_said_to_be_empty(cli: CommandLine) -> None:
    block = "<memory>\n- Mia likes tea\n</memory>"
    cli.service.will_answer("DescribeEntity", {"briefing": block})

    known = cli.run("describe", "--entity", "Mia", "--max-chars", "300")
    unknown = cli.run("describe", "--speaker", "Mia")

    assert (known.exit_code, known.stdout.strip()) == (0, block)
    assert (unknown.exit_code, unknown.stdout) == (1, "nothing is known\n")
    first, second = cli.service.requests
    assert (first.entity, first.max_chars, second.speaker) == ("Mia", 300, "Mia")


def test_changes_are_shown_as_lines_until_an_error(cli: CommandLine) -> None:
    change = {"item": {"segment_id": "t1"}, "change": "CHANGE_KIND_STORED", "token": "2~e~4~~"}
    answer = {"changes": [change], "token": "2~e~5~~"}
    gone = Failure(grpc.StatusCode.FAILED_PRECONDITION, "gone")
    cli.service.will_answer("WatchChanges", answer, gone, answer, gone)

    shown = cli.run("watch", "--after-token", "2~e~3~~")
    as_json = cli.run("watch", "--json")

    assert (shown.exit_code, shown.stdout) == (6, "stored segment t1 2~e~4~~\n")
    assert json.loads(as_json.stdout) == {
        "item": {"kind": "segment", "id": "t1"},
        "change": "stored",
        "token": "2~e~4~~",
    }
    tokens = [each.after_token for each in cli.service.requests]
    assert tokens == ["2~e~3~~", "2~e~5~~", "", "2~e~5~~"]


def lives_in(place: str, **fields: str) -> Fact:
    fact = Fact(id=place, subject="Ann", relation="lives in", object=place)
    if until := fields.get("until"):
        fact.valid_to.FromJsonString(until)
    if closed := fields.get("closed"):
        fact.closings.add(fact_id="2").at.FromJsonString(closed)
    if retracted := fields.get("retracted"):
        fact.closings.add(fact_id="2").retracted_at.FromJsonString(retracted)
    return fact


def test_neighbours_show_the_closing_of_a_relation(cli: CommandLine) -> None:
    facts = [
        lives_in("Goa", closed="2026-03-01T12:00:00Z"),
        lives_in("Rome", until="2026-02-01T12:00:00Z", closed="2026-03-01T12:00:00Z"),
        lives_in("Oslo", retracted="2026-04-01T12:00:00Z"),
        lives_in("Leeds", until="2026-01-01T12:00:00Z"),
    ]
    person = {"segments": [{"id": "ann", "text": "Ann", "entity": "Ann"}]}

    result = cli.run(
        *("show", "--neighbours", "ann"),
        GetSegments=person,
        ListFacts={"facts": facts},
    )

    assert result.stdout.splitlines() == [
        "Ann -[lives in]-> Goa  (until 2026-03-01, closed by 2)",
        "Ann -[lives in]-> Leeds  (until 2026-01-01)",
        "Ann -[lives in]-> Oslo",
        "Ann -[lives in]-> Rome  (until 2026-02-01)",
    ]


def test_neighbours_are_relations_of_the_segment_entity(cli: CommandLine) -> None:
    symbol = {"id": "python:a.f", "text": "def f()", "entity": "a.f"}
    calls = [
        Fact(id=each, subject=each, relation="calls", object=called)
        for each, called in (("a.main", "a.f"), ("a.f", "a.g\x1b[2J"))
    ]
    cli.service.will_answer(
        "ListFacts",
        {"facts": calls[:1], "next_page_token": "more"},
        {"facts": calls[1:]},
    )

    result = cli.run("show", "--neighbours", "python:a.f", GetSegments={"segments": [symbol]})

    assert result.exit_code == 0
    assert result.stdout.splitlines() == ["a.f -[calls]-> a.g [2J", "a.main -[calls]-> a.f"]
    asked = [(list(each.entities), each.page_token) for each in cli.service.requests[1:]]
    assert asked == [(["a.f"], ""), (["a.f"], "more")]


def test_neighbours_are_written_as_json(cli: CommandLine) -> None:
    symbol = {"id": "s", "text": "def f()", "entity": "a.f"}
    fact = {"id": "1", "subject": "a.f", "relation": "calls", "object": "a.g"}

    result = cli.run(
        *("show", "--json", "--neighbours", "s", "t9"),
        GetSegments={"segments": [symbol], "missing_ids": ["t9"]},
        ListFacts={"facts": [fact]},
    )

    told = json.loads(result.stdout)
    assert result.exit_code == 1
    assert [(each["id"], each["entity"]) for each in told["neighbours"]] == [("s", "a.f")]
    assert told["neighbours"][0]["facts"][0]["object"] == "a.g"
    assert told["missing_ids"] == ["t9"]


@pytest.mark.parametrize(
    ("segments", "expected", "said"),
    [
        ([segment("t1")], 1, "t1: represents no entity"),
        ([], 1, "t1: not found"),
        ([Segment(id="t1", text="a", entity="a")], 0, "t1: has no relations"),
    ],
)
def test_an_id_without_neighbours_says_why(
    cli: CommandLine, segments: list[Segment], expected: int, said: str
) -> None:
    answer = {"segments": segments, "missing_ids": [] if segments else ["t1"]}

    result = cli.run("show", "--neighbours", "t1", GetSegments=answer)

    assert (result.exit_code, result.stdout, result.stderr) == (expected, "", f"{said}\n")


COUNTS = {"segment_count": 163, "embedded_count": 225, "embeddable_count": 226}
LETTER = {"projection": "graph", "item": {"segment_id": "t7"}, "reason": "too long"}
LISTS = {"kind": "segment", "vector_count": 90_000, "approximate": True}


@pytest.mark.parametrize(
    ("answer", "parts"),
    [
        (
            {"tenant": {**COUNTS, "time_zone": "Asia/Tokyo"}},
            ["segments 163 (0 sensitive)", "225 of 226", "Asia/Tokyo"],
        ),
        (
            {"service": {"degraded": ["counts: no answer in time"]}},
            ["unknown: not counted in time", "counts: no answer in time"],
        ),
        ({"index": {"reason": "loading"}}, ["not ready: loading"]),
        (
            {"index": {"ready": True, "tiers": [{**LISTS, "rebuilding": "filling 40 %"}]}},
            ["vectors of segments 90000, searched approximately; rebuild: filling 40 %"],
        ),
        (
            {"index": {"ready": True, "tiers": [{"kind": "fact", "vector_count": 40}]}},
            ["vectors of facts 40, searched exactly"],
        ),
        (
            {"projections": [{"projection": "embedding", "pending_count": 4}]},
            ["embedding 4 0.0 s 0"],
        ),
        ({"dead_letters": [LETTER]}, ["graph t7 too long"]),
        (
            {"legs": [{"leg": "dense", "answer_count": 41, "p50": {"nanos": 4_200_000}}]},
            ["dense 41 0 0 0 4.2 ms 0.0 ms"],
        ),
    ],
    ids=["counts", "slow", "loading", "lists", "exact", "projections", "dead letters", "legs"],
)
def test_stats_are_shown(cli: CommandLine, answer: dict[str, Any], parts: list[str]) -> None:
    result = cli.run("stats", GetStats=answer)

    assert result.exit_code == 0
    shown = " ".join(result.stdout.split())
    assert [part for part in parts if part not in shown] == []


def test_stats_are_written_as_json(cli: CommandLine) -> None:
    shown = cli.run("stats", "--json", GetStats={"index": {"tiers": [LISTS]}}).stdout

    assert json.loads(shown)["index"]["tiers"][0]["approximate"]


def test_tenants_are_listed_without_a_tenant(cli: CommandLine) -> None:
    held = {"segment_count": 3, "text_bytes": 70, "text_search_config": "english"}
    answer = {"tenants": [{"name": "ac\x1bme", **held}]}

    shown = cli.run("tenants", tenant="", ListTenants=answer).stdout
    written = json.loads(cli.run("tenants", "--json", tenant="", ListTenants=answer).stdout)

    assert shown.splitlines()[1].split() == ["ac", "me", "3", "0", "70", "english"]
    assert (written[0]["name"], written[0]["newest_event_time"]) == ("ac\x1bme", None)


def test_audit_log_is_shown_to_its_limit(cli: CommandLine) -> None:
    entry = AuditEntry(caller="key k1", rpc="Forget", tenant="acme", erased_count=3)
    entry.at.FromDatetime(datetime(2026, 3, 1, 12))
    page = {"entries": [entry, entry], "next_page_token": "more"}

    shown = cli.run("audit", "--limit", "1", ListAuditEntries=page).stdout
    of_all = cli.run("audit", "--all-tenants", "--limit", "2", tenant="", ListAuditEntries=page)

    assert shown.splitlines()[1].split() == (
        ["2026-03-01", "12:00:00", "key", "k1", "Forget", "acme", "0", "0", "3"]
    )
    assert len(of_all.stdout.splitlines()) == 3
    assert [(each.tenant, each.page_size) for each in cli.service.requests] == [
        ("acme", 1),
        ("", 2),
    ]


# ---------------------------------------------------------------- forget, export


def test_patch_changes_the_named_fields(cli: CommandLine) -> None:
    stored = {"id": "a", "text": "We sailed.", "version": 2}
    options = ("--label", "mood=a=b", "--remove-label", "at", "--if-version", "1")

    result = cli.run(
        *("patch", "--segment-id", "a", "--title", "Trip", *options),
        Patch={"segment": stored},
    )

    sent = cli.service.request()
    assert (sent.item.segment_id, sent.title, sent.if_version) == ("a", "Trip", 1)
    assert (dict(sent.set_labels), list(sent.remove_labels)) == ({"mood": "a=b"}, ["at"])
    assert not sent.HasField("text")
    assert result.exit_code == 0
    assert "We sailed." in result.stdout


def test_forgetting_asks_first(cli: CommandLine) -> None:
    result = cli.run("forget", "--everything", typed="n\n")

    assert result.exit_code == 1
    assert "Erase EVERYTHING of 'acme'?" in result.stderr
    assert cli.service.requests == []


def test_dry_run_shows_the_exact_names(cli: CommandLine) -> None:
    speakers = [{"speaker": "j.doe", "segment_count": 2}, {"segment_count": 1}]
    counted = {"segment_count": 3, "fact_count": 1, "speakers": speakers}
    command = ["forget", "--dry-run", "--speaker", "j.doe"]

    shown = cli.run(*command, Forget=counted).stdout
    written = json.loads(cli.run(*command, "--json", Forget=counted).stdout)

    assert "Would erase 3 segments and 1 facts." in shown
    assert '"j.doe"' in shown
    assert written["segments_by_speaker"] == {"j.doe": 2, "": 1}
    assert [(each.speaker, each.dry_run) for each in cli.service.requests] == [("j.doe", True)] * 2


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
def test_forgetting_erases_the_named_items(
    cli: CommandLine, arguments: list[str], expected: str
) -> None:
    lookups = [
        {"key": "LOOKUP_KEY_ID", "asked_count": 40},
        {"key": "LOOKUP_KEY_VECTOR", "asked_count": 20},
    ]
    receipt = {"store": "postgres", "verified": True, "lookups": lookups}
    erased = {"segment_count": 1, "receipts": [receipt]}

    result = cli.run("forget", "--yes", *arguments, Forget=erased)

    assert result.exit_code == 0
    assert cli.service.request().WhichOneof("selector") == expected
    assert "Erased 1 segments and 0 facts." in result.stdout
    assert "40 by id, 20 by vector" in result.stdout


def test_forgetting_by_labels_and_times_sends_them_together(cli: CommandLine) -> None:
    given = ["--label", "project=goa", "--label", "project=a=b", "--label", "source="]

    result = cli.run("forget", *given, "--from", "2026-03-19", "--until", "2026-03-20", typed="y\n")

    sent = cli.service.request().filter
    labels = [(label.key, [*label.values]) for label in sent.labels]
    assert labels == [("project", ["goa", "a=b"]), ("source", [""])]
    assert sent.event_time.start.ToDatetime(tzinfo=UTC) == datetime(2026, 3, 19, tzinfo=UTC)
    assert sent.event_time.end.ToDatetime(tzinfo=UTC) == datetime(2026, 3, 20, tzinfo=UTC)
    assert "project=goa or a=b" in result.stderr
    assert "from 2026-03-19" in result.stderr


@pytest.mark.parametrize(("verified", "remaining", "expected"), [(True, 0, 0), (False, 3, 1)])
def test_forget_writes_its_receipts_as_json(
    cli: CommandLine, verified: bool, remaining: int, expected: int
) -> None:
    receipt = {
        "store": "graph",
        "verified": verified,
        "remaining_count": remaining,
        "reason": "?",
        "lookups": [{"key": "LOOKUP_KEY_TEXT", "asked_count": 20, "found_count": 3}],
    }
    erased = {"segment_count": 2, "fact_count": 1, "receipts": [receipt]}

    result = cli.run("forget", "--yes", "--json", "--session", "s1", Forget=erased)

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


def test_export_writes_files_that_ingest_reads(cli: CommandLine, tmp_path: Path) -> None:
    cli.service.will_answer(
        "ListSegments",
        {"segments": [segment("s1")], "next_page_token": "more"},
        {"segments": [segment("s2", "We\nsang.")]},
    )
    told = {"subject": "Nora", "relation": "mentions", "object": "Goa"}
    fact = {"id": "f1", **told, "evidence": ["s1"]}
    folder = tmp_path / "new" / "export"

    result = cli.run(
        *("export", str(folder)),
        ListFacts={"facts": [fact]},
        GetStats={"tenant": {"text_search_config": "german"}},
    )

    assert result.exit_code == 0
    assert "2 segments and 1 facts" in result.stdout
    assert "--text-search-config german" in result.stdout
    assert (folder / "segments.jsonl").stat().st_mode & 0o077 == 0
    for name, ids in (("segments", ["s1", "s2"]), ("facts", ["f1"])):
        problems: list[Problem] = []
        found = read_items([str(folder / f"{name}.jsonl")], problems.append)
        assert ([each.item.id for each in found], problems) == (ids, [])


def test_export_overwrites_nothing_and_leaves_no_part(cli: CommandLine, tmp_path: Path) -> None:
    first = {"segments": [segment("s1")], "next_page_token": "more"}
    cli.service.will_answer("ListSegments", first, Failure(grpc.StatusCode.NOT_FOUND, "gone"))

    assert cli.run("export", str(tmp_path)).exit_code != 0
    assert list(tmp_path.iterdir()) == []

    (tmp_path / "segments.jsonl").write_text("mine")
    result = cli.run("export", str(tmp_path))

    assert result.exit_code != 0
    assert "segments.jsonl: File exists" in result.stderr
    assert (tmp_path / "segments.jsonl").read_text() == "mine"

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.json_format import ParseDict

from bench.harness.collection import Query
from bench.harness.results import Json
from bench.speed.ghz.__main__ import (
    CONFIG,
    settings_of,
    summary_of,
    write_descriptors,
    write_requests,
)
from bench.speed.ghz.figures import open_loops_table
from trivium.v1.retrieval_service_pb2 import RetrieveRequest

QUERY = Query(id="q", tenant="t", text="Where?", as_of=datetime(2024, 1, 1, tzinfo=UTC))


def test_questions_are_written_as_requests_that_protobuf_reads(tmp_path: Path) -> None:
    write_requests([QUERY, QUERY], tmp_path / "requests.json")

    first, _ = json.loads((tmp_path / "requests.json").read_text())
    request = ParseDict(first, RetrieveRequest())
    assert (request.tenant, request.query, request.limit) == ("t", "Where?", 10)
    assert request.as_of.ToDatetime(tzinfo=UTC) == QUERY.as_of


def test_the_summary_leaves_the_list_of_calls_out() -> None:
    calls: list[Json] = [{"latency": ns, "status": "OK"} for ns in (3_000_000, 5_000_000)]
    summary = summary_of({"count": 2, "rps": 10.5, "details": calls}, {})

    assert (summary["count"], summary["rps"]) == (2, 10.5)
    assert summary["byStatus"] == {"OK": {"count": 2, "p50_ms": 3.0, "p95_ms": 5.0}}
    assert "details" not in summary


def test_the_descriptors_hold_the_method_that_is_called_and_all_it_imports(tmp_path: Path) -> None:
    write_descriptors(tmp_path / "some.protoset")

    files = FileDescriptorSet.FromString((tmp_path / "some.protoset").read_bytes()).file
    methods = {
        f"{file.package}.{service.name}.{method.name}"
        for file in files
        for service in file.service
        for method in service.method
    }
    assert json.loads(CONFIG.read_text())["call"] in methods
    assert {name for file in files for name in file.dependency} <= {file.name for file in files}


def test_an_open_loop_has_a_rate_and_workers_for_all_calls_that_may_be_open() -> None:
    settings = settings_of(200, budget_s=0.3, seconds=10)

    assert (settings["rps"], settings["total"], settings["timeout"]) == (200, 2000, "300ms")
    assert (settings["async"], settings["concurrency"]) == (True, 120)
    assert settings_of(None, 0.3, 10) == json.loads(CONFIG.read_text())


def test_an_open_loop_is_shown_by_what_became_of_its_calls() -> None:
    statuses = ["OK"] * 3 + ["ResourceExhausted"] * 5 + ["DeadlineExceeded"] * 2
    calls: list[Json] = [
        {"latency": milliseconds * 1_000_000, "status": status}
        for milliseconds, status in enumerate(statuses, start=1)
    ]
    summary = summary_of({"count": 10, "details": calls}, settings_of(100, 0.05, 1))

    assert open_loops_table([summary]).splitlines()[-1] == (
        "| 50ms | 100 | 30 | 2 | 3 | 50.0% | 8 | 20.0% |"
    )

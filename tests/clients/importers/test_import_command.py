from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.clients.importers.importing import EXPORTS, written
from tests.fakes.service import FakeService
from tests.fixtures.client import CommandLine
from trivium.v1.ingest_service_pb2 import IngestStreamResponse
from trivium_importers.command import trivium_import

MEM0 = str(EXPORTS / "mem0.json")
HASH = "7c9e0ae099b0034676c97ee084ceaac5"


@pytest.fixture
def cli(fake_service: FakeService) -> CommandLine:
    return CommandLine(fake_service, trivium_import, columns=200)


def test_items_of_an_export_are_stored_and_the_report_printed(cli: CommandLine) -> None:
    result = cli.run("mem0", MEM0, IngestStream={"created_count": 2})

    (message,) = cli.service.request()
    assert result.exit_code == 0
    assert [item.segment.session for item in message.items] == ["call-1", ""]
    assert "2/2" in result.stderr
    shown = [line.split() for line in result.stdout.splitlines()]
    assert ["memory", "segment", "2"] in shown
    assert ["memory.hash", "2", f'"{HASH}"', f"{MEM0}:1:", "results[0]"] in shown
    assert ["acme", "2", "0", "0"] in shown


def test_dry_run_reports_the_same_and_calls_no_service(cli: CommandLine) -> None:
    result = cli.run("mem0", "--dry-run", MEM0, tenant="")

    assert result.exit_code == 0
    assert cli.service.requests == []
    assert "memory.hash" in result.stdout
    assert result.stdout.splitlines()[-1] == "would store 2 items and reject 0 records"


def test_times_without_a_zone_are_counted(cli: CommandLine, tmp_path: Path) -> None:
    memories = [
        {"id": f"m{day}", "memory": "We sailed.", "created_at": f"2026-11-0{day}T10:00:00{zone}"}
        for day, zone in ((1, ""), (2, "Z"), (3, ""))
    ]
    export = str(written(tmp_path, *memories))

    shown = cli.run("mem0", "--dry-run", export).stdout
    reported = json.loads(cli.run("mem0", "--dry-run", "--json", export).stdout)

    assert "read 2 times without a time zone as UTC" in shown
    assert reported["times_read_as_utc"] == 2


def test_unreadable_records_are_named_and_others_stored(cli: CommandLine) -> None:
    points = str(EXPORTS / "qdrant.jsonl")

    result = cli.run("qdrant", points)

    (message,) = cli.service.request()
    assert result.exit_code == 3
    assert len(message.items) == 2
    assert f"{points}:2: its payload has no text" in result.stderr
    assert result.stdout.splitlines()[-1] == "rejected 1 record"


def test_rejected_items_are_named_by_their_record(cli: CommandLine) -> None:
    answer = IngestStreamResponse(rejected_count=1)
    rejected = answer.rejected.add(index=1, state="ITEM_STATE_REJECTED")
    rejected.violations.add(field="items[1].segment.labels", description="must be fewer")

    result = cli.run("mem0", MEM0, IngestStream=answer)

    assert result.exit_code == 3
    assert f"{MEM0}:1: results[1]: labels must be fewer" in result.stderr


def test_owners_are_separated_or_named(cli: CommandLine, tmp_path: Path) -> None:
    memories = [{"id": name, "memory": "We sailed.", "user_id": name} for name in ("nora", "idris")]
    file = str(written(tmp_path, *memories))

    apart = cli.run("mem0", "--tenant-from-scope", file)
    together = cli.run("mem0", file)

    tenants = [message.tenant for (message,) in cli.service.requests]
    assert tenants == ["nora", "idris", "acme"]
    assert "owners" not in apart.stderr
    assert "records of 2 owners (idris, nora)" in together.stderr


def test_report_is_written_as_json(cli: CommandLine) -> None:
    told = json.loads(cli.run("mem0", "--json", "--dry-run", MEM0).stdout)

    assert told["mapped"] == [{"kind": "memory", "item": "segment", "count": 2}]
    place = {"record": "memory", "field": "hash", "at": f"{MEM0}:1: results[0]"}
    assert told["unmapped"][-1] == {**place, "count": 2, "example": HASH}
    assert told["problems"] == []


def test_password_hashes_of_an_archive_are_never_shown(cli: CommandLine, tmp_path: Path) -> None:
    accounts = {"owner": {"email": "nora", "hashed_password": "secret"}}
    written(tmp_path, accounts, name="permissions.json")

    for form in ((), ("--json",)):
        result = cli.run("cogx", "--dry-run", *form, str(tmp_path))
        assert "permissions" in result.stdout
        assert "secret" not in result.output


def test_standard_input_is_imported(cli: CommandLine) -> None:
    cli.run("mem0", "-", typed='{"id": "m1", "memory": "We sailed."}\n')

    (message,) = cli.service.request()
    assert message.items[0].segment.text == "We sailed."


@pytest.mark.parametrize(
    "words",
    [["mem0"], ["mem0", "no such file"], ["pinecone", MEM0], ["mem0", "--text-key=a", MEM0]],
)
def test_command_that_cannot_run_is_a_usage_error(cli: CommandLine, words: list[str]) -> None:
    assert cli.run(*words).exit_code == 2


def test_unreachable_service_exits_with_4() -> None:
    given = ["--address", "127.0.0.1:1", "--tenant", "acme", "mem0", MEM0]

    assert CliRunner().invoke(trivium_import, given).exit_code == 4

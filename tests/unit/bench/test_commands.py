"""Each command of a benchmark, on a few questions against a service in this process."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner
from google.protobuf import descriptor_pool

from bench import docs, scale
from bench.gpu import index as gpu_index
from bench.harness import writing
from bench.harness.load import Call
from bench.harness.results import Record, Result, read_records
from bench.harness.sample import multiplied_sample
from bench.harness.service import ServiceStartError, Target
from bench.peers.tables import claims
from bench.reports.baselines import baseline, promote
from bench.reports.recording import recorded
from bench.speed import __main__ as speed
from bench.speed import cpu, ghz, hostile, overload, recall, resident
from bench.speed.faults import __main__ as faults
from bench.speed.faults import degradation
from serving.config.profiles import ProfileBook
from serving.desk.ray_environment import LOOPBACK
from serving.domain.breaker import FAILURES
from tests.fakes.service import running
from tests.fakes.simulation.virtual_time import run_in_virtual_time
from tests.unit.bench.fake_memory import FakeMemory, written_set
from tests.unit.client.conversation.fake_memory import FakeMemory as FakeClient


def test_descriptors_for_ghz_have_their_imports_first() -> None:
    described = ghz.described_with_imports(ghz.SERVICE)

    pool = descriptor_pool.DescriptorPool()
    for file in described:
        pool.AddSerializedFile(file.SerializeToString())
    method = pool.FindMethodByName("trivium.v1.RetrievalService.Retrieve")
    assert method.input_type.name == "RetrieveRequest"
    assert len({file.name for file in described}) == len(described)


@pytest.fixture
def address() -> Iterator[str]:
    memory = FakeMemory()
    with running(memory):
        yield memory.address


@pytest.fixture
def data(tmp_path: Path) -> Path:
    numbers = range(20)
    return written_set(
        tmp_path / "twenty",
        qrels="".join(f"q{each}\tt{each}\t1\n" for each in numbers),
        corpus=[{"id": f"t{each}", "text": f"Number {each}."} for each in numbers],
        queries=[{"id": f"q{each}", "text": f"Which {each}?"} for each in numbers],
    )


def starting(address: str) -> Callable[[Path], AbstractAsyncContextManager[Target]]:
    """What stands in for the start of a service: the one at an address."""

    @asynccontextmanager
    async def started(data_dir: Path) -> AsyncIterator[Target]:
        yield Target(address, os.getpid(), healthy_after_s=1.0)

    return started


def run(command: click.Command, *options: str) -> str:
    done = CliRunner().invoke(command, options, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def records_in(out: Path) -> Sequence[Record]:
    [folder] = out.iterdir()
    assert (folder / "summary.md").read_text()
    assert (folder / "overview.png").stat().st_size
    return read_records(folder)


def test_speed_measures_starts_writing_and_every_load(
    address: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speed, "started", starting(address))
    out = tmp_path / "out"

    run(speed.main, "--data", str(data), "--calls", "20", "--out", str(out))

    found = records_in(out)
    scenarios = [str(each["scenario"]) for each in found]
    assert scenarios[:3] == ["healthy after", "healthy after", "ingest single"]
    assert scenarios[3:5] == ["ingest batches", "projected"]
    assert scenarios.count("load") == 5
    assert all(not each["errors"] for each in found)


def test_scale_measures_each_size_and_a_restart(
    address: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scale, "started", starting(address))
    out, small = tmp_path / "out", ("--segments", "10,20", "--tenants", "1", "--calls", "2")

    run(scale.main, "--data", str(data), *small, "--out", str(out))

    found = records_in(out)
    scenarios = [str(each["scenario"]) for each in found]
    assert scenarios == ["grow", "ask", "ask", "ask", "footprint", "restart"] * 2
    assert "| 20 | " in scale.growth_table(found)


@pytest.mark.parametrize(
    ("command", "options", "scenarios"),
    [
        (
            overload.main,
            ["--budgets", "20000,30000", "--seconds", "0.2", "--calls", "4"],
            {"capacity": 1, "overload": 2, "during writes": 2},
        ),
        (cpu.main, ["--calls", "2", "--no-flame"], {"cpu": len(cpu.VARIANTS)}),
        (resident.main, ["--writes", "20"], {"resident": 3}),
    ],
    ids=["overload", "cpu", "resident"],
)
def test_command_measures_a_set_in_every_scenario(
    address: str,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: click.Command,
    options: Sequence[str],
    scenarios: dict[str, int],
) -> None:
    @asynccontextmanager
    async def running(_: str | None) -> AsyncIterator[Target]:
        yield Target(address, os.getpid())

    monkeypatch.setattr(writing, "running", running)
    monkeypatch.setattr(overload, "SHARES", (0.01,))
    monkeypatch.setattr(overload, "WRITERS", 1)
    monkeypatch.setattr(cpu, "SETTLING_CALLS", 1)

    run(command, "--data", str(data), "--out", str(tmp_path / "out"), *options)

    [folder] = (tmp_path / "out").iterdir()
    assert Counter(str(each["scenario"]) for each in read_records(folder)) == scenarios
    assert (folder / "summary.md").read_text()


def test_prefetched_recall_waits_for_no_search() -> None:
    def measured(plan: recall.Plan) -> Record:
        async def simulate() -> list[recall.Call]:
            clients = [FakeClient(delay_s=0.02)]
            return await recall.run_calls(clients, [["When is the wedding?"]], plan)

        return recall.result_of(run_in_virtual_time(simulate()), plan).as_record({})

    plans = [recall.Plan(prefetch=prefetch, seconds=20) for prefetch in (True, False)]

    waited = [
        line.split(" | ")[4] for line in recall.recall_table([*map(measured, plans)]).splitlines()
    ]

    assert waited[2:] == ["0", "20"]


def test_a_fault_is_summarised_and_drawn(tmp_path: Path) -> None:
    answer: Any = SimpleNamespace(leg_reports=())
    calls = [Call(0.01, answer, due_s=1.0), Call(0.2, code="UNAVAILABLE", due_s=3.0)]
    about = {"dependency": "neo4j", "fault": "hung"}
    records = [faults.result_of(about, calls, began_s=2.0, ended_s=5.0).as_record({})]

    faults.save_picture(records, tmp_path / "picture.png")

    assert "| neo4j hung | 1 | 0.0% | 0.0% | 0.0% | 100.0% |" in faults.summary(records)
    assert (tmp_path / "picture.png").stat().st_size


def test_degradation_tells_first_questions_from_later_ones() -> None:
    answer: Any = SimpleNamespace(leg_reports=())
    late: Call[Any] = Call(1.0, code="DEADLINE_EXCEEDED")
    calls = [*([late] * FAILURES), *([Call(0.02, answer)] * 6), Call(0.03, answer)]

    written = degradation.degradation_table(
        [degradation.result_of("neo4j", "annie", calls).as_record({})]
    )

    line = written.splitlines()[-1]
    assert line == "| neo4j | annie | 7 | 1,000 | 30 |  | DEADLINE_EXCEEDED: 3 |"


def test_hostile_phases_are_compared_with_the_quiet_one() -> None:
    plan = hostile.Plan(per_s=100, seconds=1, rounds=2)
    answer: Any = SimpleNamespace(leg_reports=())
    attacked = [Call(0.02, answer)] * 3 + [Call(1.0, code="UNAVAILABLE")]
    phases = {
        hostile.Other.NOTHING: hostile.Phase([Call(0.01, answer)] * 4),
        hostile.Other.WITH_KEY: hostile.Phase(
            attacked, Counter({"400": 20}), Counter({"haproxy": 1})
        ),
    }
    results = [hostile.result_of(other, phase, plan) for other, phase in phases.items()]

    table = hostile.hostile_table([each.as_record({}) for each in results])

    cells = [cell.strip() for cell in table.splitlines()[-1].split("|")]
    assert cells[1:4] == ["hostile bodies with a reader's key", "10", "400: 20"]
    assert cells[7] == "2.00"
    assert cells[9:11] == ["0.75", "UNAVAILABLE: 1"]
    assert cells[11:14] == ["0", "0.5", "0"]


async def test_attacker_counts_its_answers() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"[0]")
        head = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\nConnection: close\r\n\r\n"
        writer.write(head + b"no")
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(refuse, LOOPBACK, 0)
    async with server:
        port = server.sockets[0].getsockname()[1]

        statuses = await hostile.attacked(port, [b"[0]"], per_s=1e6, seconds=0.01)

    assert statuses["401"] >= hostile.CONNECTIONS


HOSTILE = [hostile.Other.WITHOUT_KEY, hostile.Other.WITH_KEY, hostile.Other.WRONG_KEYS]


@pytest.mark.parametrize("other", HOSTILE)
def test_hostile_bodies_go_to_routes_that_exist(other: hostile.Other) -> None:
    requests = [each.decode() for each in hostile.requests(other, "key")]

    assert {"/v1/ingest", "/v1/retrieve", "/v1/query"} <= {each.split()[1] for each in requests}
    keys = {"authorization: Bearer key" in each for each in requests}
    assert keys == {other is hostile.Other.WITH_KEY}


def test_cpu_asks_with_legs_of_the_default_profile() -> None:
    profiles = ProfileBook.load()

    for changes in cpu.VARIANTS.values():
        assert profiles.changed("default", changes).legs


def test_gpu_dry_run_measures_the_index(tmp_path: Path) -> None:
    run(gpu_index.main, "--device", "cpu", "--tiny", "--out", str(tmp_path))

    found = read_records(tmp_path)
    others = ["index side by side", "index while it is rebuilt"]
    assert [each["scenario"] for each in found] == ["index"] * 4 + others


def test_claims_of_the_readme_hold() -> None:
    found = claims(baseline("peers"))

    assert float(found["recall"]) > float(found["next"])
    assert docs.hung_neo4j(baseline("speed/faults")).startswith("all ")


def test_a_baseline_is_replaced_by_runs(tmp_path: Path) -> None:
    runs = [tmp_path / name for name in ("one", "two")]
    for folder in runs:
        folder.mkdir()
        (folder / "results.jsonl").write_text(
            '{"scenario": "any", "measured": {"by_category": 1}}\n'
        )
    (runs[0] / "overview.png").touch()

    promote(runs, tmp_path / "baseline")

    assert [each["measured"] for each in read_records(tmp_path / "baseline")] == [{}, {}]
    assert (tmp_path / "baseline" / "overview.png").exists()


@pytest.mark.parametrize(
    ("error", "becomes"),
    [
        (ServiceStartError("no start"), click.ClickException),
        (asyncio.CancelledError(), click.Abort),
    ],
)
def test_a_failed_run_keeps_its_results(
    tmp_path: Path, error: BaseException, becomes: type[Exception]
) -> None:
    def fail() -> None:
        with recorded("kind", multiplied_sample(1), tmp_path, lambda _: "summary") as take:
            take(Result(scenario="any", n=1))
            raise error

    with pytest.raises(becomes):
        fail()

    [folder] = tmp_path.glob("kind-*")
    assert len(read_records(folder)) == 1

"""The command `python -m bench.speed.ghz`: writes requests, runs ghz, and stores a summary."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import cast

import click
from google.protobuf.json_format import MessageToDict

from bench.harness.collection import Collection, Query, read_collection
from bench.harness.connections import CALL_TIMEOUT_S, LIMIT, connected
from bench.harness.latency import percentile
from bench.harness.results import Json, append_record, run_folder
from bench.harness.sample import multiplied_sample
from bench.harness.service import ServiceStartError, running
from bench.harness.writing import store
from bench.reports import environment
from trivium.errors import TriviumError
from trivium.wire import requests

PROTO = "protos/trivium/v1/retrieval_service.proto"
PROTOSET = "retrieval.protoset"
CONFIG = Path(__file__).with_name("retrieve.json")
KEPT = (
    "count",
    "total",
    "average",
    "fastest",
    "slowest",
    "rps",
    "statusCodeDistribution",
    "errorDistribution",
    "latencyDistribution",
)
"""What of ghz's report is kept; times are in nanoseconds."""


def request_of(query: Query, timeout_s: float = CALL_TIMEOUT_S) -> dict[str, Json]:
    """A question as the JSON of a RetrieveRequest."""
    request = requests.retrieve(
        query.tenant, query.text, timeout=timeout_s, limit=LIMIT, as_of=query.as_of
    )
    encoded: dict[str, Json] = MessageToDict(request, preserving_proto_field_name=True)
    return encoded


def write_requests(queries: Iterable[Query], path: Path, timeout_s: float = CALL_TIMEOUT_S) -> None:
    """Writes ghz's data file: it sends the requests in turn, again and again."""
    written = json.dumps([request_of(query, timeout_s) for query in queries])
    path.write_text(written, encoding="utf-8")


def settings_of(rate_per_s: float | None, budget_s: float, seconds: float) -> dict[str, Json]:
    """What ghz is told: by default a closed loop, with a rate an open one.

    ghz's workers must be as many as calls may be open at once, or the loop would close.
    """
    settings: dict[str, Json] = json.loads(CONFIG.read_text(encoding="utf-8"))
    if rate_per_s is None:
        return settings
    settings |= {
        "rps": max(1, round(rate_per_s)),
        "total": max(1, round(rate_per_s * seconds)),
        "skipFirst": 0,
        "async": True,
        "concurrency": max(8, round(2 * rate_per_s * budget_s)),
        "connections": 8,
        "timeout": f"{round(budget_s * 1e3)}ms",
    }
    return settings


def write_descriptors(path: Path) -> None:
    """Writes what ghz is to know of the protos: its own parser refuses `optional` in proto3.

    Raises:
        subprocess.CalledProcessError: The compiler failed.
    """
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I", "protos", "--include_imports"]
    command += [f"--descriptor_set_out={path.absolute()}", PROTO]
    subprocess.run(command, check=True, cwd=environment.ROOT)


def summary_of(report: Mapping[str, Json], settings: Mapping[str, Json]) -> dict[str, Json]:
    """The figures of ghz's report without the list of calls, and where they were measured."""
    return {
        "scenario": "ghz",
        "settings": dict(settings),
        **{name: report.get(name) for name in KEPT},
        "byStatus": by_status(cast(Sequence[Mapping[str, Json]], report.get("details") or ())),
        **environment.describe(),
    }


def by_status(calls: Iterable[Mapping[str, Json]]) -> dict[str, Json]:
    """How many calls ended with each status, and the p50 and p95 of their times in ms."""
    times: defaultdict[str, list[float]] = defaultdict(list)
    for call in calls:
        times[str(call["status"])].append(float(cast(int, call["latency"])) / 1e6)
    return {
        status: {
            "count": len(each),
            "p50_ms": round(percentile(sorted(each), 0.5), 1),
            "p95_ms": round(percentile(sorted(each), 0.95), 1),
        }
        for status, each in times.items()
    }


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--ghz", "program", default="ghz", show_default=True, help="The program.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="An evaluation set; without, the sample conversation multiplied.",
)
@click.option("--address", help="HOST:PORT of a running service, instead of starting one.")
@click.option(
    "--full",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where to keep ghz's report.html and report.json, which are large.",
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    help="An open loop of so many calls a second, instead of 32 callers.",
)
@click.option(
    "--budget",
    type=click.FloatRange(min=0, min_open=True),
    default=100.0,
    show_default=True,
    help="What each call of an open loop has, in ms.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=20.0,
    show_default=True,
    help="How long an open loop lasts.",
)
@click.option(
    "--only-requests",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the requests there, and nothing else.",
)
def main(
    program: str,
    data: Path | None,
    address: str | None,
    full: Path | None,
    rate: float | None,
    budget: float,
    seconds: float,
    only_requests: Path | None,
) -> None:
    """Measure the service with ghz."""
    collection = multiplied_sample() if data is None else read_collection(data)
    if only_requests is not None:
        write_requests(collection.queries, only_requests)
        return
    settings = settings_of(rate, budget / 1e3, seconds)
    timeout_s = CALL_TIMEOUT_S if rate is None else budget / 1e3
    with contextlib.ExitStack() as stack:
        if full is None:
            full = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        full = full.resolve()
        full.mkdir(parents=True, exist_ok=True)
        try:
            asyncio.run(_measure(program, collection, address, full, settings, timeout_s))
        except (TriviumError, ServiceStartError, OSError, subprocess.CalledProcessError) as error:
            raise click.ClickException(str(error)) from error
        except asyncio.CancelledError:
            raise click.Abort from None
        report = json.loads((full / "report.json").read_text(encoding="utf-8"))
    folder = run_folder(f"ghz-{collection.name}")
    folder.mkdir(parents=True)
    summary = summary_of(report, settings)
    append_record(folder, summary)
    click.echo(json.dumps(summary, indent=2))


async def _measure(
    program: str,
    collection: Collection,
    address: str | None,
    full: Path,
    settings: Mapping[str, Json],
    timeout_s: float,
) -> None:
    async with running(address) as service:
        async with connected(service, 1) as connections:
            await store(connections, collection)
        write_requests(collection.queries, full / "requests.json", timeout_s)
        (full / CONFIG.name).write_text(json.dumps(settings), encoding="utf-8")
        await asyncio.to_thread(write_descriptors, full / PROTOSET)
        for form, output in (("json", "report.json"), ("html", "report.html")):
            await asyncio.to_thread(_run, program, service, full, form, output)


def _run(program: str, address: str, full: Path, form: str, output: str) -> None:
    command = [program, "--config", str(full / CONFIG.name)]
    command += ["--protoset", str(full / PROTOSET), "-D", str(full / "requests.json")]
    command += ["-O", form, "-o", str(full / output), address]
    subprocess.run(command, check=True, cwd=environment.ROOT)


if __name__ == "__main__":
    main()

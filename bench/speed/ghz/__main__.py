"""The command `python -m bench.speed.ghz`: an open loop by ghz, an independent load generator.

Ray Serve's reflection supports only `v1alpha`, and ghz's own parser refuses `optional` in proto3,
so ghz gets the messages as compiled descriptors.
"""

from __future__ import annotations

import asyncio
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

from bench.harness.collection import Collection, Query
from bench.harness.connections import LIMIT, connected
from bench.harness.latency import percentile
from bench.harness.options import HELP, address_option, chosen, data_option, out_option
from bench.harness.results import Json, append_record, run_folder
from bench.harness.service import ServiceStartError, running
from bench.harness.writing import store
from bench.reports import environment
from bench.speed.ghz.figures import open_loops_table
from trivium.errors import TriviumError
from trivium.wire import requests

PROTO = "protos/trivium/v1/retrieval_service.proto"
CONNECTIONS = 8


def write_requests(queries: Iterable[Query], path: Path, budget_s: float) -> None:
    """Writes ghz's data file: it sends the requests in turn, again and again."""
    written = [
        MessageToDict(
            requests.retrieve(
                query.tenant, query.text, timeout=budget_s, limit=LIMIT, as_of=query.as_of
            ),
            preserving_proto_field_name=True,
        )
        for query in queries
    ]
    path.write_text(json.dumps(written), encoding="utf-8")


def settings_of(rate_per_s: float, budget_s: float, seconds: float) -> dict[str, Json]:
    """The settings of an open loop.

    ghz's workers must be as many as calls may be open at once, or the loop would close.
    """
    return {
        "call": "trivium.v1.RetrievalService.Retrieve",
        "insecure": True,
        "rps": max(1, round(rate_per_s)),
        "total": max(1, round(rate_per_s * seconds)),
        "async": True,
        "concurrency": max(CONNECTIONS, round(2 * rate_per_s * budget_s)),
        "connections": CONNECTIONS,
        "timeout": f"{round(budget_s * 1e3)}ms",
    }


def summary_of(report: Mapping[str, Json], settings: Mapping[str, Json]) -> dict[str, Json]:
    """The figures of ghz's report without the list of calls, and where they were measured."""
    calls = cast(Sequence[Mapping[str, Json]], report.get("details") or ())
    return {
        "scenario": "ghz",
        "settings": dict(settings),
        "count": report.get("count"),
        "byStatus": by_status(calls),
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


@click.command(context_settings=HELP)
@click.option("--ghz", "program", default="ghz", show_default=True, help="The program.")
@data_option
@address_option
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), required=True, help="Calls/s.")
@click.option(
    "--budget",
    type=click.FloatRange(min=0, min_open=True),
    default=100.0,
    show_default=True,
    help="What each call has, in ms.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=20.0,
    show_default=True,
    help="How long calls are sent.",
)
@out_option
def main(
    program: str,
    data: Path | None,
    address: str | None,
    rate: float,
    budget: float,
    seconds: float,
    out: Path,
) -> None:
    """Measure the service with ghz."""
    collection = chosen(data)
    settings = settings_of(rate, budget / 1e3, seconds)
    with tempfile.TemporaryDirectory() as folder:
        try:
            report = asyncio.run(
                _measure(program, collection, address, Path(folder), settings, budget / 1e3)
            )
        except (TriviumError, ServiceStartError, OSError, subprocess.CalledProcessError) as error:
            raise click.ClickException(str(error)) from error
    target = run_folder(f"ghz-{collection.name}", out)
    target.mkdir(parents=True)
    summary = summary_of(report, settings)
    append_record(target, summary)
    click.echo(f"{open_loops_table([summary])}\nwritten to {target}")


async def _measure(
    program: str,
    collection: Collection,
    address: str | None,
    folder: Path,
    settings: Mapping[str, Json],
    budget_s: float,
) -> Mapping[str, Json]:
    async with running(address) as service:
        async with connected(service, 1) as connections:
            await store(connections, collection)
        write_requests(collection.queries, folder / "requests.json", budget_s)
        (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
        descriptors = folder / "retrieval.protoset"
        compiler = (sys.executable, "-m", "grpc_tools.protoc", "-I", "protos", "--include_imports")
        await _run(*compiler, f"--descriptor_set_out={descriptors}", PROTO)
        given = ("--protoset", str(descriptors), "-D", str(folder / "requests.json"))
        report = folder / "report.json"
        await _run(
            *(program, "--config", str(folder / "settings.json"), *given),
            *("-O", "json", "-o", str(report), service),
        )
        found: Mapping[str, Json] = json.loads(report.read_text(encoding="utf-8"))
        return found


async def _run(*command: str) -> None:
    await asyncio.to_thread(subprocess.run, command, check=True, cwd=environment.ROOT)


if __name__ == "__main__":
    main()

"""The command `python -m bench.speed.ghz`: an open loop by ghz, an independent load generator.

Ray Serve's reflection supports only `v1alpha`, and ghz's own parser refuses `optional` in proto3,
so ghz gets the messages as compiled descriptors.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import click
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.json_format import MessageToDict

from bench.harness import options
from bench.harness.collection import Collection
from bench.harness.connections import LIMIT
from bench.harness.results import Json, Record, Result, number, percentile
from bench.harness.writing import loaded
from bench.reports import environment
from bench.reports.recording import recorded
from bench.reports.report import Column, parameter, table_of, value
from trivium.v1 import retrieval_service_pb2
from trivium.wire import requests

SERVICE = retrieval_service_pb2.DESCRIPTOR
CONNECTIONS = 8
OK, REFUSED, LATE = "OK", "ResourceExhausted", "DeadlineExceeded"


@click.command(context_settings=options.HELP)
@click.option("--ghz", "program", default="ghz", show_default=True, help="The program.")
@options.data
@options.address
@click.option("--rate", type=click.IntRange(min=1), required=True, help="Calls a second.")
@click.option("--budget", default=100, show_default=True, help="What each call has, in ms.")
@click.option("--seconds", default=20, show_default=True, help="How long calls are sent.")
@options.out
def main(
    program: str,
    data: Path | None,
    address: str | None,
    rate: int,
    budget: int,
    seconds: int,
    out: Path,
) -> None:
    """Measure the service with ghz."""
    collection = options.chosen(data)
    with recorded("ghz", collection, out, ghz_table) as take:
        take(asyncio.run(_measure(program, collection, address, rate, budget, seconds)))


async def _measure(
    program: str, collection: Collection, address: str | None, rate: int, budget: int, seconds: int
) -> Result:
    requests_of_set = [
        MessageToDict(
            requests.retrieve(
                query.tenant, query.text, timeout=budget / 1e3, limit=LIMIT, as_of=query.as_of
            ),
            preserving_proto_field_name=True,
        )
        for query in collection.queries
    ]
    with tempfile.TemporaryDirectory() as name:
        asked, settings, messages, report = (
            Path(name, each) for each in ("asked.json", "settings.json", "messages", "report.json")
        )
        asked.write_text(json.dumps(requests_of_set), encoding="utf-8")
        settings.write_text(json.dumps(settings_of(rate, budget, seconds)), encoding="utf-8")
        described = FileDescriptorSet(file=described_with_imports(SERVICE))
        messages.write_bytes(described.SerializeToString())
        command = [program, "--config", settings, "--protoset", messages, "-D", asked]
        async with loaded(collection, address) as (service, _):
            command += ["-O", "json", "-o", report, service.address]
            try:
                run = partial(subprocess.run, command, check=True, cwd=environment.ROOT)
                await asyncio.to_thread(run)
            except (OSError, subprocess.CalledProcessError) as error:
                raise click.ClickException(str(error)) from error
        details = json.loads(report.read_text(encoding="utf-8"))["details"]
    return result_of(details, rate, budget)


def described_with_imports(file: FileDescriptor) -> list[FileDescriptorProto]:
    """The descriptors of a file and of all that it imports, each once, imports first."""
    found: dict[str, FileDescriptorProto] = {}

    def add(each: FileDescriptor) -> None:
        for imported in each.dependencies:
            add(imported)
        each.CopyToProto(described := FileDescriptorProto())
        found.setdefault(each.name, described)

    add(file)
    return [*found.values()]


def settings_of(rate: int, budget: int, seconds: int) -> dict[str, Json]:
    """The settings of an open loop.

    ghz's workers must be as many as calls may be open at once, or the loop would close.
    """
    return {
        "call": "trivium.v1.RetrievalService.Retrieve",
        "insecure": True,
        "rps": rate,
        "total": rate * seconds,
        "async": True,
        "concurrency": max(CONNECTIONS, 2 * rate * budget // 1000),
        "connections": CONNECTIONS,
        "timeout": f"{budget}ms",
    }


def result_of(calls: Sequence[Mapping[str, Json]], rate: int, budget: int) -> Result:
    """Summarises ghz's list of calls, whose times are in nanoseconds."""
    times: dict[str, list[float]] = {}
    for call in calls:
        times.setdefault(str(call["status"]), []).append(float(str(call["latency"])) / 1e6)
    return Result(
        scenario="ghz",
        parameters={"rate_per_s": rate, "budget_ms": budget},
        n=len(calls),
        measured={
            status: {
                "count": len(each),
                "p50_ms": round(percentile(each, 0.5), 1),
                "p95_ms": round(percentile(each, 0.95), 1),
            }
            for status, each in times.items()
        },
    )


def ghz_table(records: Sequence[Record]) -> str:
    """A line for each budget; times begin when ghz sends a call."""

    def share(status: str) -> Column:
        return lambda each: (
            f"{(number(each, 'measured', status, 'count') or 0) / (number(each, 'n') or 1):.1%}"
        )

    columns: dict[str, Column] = {
        "budget, ms": parameter("budget_ms"),
        "offered/s": parameter("rate_per_s"),
        "in time": share(OK),
        "p50 ms": value("measured", OK, "p50_ms"),
        "p95 ms": value("measured", OK, "p95_ms"),
        "refused": share(REFUSED),
        "refused p95": value("measured", REFUSED, "p95_ms"),
        "late": share(LATE),
    }
    return table_of(records, columns)


if __name__ == "__main__":
    main()

"""The command `python -m bench.speed.ghz`: writes requests, runs ghz, and stores a summary."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import click
from google.protobuf.json_format import MessageToDict

from bench.harness.collection import Collection, Query, read_collection
from bench.harness.connections import CALL_TIMEOUT_S, LIMIT, connected
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


def request_of(query: Query) -> dict[str, Json]:
    """A question as the JSON of a RetrieveRequest."""
    request = requests.retrieve(
        query.tenant, query.text, timeout=CALL_TIMEOUT_S, limit=LIMIT, as_of=query.as_of
    )
    encoded: dict[str, Json] = MessageToDict(request, preserving_proto_field_name=True)
    return encoded


def write_requests(queries: Iterable[Query], path: Path) -> None:
    """Writes ghz's data file: it sends the requests in turn, again and again."""
    path.write_text(json.dumps([request_of(query) for query in queries]), encoding="utf-8")


def write_descriptors(path: Path) -> None:
    """Writes what ghz is to know of the protos: its own parser refuses `optional` in proto3.

    Raises:
        subprocess.CalledProcessError: The compiler failed.
    """
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I", "protos", "--include_imports"]
    command += [f"--descriptor_set_out={path.absolute()}", PROTO]
    subprocess.run(command, check=True, cwd=environment.ROOT)


def summary_of(report: Mapping[str, Json]) -> dict[str, Json]:
    """The figures of ghz's report without the list of calls, and where they were measured."""
    return {
        "scenario": "ghz",
        "settings": json.loads(CONFIG.read_text()),
        **{name: report.get(name) for name in KEPT},
        **environment.describe(),
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
    "--only-requests",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the requests there, and nothing else.",
)
def main(
    program: str, data: Path | None, address: str | None, full: Path | None, only_requests: Path
) -> None:
    """Measure the service with ghz."""
    collection = multiplied_sample() if data is None else read_collection(data)
    if only_requests is not None:
        write_requests(collection.queries, only_requests)
        return
    with contextlib.ExitStack() as stack:
        if full is None:
            full = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        full = full.resolve()
        full.mkdir(parents=True, exist_ok=True)
        try:
            asyncio.run(_measure(program, collection, address, full))
        except (TriviumError, ServiceStartError, OSError, subprocess.CalledProcessError) as error:
            raise click.ClickException(str(error)) from error
        except asyncio.CancelledError:
            raise click.Abort from None
        report = json.loads((full / "report.json").read_text(encoding="utf-8"))
    folder = run_folder(f"ghz-{collection.name}")
    folder.mkdir(parents=True)
    summary = summary_of(report)
    append_record(folder, summary)
    click.echo(json.dumps(summary, indent=2))


async def _measure(program: str, collection: Collection, address: str | None, full: Path) -> None:
    async with running(address) as service:
        async with connected(service, 1) as connections:
            await store(connections, collection)
        write_requests(collection.queries, full / "requests.json")
        await asyncio.to_thread(write_descriptors, full / PROTOSET)
        for form, output in (("json", "report.json"), ("html", "report.html")):
            await asyncio.to_thread(_run, program, service, full, form, output)


def _run(program: str, address: str, full: Path, form: str, output: str) -> None:
    command = [program, "--config", str(CONFIG), "--protoset", str(full / PROTOSET)]
    command += ["-D", str(full / "requests.json")]
    command += ["-O", form, "-o", str(full / output), address]
    subprocess.run(command, check=True, cwd=environment.ROOT)


if __name__ == "__main__":
    main()

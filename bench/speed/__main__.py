"""The command `python -m bench.speed`: measures the service and writes results."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.markdown import Markdown

from bench.harness.collection import read_collection
from bench.harness.results import RESULTS, Json, Record, Result, append_record, run_folder
from bench.harness.sample import multiplied_sample
from bench.harness.service import ServiceStartError, Target
from bench.reports import environment
from bench.reports.plots import save_picture
from bench.reports.progress import progress_bars
from bench.reports.report import summary
from bench.speed.floors.measures import BaselineError
from bench.speed.suite import LEAST_CALLS, SCENARIOS, Plan, Suite, service
from trivium.errors import TriviumError

SUMMARY_NAME = "summary.md"
PICTURE_NAME = "overview.png"

console = Console(stderr=True)


class Recorder:
    """Collects the results of a run, and writes each to disk at once."""

    def __init__(self, folder: Path, about: dict[str, Json]) -> None:
        self._folder = folder
        self._about = about
        self.records: list[Record] = []

    def take(self, result: Result) -> None:
        """Writes a result."""
        record = result.as_record(self._about)
        append_record(self._folder, record)
        self.records.append(record)

    def finish(self) -> str:
        """Writes the summary and the picture; returns the summary."""
        written = summary(self.records)
        (self._folder / SUMMARY_NAME).write_text(written, encoding="utf-8")
        save_picture(self.records, self._folder / PICTURE_NAME)
        return written


def _scenarios(_context: click.Context, _option: click.Parameter, given: str) -> Sequence[str]:
    names = [name.strip() for name in given.split(",") if name.strip()]
    unknown = sorted(set(names) - set(SCENARIOS))
    if unknown:
        raise click.BadParameter(f"no scenario {unknown[0]!r}; there are {', '.join(SCENARIOS)}")
    return names or SCENARIOS


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="An evaluation set; without, the sample conversation multiplied.",
)
@click.option(
    "--only",
    default="",
    callback=_scenarios,
    help=f"Scenarios by comma, of {', '.join(SCENARIOS)}; without, all.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=RESULTS,
    help="Where to make the folder of results.",
)
@click.option(
    "--address",
    help="HOST:PORT of a running service, instead of starting one. The "
    "data is written to it, and stays.",
)
@click.option("--pid", type=int, help="The first process of that service, to measure its CPU.")
@click.option("--limit-queries", type=click.IntRange(min=1), help="At most so many questions.")
@click.option(
    "--calls",
    type=click.IntRange(min=1),
    default=LEAST_CALLS,
    show_default=True,
    help="Each loop asks at least so many questions, going round.",
)
def main(
    data: Path | None,
    only: Sequence[str],
    out: Path,
    address: str | None,
    pid: int | None,
    limit_queries: int | None,
    calls: int,
) -> None:
    """Measure the service, and write JSON, a summary and a picture."""
    if data is None:
        collection = multiplied_sample(query_limit=limit_queries)
    else:
        collection = read_collection(data, query_limit=limit_queries)
    for problem in collection.problems[:10]:
        console.print(f"left out: {problem}", style="yellow")
    about = environment.about(collection)
    folder = run_folder(f"speed-{collection.name}", out)
    folder.mkdir(parents=True)
    recorder = Recorder(folder, about)
    plan = Plan(collection=collection, scenarios=only, least_calls=calls)
    target = None if address is None else Target(address, pid)
    try:
        asyncio.run(_measure(plan, target, recorder))
    except (TriviumError, ServiceStartError, BaselineError) as error:
        raise click.ClickException(str(error)) from error
    except asyncio.CancelledError:
        raise click.Abort from None
    finally:
        if recorder.records:
            console.print(Markdown(recorder.finish()))
            console.print(f"written to {folder}")


async def _measure(plan: Plan, target: Target | None, recorder: Recorder) -> None:
    async with _running(plan, target, recorder) as running:
        with progress_bars(console) as bars:
            await Suite(plan, running, recorder.take, bars).run()


@contextlib.asynccontextmanager
async def _running(plan: Plan, target: Target | None, recorder: Recorder) -> AsyncIterator[Target]:
    if target is not None:
        yield target
        return
    console.print("starting the service")
    async with service(plan, recorder.take) as running:
        yield running
        console.print("stopping the service")


if __name__ == "__main__":
    main()

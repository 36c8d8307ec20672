"""Writes `docs/benchmarks.md` from `bench/baselines`; `python -m bench.docs --check` compares."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from bench.harness.results import Record, find, number, select, table
from bench.peers.tables import summary as peers_table
from bench.reports.baselines import BASELINES, baseline
from bench.reports.report import (
    Column,
    estimate,
    figures,
    latency,
    loads_table,
    markdown_table,
    parameter,
    table_of,
    value,
    writing_table,
)
from bench.speed.cpu.figures import cpu_table
from bench.speed.faults.figures import faults_table
from bench.speed.ghz import ghz_table
from bench.speed.overload.figures import neighbours_table, overload_table, writes_table
from bench.speed.recall.figures import recall_table

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
PAGE_WIDTH = 110

HEAD = """# Benchmarks

Written by `python -m bench.docs` from the results in `bench/baselines`; `make lint` fails if it
differs from them. [bench/README.md](../bench/README.md) says how to measure again, and how to
replace a baseline. The service, its stores and the callers share one machine, unless a section says
otherwise. `locomo` are the 5,882 turns, 2,561 facts and 782 development questions of LoCoMo, with
ten hits for each question; `sample` is the sample conversation, multiplied.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the page.

    Attributes:
        title: Its heading.
        baseline: The folder of its results below `bench/baselines`.
        command: What measured them.
        text: What the columns mean.
        tables: Each makes a table of the results.
        pictures: File names in the folder of the results.
    """

    title: str
    baseline: str
    command: str
    text: str
    tables: Sequence[Callable[[Sequence[Record]], str]]
    pictures: Sequence[str] = ()

    def written(self) -> str:
        """The section as Markdown."""
        records = baseline(self.baseline)
        pictures = [
            f"![{self.title}](../{(BASELINES / self.baseline / name).relative_to(PAGE.parents[1])})"
            for name in self.pictures
        ]
        parts = (
            f"## {self.title}",
            f"`{self.command}`",
            textwrap.fill(f"{self.text} {source(records)}.", PAGE_WIDTH, break_on_hyphens=False),
            *(make(records) for make in self.tables),
            *pictures,
        )
        return "\n\n".join(filter(None, parts)) + "\n"


def source(records: Sequence[Record]) -> str:
    """The set, the hardware, the days and the commits of results."""
    machines = dict.fromkeys(
        f"{machine.get('cores')} cores of {machine.get('cpu')}"
        for machine in (table(each, "machine") for each in records)
    )
    devices = dict.fromkeys(
        f"one {device['name']}, driver {device['driver']}, CUDA {device['cuda']}"
        for device in (table(each, "device") for each in records)
        if device
    )
    days = sorted({str(each["at"]).partition(" ")[0] for each in records})
    commits = sorted({str(each["commit"]) for each in records})
    names = {str(name) for each in records if (name := table(each, "collection").get("name"))}
    data = f" with the set `{names.pop()}`" if len(names) == 1 else ""
    where = f"{'; '.join([*machines, *devices])}{data}, {' and '.join(days)}"
    return f"Measured on {where}, commit {', '.join(commits)}"


# ---------------------------------------------------------------- tables


def quality_table(records: Sequence[Record]) -> str:
    """The default profile on each set, with intervals of 95 %."""

    def metric(name: str) -> Column:
        return lambda record: estimate(table(record, "measured", name))

    columns: dict[str, Column] = {
        "set": lambda record: str(table(record, "collection")["name"]),
        "questions": value("n"),
        **{name: metric(name) for name in ("recall@10", "ndcg@10", "mrr@10")},
    }
    default = [each for each in select(records, "quality") if parameter("way")(each) == "default"]
    return table_of(default, columns)


def index_table(records: Sequence[Record]) -> str:
    """Searches one at a time: CPU time, latency and recall."""
    columns: dict[str, Column] = {
        "corpus": parameter("corpus"),
        "search": parameter("way"),
        "CPU ms": value("measured", "cpu_ms"),
        **latency("p99"),
        "recall@10": value("measured", "recall"),
        "floor, ms": value("measured", "scan_floor_ms"),
    }
    return table_of(select(records, "index"), columns)


def rebuilds_table(records: Sequence[Record]) -> str:
    """Searches while an index is rebuilt."""
    columns = {
        "rows rebuilt": value("parameters", "rows"),
        "searches/s": value("parameters", "per_s"),
        "quiet p99 ms": value("measured", "quiet_p99_ms"),
        "p99 ms meanwhile": value("latency", "p99_ms"),
        "rebuild s": value("measured", "rebuild_s"),
    }
    return table_of(select(records, "index while it is rebuilt"), columns)


def fill_table(records: Sequence[Record]) -> str:
    """An index filled from PostgreSQL."""
    columns = {
        "rows": value("parameters", "rows"),
        "dimension": value("parameters", "dimension"),
        "seconds until it serves": value("measured", "seconds"),
        "rows/s": value("throughput_per_s"),
    }
    return table_of(records, columns)


def gpu_networks_table(records: Sequence[Record]) -> str:
    """A line for each network and batch: the service, without CUDA graphs, and transformers."""
    rows = []
    for each in records:
        its = table(each, "parameters")
        if its["way"] != "here":
            continue
        shape = {name: its[name] for name in ("rows", "tokens", "ragged", "precision")}
        others = (
            find(records, str(each["scenario"]), way=way, **shape)
            for way in ("here, no graphs", "transformers")
        )
        rows.append(
            (
                str(each["scenario"]),
                f"{its['rows']} x {'<= ' if its['ragged'] else ''}{its['tokens']}",
                *(figures(number(other, "latency", "p50_ms")) for other in (each, *others)),
                figures(number(each, "measured", "floor_ms")),
            )
        )
    columns = ("network", "rows x tokens", "p50 ms", "without graphs", "transformers", "floor")
    return markdown_table(columns, rows)


def gpu_index_table(records: Sequence[Record]) -> str:
    """A line for each scenario of the index."""

    def name(record: Record) -> str:
        its = table(record, "parameters")
        named = [f"{each} {its[each]}" for each in ("batch", "callers", "per_s") if each in its]
        return ", ".join(filter(None, (str(record["scenario"]), str(its.get("way", "")), *named)))

    columns: dict[str, Column] = {
        "what": name,
        **latency("p50", "p99"),
        "a second": value("throughput_per_s"),
        "recall@10": value("measured", "recall"),
    }
    return table_of([each for each in records if each["latency"]], columns)


def chaos_table(records: Sequence[Record]) -> str:
    """What happened in each run, and what was found."""
    found = ("lost", "double", "stale", "half_written", "resurrected", "unverified")
    counted = ("operations", "acknowledged", "retried", "answers", "rows", *found)
    columns: dict[str, Column] = {
        "placement": parameter("placement"),
        "seed": parameter("seed"),
        "rounds": value("n"),
        **{name.replace("_", "-"): value("measured", name) for name in counted},
    }
    return table_of(records, columns)


def fuzz_table(records: Sequence[Record]) -> str:
    """What became of the inputs of each fuzzer, in all its runs."""
    runs: dict[str, list[Record]] = {}
    for each in records:
        runs.setdefault(str(table(each, "parameters")["fuzzer"]), []).append(each)
    summed = ("accepted", "rejected", "undecodable", "seconds")
    rows = [
        (
            fuzzer,
            f"{sum(number(each, 'n') or 0 for each in of):.0f}",
            *(f"{sum(number(each, 'measured', name) or 0 for each in of):.0f}" for name in summed),
        )
        for fuzzer, of in runs.items()
    ]
    return markdown_table(("fuzzer", "inputs", *summed), rows)


# ---------------------------------------------------------------- the page

SECTIONS = (
    Section(
        title="Compared with other libraries",
        baseline="peers",
        command="make bench-peers DATA=locomo",
        text="All have the same texts, questions and encoder, and answer in turns. The other "
        "libraries run in the process that asks, without a network; the service is asked over "
        "gRPC. CPU time is that of all processes.",
        tables=(peers_table,),
        pictures=("overview.png",),
    ),
    Section(
        title="Quality",
        baseline="quality/default",
        command='make quality DATA="locomo realtalk musique 2wiki hotpotqa cranfield cisi"',
        text="The default profile, with 95 % intervals. [quality.md](quality.md) describes the "
        "metrics, and [ranking.md](ranking.md) what each part contributes.",
        tables=(quality_table,),
    ),
    Section(
        title="Quality on invented memories",
        baseline="quality/memories",
        command="python -m bench.quality bench/quality/memories/[!_]*/",
        text="Small memories of this project that no setting was chosen by.",
        tables=(quality_table,),
    ),
    Section(
        title="Load",
        baseline="speed/load",
        command="python -m bench.speed --data locomo --only load",
        text="`c` is the number of concurrent callers; `/s` an arrival rate, with latency counted "
        "from the scheduled arrival.",
        tables=(loads_table,),
        pictures=("overview.png",),
    ),
    Section(
        title="CPU time of an answer",
        baseline="speed/cpu",
        command="make bench-cpu DATA=locomo",
        text="Eight callers ask with less and less of the default profile; CPU milliseconds for "
        "each answer, by process.",
        tables=(cpu_table,),
        pictures=("overview.png", "flame.svg"),
    ),
    Section(
        title="Writing and starting",
        baseline="speed/writes",
        command="python -m bench.speed --data locomo --only start,ingest",
        text='One caller. "visible after" is the time from the acknowledgement until a leg finds '
        "the write, on an idle service.",
        tables=(writing_table,),
    ),
    Section(
        title="Above capacity",
        baseline="speed/overload",
        command="python -m bench.speed.overload --tenants 6 --seconds 5 --calls 300",
        text="An open loop at multiples of the capacity that a closed loop of 32 callers reached, "
        "for each budget that callers give. In time: answers within the budget. Whole: those of "
        "them to which every leg contributed. Late: calls that ended with DEADLINE_EXCEEDED. "
        "Over: the time from the last arrival until answers are whole and in time again. The "
        "second table is a tenant with a tenth of the capacity while another asks more; the "
        "third the same tenant while another writes as much as it can.",
        tables=(overload_table, neighbours_table, writes_table),
        pictures=("overview.png",),
    ),
    Section(
        title="Above capacity, by ghz",
        baseline="speed/ghz",
        command="python -m bench.speed.ghz --rate 375 --seconds 10 --budget 50",
        text="Three times the capacity by [ghz](https://ghz.sh), an independent tool, whose times "
        "begin when it sends a call.",
        tables=(ghz_table,),
    ),
    Section(
        title="Faults",
        baseline="speed/faults",
        command="python -m bench.speed.faults --seconds 5",
        text="Half the capacity with budgets of 100 ms, while a store is slow, hangs, refuses "
        "connections, or is killed and started again, and while a replica of `split` is. Error at "
        "once: UNAVAILABLE or RESOURCE_EXHAUSTED within the budget. As before: the time from the "
        "end of the fault until answers are whole and in time again.",
        tables=(faults_table,),
        pictures=("overview.png",),
    ),
    Section(
        title="A voice bot's wait for its memory",
        baseline="speed/recall",
        command="make bench-recall DATA=locomo",
        text="Simulated calls: the time from the final transcript of a turn, half a second after "
        "its last word, to the block for the prompt. With prefetch, `Recall` searches while "
        "somebody still speaks.",
        tables=(recall_table,),
        pictures=("overview.png",),
    ),
    Section(
        title="The vector index",
        baseline="index/searches",
        command="make bench-index",
        text="One search at a time for ten neighbours; CPU time of the thread that searches. "
        "Served: all rows in lists, with filters and scores in float32. The floor is the time to "
        "read all rows once.",
        tables=(index_table, rebuilds_table),
    ),
    Section(
        title="The index from PostgreSQL",
        baseline="index/fill",
        command="make bench-fill",
        text="From an empty process until the index answers.",
        tables=(fill_table,),
    ),
    Section(
        title="Models on a GPU",
        baseline="gpu/networks",
        command="python -m bench.gpu",
        text="Networks of the published sizes with random weights in bfloat16, from tokens to "
        "vectors or scores on the host. The floor is the time to read the weights once or to "
        "compute the products, at the measured bandwidth and throughput, whichever is longer.",
        tables=(gpu_networks_table,),
    ),
    Section(
        title="The index on a GPU",
        baseline="gpu/index",
        command="python -m bench.gpu.index --rows 100000",
        text="100,000 rows of 1,024 dimensions in float16.",
        tables=(gpu_index_table,),
    ),
    Section(
        title="Chaos",
        baseline="faults/chaos",
        command="python -m tests.chaos",
        text="Callers write, erase and ask while processes are killed and suspended; then every "
        "answer and every store is compared with the log of all operations. "
        "[guarantees.md](guarantees.md#faults-under-load) describes the runs.",
        tables=(chaos_table,),
    ),
    Section(
        title="Hostile input",
        baseline="security/fuzz",
        command="make fuzz",
        text="Requests of every RPC and metadata with credentials: each is accepted, or rejected "
        "with a status that is never INTERNAL.",
        tables=(fuzz_table,),
    ),
)


def page() -> str:
    """The whole page."""
    return "\n".join((HEAD, *(section.written() for section in SECTIONS)))


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--check", is_flag=True, help="Write nothing; fail if the page would change.")
def main(check: bool) -> None:
    """Write docs/benchmarks.md from the baselines."""
    text = page()
    if not check:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        raise click.ClickException(f"{PAGE.name} differs from the baselines: run `make docs`")


if __name__ == "__main__":
    main()

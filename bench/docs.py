"""Writes the results into the pages; `python -m bench.docs --check` compares these with them.

`bench/benchmarks.md.in` is the text of `docs/benchmarks.md`, and `bench/blocks.md.in` has the parts
of other pages that state results. In both, `{{FIGURE BASELINE}}` stands for a table or a figure of
a baseline, and `{{source BASELINE}}` for where and when that was measured.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import click

from bench.gpu.end_to_end import loads_table as gpu_service_table
from bench.harness import options
from bench.harness.results import Json, Record, find, number, select, table
from bench.peers import tables as peers
from bench.quality.scoring.summary import overview
from bench.reports.baselines import baseline
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
from bench.scale import growth_table
from bench.speed.cpu import cpu_table, repeated_cost
from bench.speed.faults.__main__ import FAULT, faults_table
from bench.speed.faults.degradation import degradation_table
from bench.speed.ghz import ghz_table
from bench.speed.overload import neighbours_table, overload_table, writes_table
from bench.speed.recall import recall_table

TEMPLATE = Path(__file__).with_name("benchmarks.md.in")
BLOCKS = Path(__file__).with_name("blocks.md.in")
ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
WITH_BLOCKS = (
    ROOT / "README.md",
    *(ROOT / "docs" / page for page in ("quality-sets.md", "speed.md")),
)
BLOCK = re.compile(r"<!-- (?P<name>[a-z]+) -->\n(?P<text>.*?)<!-- /(?P=name) -->\n", re.S)


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
    return f"Measured on {where},\ncommit {', '.join(commits)}."


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
    return table_of(select(records, "quality", way="default"), columns)


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


def gpu_networks_table(records: Sequence[Record]) -> str:
    """A line for each network and batch: the service, without CUDA graphs, and transformers."""

    def shape(record: Record) -> Mapping[str, Json]:
        its = table(record, "parameters")
        return {name: its[name] for name in ("rows", "tokens", "ragged", "precision")}

    def size(record: Record) -> str:
        its = shape(record)
        return f"{its['rows']} x {'<= ' if its['ragged'] else ''}{its['tokens']}"

    def p50(way: str) -> Column:
        return lambda each: figures(
            number(
                find(records, str(each["scenario"]), way=way, **shape(each)), "latency", "p50_ms"
            )
        )

    columns: dict[str, Column] = {
        "network": lambda each: str(each["scenario"]),
        "rows x tokens": size,
        "p50 ms": p50("here"),
        "without graphs": p50("here, no graphs"),
        "transformers": p50("transformers"),
        "floor": value("measured", "floor_ms"),
    }
    return table_of([each for each in records if parameter("way")(each) == "here"], columns)


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
    """The events of each run, and its findings."""
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
    """The outcomes of the inputs of each fuzzer, in all its runs."""
    runs: defaultdict[str, list[Record]] = defaultdict(list)
    for each in records:
        runs[parameter("fuzzer")(each)].append(each)

    def total(of: Sequence[Record], *path: str) -> str:
        return f"{sum(number(each, *path) or 0 for each in of):.0f}"

    summed = ("accepted", "rejected", "undecodable", "seconds")
    rows = [
        (fuzzer, total(of, "n"), *(total(of, "measured", name) for name in summed))
        for fuzzer, of in runs.items()
    ]
    return markdown_table(("fuzzer", "inputs", *summed), rows)


def hung_neo4j(records: Sequence[Record]) -> str:
    """The questions that were answered while Neo4j hung."""
    hung = find(records, FAULT, dependency="neo4j", fault="hung")
    asked, answered = number(hung, "n"), number(hung, "measured", "outcomes", "without some leg")
    share = "all" if asked == answered else f"{answered:.0f} of"
    budget_ms = table(hung, "parameters").get("budget_ms")
    return f"{share} {asked:.0f} questions were answered within their {budget_ms} ms"


def claim(records: Sequence[Record], name: str) -> str:
    """A figure of README's claims."""
    return peers.claims(records)[name]


# ---------------------------------------------------------------- the pages

FIGURES: Mapping[str, Callable[[Sequence[Record]], str]] = {
    "chaos": chaos_table,
    "cores": lambda records: str(table(records[0], "machine")["cores"]),
    "cpu": cpu_table,
    "degradation": degradation_table,
    "faults": faults_table,
    "fuzz": fuzz_table,
    "ghz": ghz_table,
    "growth": growth_table,
    "gpu-index": gpu_index_table,
    "gpu-networks": gpu_networks_table,
    "gpu-service": gpu_service_table,
    "hung": hung_neo4j,
    "index": index_table,
    "loads": loads_table,
    "neighbours": neighbours_table,
    "overload": overload_table,
    "peers": partial(peers.given_table, given=peers.TEXTS),
    "peers-facts": partial(peers.given_table, given=peers.TEXTS_AND_FACTS),
    "peers-short": peers.short_table,
    **{
        f"peers-{name}": partial(claim, name=name)
        for name in ("recall", "next", "others", "p50", "questions")
    },
    "quality": quality_table,
    "quality-sets": overview,
    "rebuilds": rebuilds_table,
    "recall": recall_table,
    "repeated": repeated_cost,
    "source": source,
    "writes": writes_table,
    "writing": writing_table,
}


def filled(template: Path) -> str:
    """The text of a template with its figures."""
    return re.sub(
        r"{{(?P<figure>\S+) (?P<baseline>\S+)}}",
        lambda found: FIGURES[found["figure"]](baseline(found["baseline"])),
        template.read_text(encoding="utf-8"),
    )


def pages() -> Mapping[Path, str]:
    """The whole text of each page that states results."""
    blocks = {found["name"]: found[0] for found in BLOCK.finditer(filled(BLOCKS))}
    with_blocks = {
        page: BLOCK.sub(
            lambda found: blocks.get(found["name"], found[0]), page.read_text(encoding="utf-8")
        )
        for page in WITH_BLOCKS
    }
    return {PAGE: filled(TEMPLATE), **with_blocks}


@click.command(context_settings=options.HELP)
@click.option("--check", is_flag=True, help="Write nothing; fail if a page would change.")
def main(check: bool) -> None:
    """Write the figures of docs/benchmarks.md, README.md and other pages from the baselines."""
    for page, text in pages().items():
        if not check:
            page.write_text(text, encoding="utf-8")
        elif not page.exists() or page.read_text(encoding="utf-8") != text:
            raise click.ClickException(f"{page} is not up to date: run `make docs`")


if __name__ == "__main__":
    main()

"""The tables of `docs/gpu.md`, made from what was measured on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bench.harness.results import Record, number, select, table
from bench.reports.report import counts, figures, markdown_table

NOT_MEASURED = "*No result of a GPU is stored yet.*"


def gpu_table(kind: str, records: Sequence[Record]) -> str:
    """The table of a kind of results, below a line that says where they were measured.

    Args:
        kind: One of `KINDS`.
        records: Of one device; none says that nothing was measured.

    Raises:
        LookupError: There is no such kind.
        ValueError: The records are of several devices, or of a CPU.
    """
    make = KINDS[kind]
    return f"{source(records)}\n\n{make(records)}" if records else NOT_MEASURED


def source(records: Sequence[Record]) -> str:
    """The device, the driver, the versions, the commits and the days of results.

    Raises:
        ValueError: They are of several devices, or of a CPU.
    """
    devices = {_device(record) for record in records}
    if len(devices) > 1:
        raise ValueError(f"results of several devices: {', '.join(sorted(devices))}")
    [device] = devices
    commits = dict.fromkeys(str(record.get("commit")) for record in records)
    days = dict.fromkeys(str(record.get("at", "")).partition(" ")[0] for record in records)
    return f"{device}, commit {', '.join(commits)}, {', '.join(days)}:"


def _device(record: Record) -> str:
    its = table(record, "device")
    if not its.get("architecture"):
        raise ValueError(f"a result of {its.get('name', 'no device')} is no result of a GPU")
    libraries = table(its, "libraries")
    named = [f"{name} {version}" for name, version in libraries.items() if name != "faiss-cpu"]
    cuda = f"CUDA {its.get('cuda')}"
    return ", ".join([str(its.get("name")), f"driver {its.get('driver')}", cuda, *named])


def _text(record: Record, part: str, name: str) -> str:
    value = table(record, part).get(name)
    return "-" if value in (None, "") else str(value)


def _times(record: Record, *percentiles: str) -> str:
    return " / ".join(figures(number(record, "latency", f"{each}_ms")) for each in percentiles)


def _measured(record: Record, name: str) -> str:
    return figures(number(record, "measured", name))


# ---------------------------------------------------------------- by kind


def _networks(records: Sequence[Record]) -> str:
    rows = []
    for record in records:
        its = table(record, "parameters")
        if not its:
            rows.append((str(record["scenario"]), _text(record, "measured", "failed"), *[""] * 6))
            continue
        shape = f"{its['rows']} x {'<= ' if its['ragged'] else ''}{its['tokens']}"
        rows.append(
            (
                f"{record['scenario']}, {its['precision']}",
                shape,
                str(its["way"]),
                _times(record, "p50", "p99"),
                figures(number(record, "throughput_per_s")),
                _measured(record, "floor_ms"),
                _measured(record, "times_the_floor"),
                _text(record, "measured", "goal"),
            )
        )
    head = ("network", "rows x tokens", "way", "p50 / p99 ms", "rows/s", "floor ms", "x floor")
    return markdown_table((*head, "goal"), rows)


def _index(records: Sequence[Record]) -> str:
    rows = []
    for record in records:
        its = table(record, "parameters")
        named = ", ".join(f"{name} {its[name]}" for name in ("way", "batch", "of") if name in its)
        rows.append(
            (
                f"{record['scenario']}, {named}" if named else str(record["scenario"]),
                figures(number(record, "parameters", "rows")),
                _times(record, "p50", "p99"),
                _measured(record, "floor_ms"),
                _measured(record, "recall"),
                _measured(record, "build_s"),
                _text(record, "measured", "goal"),
            )
        )
    head = ("", "rows", "p50 / p99 ms", "floor ms", "recall@10", "built in s", "goal")
    return markdown_table(head, rows)


def _retrieve(records: Sequence[Record]) -> str:
    rows = []
    for record in records:
        its = table(record, "parameters")
        if "loop" not in its:
            kept, missed = (_measured(record, each) for each in ("kept_per_s", "missed_per_s"))
            rows.append((str(record["scenario"]), f"kept {kept}, missed {missed}", *[""] * 5))
            continue
        closed = its["loop"] == "closed"
        rows.append(
            (
                f"c = {its['callers']}" if closed else f"{its['rate_per_s']}/s",
                figures(number(record, "throughput_per_s")),
                _times(record, "p50", "p95", "p99"),
                _measured(record, "embedding_p50_ms"),
                _measured(record, "loop_lag_p99_ms"),
                counts({name: int(str(n)) for name, n in table(record, "errors").items()}),
                _text(record, "measured", "goal"),
            )
        )
    head = ("load", "answers/s", "p50 / p95 / p99 ms", "vector p50 ms", "loop lag p99 ms", "errors")
    return markdown_table((*head, "goal"), rows)


def _batching(records: Sequence[Record]) -> str:
    rows = [
        (
            str(record["scenario"]),
            figures(number(record, "throughput_per_s")),
            _times(record, "p50", "p99"),
            _measured(record, "bulk_share"),
            _measured(record, "loop_lag_p99_ms"),
        )
        for record in records
    ]
    head = ("", "a second", "p50 / p99 ms", "documents, share of their rate alone")
    return markdown_table((*head, "loop lag p99 ms"), rows)


def _fill(records: Sequence[Record]) -> str:
    rows = [
        (
            figures(number(record, "parameters", "rows")),
            _measured(record, "seconds"),
            figures(number(record, "throughput_per_s")),
        )
        for record in select(records, "index from PostgreSQL to serving")
    ]
    return markdown_table(("rows", "seconds to the first answer", "rows/s"), rows)


KINDS: Mapping[str, Callable[[Sequence[Record]], str]] = {
    "networks": _networks,
    "index": _index,
    "retrieve": _retrieve,
    "batching": _batching,
    "fill": _fill,
}

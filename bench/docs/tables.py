"""The tables and figures of the pages, made from the baselines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from bench.gpu.tables import gpu_table
from bench.harness.results import Record, find, number, select, table
from bench.index import scale
from bench.index.tables import rebuilds, ways_table
from bench.peers.tables import summary as peers_table
from bench.quality.pages.summary import difference, marked
from bench.quality.pages.tables import answerable_table, budgets_table
from bench.quality.scoring.metrics import EVIDENCE, METRICS
from bench.reports.baselines import baseline
from bench.reports.compare import pairs_table
from bench.reports.goals import SET_GOALS
from bench.reports.report import estimate, figures, goals_table, loads_table, markdown_table
from bench.speed.cancellation.figures import cancellation_table
from bench.speed.cpu.figures import cpu_table
from bench.speed.faults.figures import faults_table
from bench.speed.ghz.figures import open_loops_table
from bench.speed.overload.figures import neighbours_table, overload_table, writes_table
from bench.speed.postgres.figures import security_table
from bench.speed.recall.figures import recall_table

SETS = tuple(SET_GOALS)
CONVERSATIONS = ("locomo", "realtalk")
DEFAULT = "default"

_SELECTOR = re.compile(r"(?P<scenario>[^\[]+)(?:\[(?P<parameters>.*)\])?")


def render(kind: str, arguments: Sequence[str]) -> str:
    """The text of a generated part.

    Raises:
        LookupError: The table, the record or the figure does not exist.
        OSError: The baseline does not exist.
        TypeError: The number of arguments is wrong.
        ValueError: The format or the selector is malformed.
    """
    return _KINDS[kind](*arguments)


def _table(name: str, *arguments: str) -> str:
    return TABLES[name](*arguments)


def _figure(name: str, selector: str, path: str, format_: str) -> str:
    matched = _SELECTOR.fullmatch(selector)
    if matched is None:
        raise ValueError(f"expected SCENARIO[PARAMETER=VALUE,...], got {selector!r}")
    wanted = dict(pair.split("=") for pair in (matched["parameters"] or "").split(",") if pair)
    for record in select(baseline(name), matched["scenario"]):
        values = {**table(record, "parameters"), "set": _set_of(record)}
        if all(str(values.get(key)) == value for key, value in wanted.items()):
            value = number(record, *path.split("."))
            if value is None:
                raise LookupError(f"no number at {path!r}")
            return format(value, format_)
    raise LookupError(f"no record {selector!r}")


def _source(name: str) -> str:
    record = baseline(name)[0]
    machine = table(record, "machine")
    date = str(record.get("at", "")).partition(" ")[0]
    where = f"{machine['cores']} cores of {machine['cpu']}"
    return ", ".join(filter(None, (f"commit {record['commit']}", date, where)))


_KINDS: Mapping[str, Callable[..., str]] = {
    "table": _table,
    "figure": _figure,
    "source": _source,
}


# ---------------------------------------------------------------- speed


def _locomo(*names: str) -> list[Record]:
    return [each for name in names for each in baseline(name) if _set_of(each) == "locomo"]


def _goals() -> str:
    return goals_table(_locomo("speed/load", "speed/writes", "quality/default"))


def _loads(name: str) -> str:
    return loads_table(baseline(name))


def _pairs() -> str:
    return pairs_table(baseline("speed/pairs"))


def _overload(name: str) -> str:
    return overload_table(baseline(name))


def _ghz() -> str:
    return open_loops_table(baseline("speed/ghz-overload"))


def _neighbours(name: str) -> str:
    return neighbours_table(baseline(name))


def _beside_writes(name: str) -> str:
    return writes_table(baseline(name))


def _cpu(name: str) -> str:
    return cpu_table(baseline(name))


def _peers() -> str:
    return peers_table(baseline("peers"))


def _faults(name: str) -> str:
    return faults_table(baseline(name))


def _recall(name: str) -> str:
    return recall_table(baseline(name))


def _cancellation(name: str) -> str:
    return cancellation_table(baseline(name))


def _chaos() -> str:
    """What happened in each run, and what was found."""
    found = ("lost", "double", "stale", "half_written", "resurrected", "unverified")
    counted = ("operations", "acknowledged", "retried", "answers", "rows", *found)
    rows = [
        (
            str(table(each, "parameters")["placement"]),
            figures(number(each, "parameters", "seed")),
            figures(number(each, "n")),
            *(figures(number(each, "measured", name)) for name in counted),
        )
        for each in baseline("faults/chaos")
    ]
    names = (name.replace("_", "-") for name in counted)
    return markdown_table(("placement", "seed", "rounds", *names), rows)


def _fuzz() -> str:
    """What became of the inputs of each fuzzer, in all its runs."""
    runs: dict[str, list[Record]] = {}
    for each in baseline("security/fuzz"):
        runs.setdefault(str(table(each, "parameters")["fuzzer"]), []).append(each)
    summed = ("accepted", "rejected", "undecodable", "seconds")
    rows = [
        (
            fuzzer,
            f"{sum(number(each, 'n') or 0 for each in of):.0f}",
            *(f"{sum(number(each, 'measured', name) or 0 for each in of):.0f}" for name in summed),
            figures(max(number(each, "measured", "memory_mib") or 0 for each in of)),
        )
        for fuzzer, of in runs.items()
    ]
    return markdown_table(("fuzzer", "inputs", *summed, "memory, MiB"), rows)


def _batching() -> str:
    """The simulated device, for each switch interval of Python's threads."""
    names = {"queries alone": "questions alone", "queries and bulk": "questions and documents"}
    rows = [
        (
            f"{names[str(record['scenario'])]}, threads switched after "
            f"{figures(number(record, 'parameters', 'switch_ms'))} ms",
            " / ".join(figures(number(record, "latency", f"{each}_ms")) for each in ("p50", "p99")),
            figures(number(record, "measured", "bulk_share")),
            figures(number(record, "measured", "loop_lag_p99_ms")),
        )
        for record in baseline("gpu/batching-simulated")
        if record["scenario"] in names
    ]
    share = "documents, share of their rate alone"
    return markdown_table(("", "questions p50 / p99, ms", share, "event loop lag, p99 ms"), rows)


def _gpu(kind: str) -> str:
    """What was measured on a GPU, if anything was."""
    try:
        records = baseline(f"gpu/{kind}")
    except FileNotFoundError:
        records = []
    return gpu_table(kind, records)


# ---------------------------------------------------------------- quality


def _set_of(record: Record) -> str:
    return str(table(record, "collection").get("name", ""))


def _way(records: Iterable[Record], set_: str, way: str) -> Record:
    found = find([each for each in records if _set_of(each) == set_], "quality", way=way)
    if found is None:
        raise LookupError(f"the set {set_!r} has no way {way!r}")
    return found


def _mean(record: Record, metric: str) -> str:
    return estimate(table(record, "measured", metric))


def _sets() -> str:
    """The default profile on every set, with the goals."""
    rows = []
    for name in SETS:
        record = _way(baseline("quality/default"), name, DEFAULT)
        metric, bound = SET_GOALS[name]
        mean = number(record, "measured", metric, "mean") or 0.0
        verdict = "reached" if mean >= bound else "**missed**"
        means = [_mean(record, each) for each in METRICS if each != "recall@5"]
        goal = f"{metric} >= {bound:g}: {verdict}"
        rows.append((name, figures(number(record, "n")), *means, goal))
    metrics = [each for each in METRICS if each != "recall@5"]
    return markdown_table(("set", "questions", *metrics, "goal"), rows)


def _former() -> str:
    """The default profile and the former one on every set."""
    ways = {
        "": (baseline("quality/words"), DEFAULT),
        "former ": (baseline("quality/former"), "former"),
    }
    return _side_by_side(ways, ("recall@10", "mrr@10"))


def _encoders() -> str:
    """The default profile with either published encoder, on the sets that both were asked."""
    other = baseline("quality/bge-small")
    ways = {
        "minilm ": (baseline("quality/words"), DEFAULT),
        "bge-small ": (other, "bge-small"),
        "with its floors ": (other, "bge-small, own floors"),
    }
    return _side_by_side(ways, ("recall@10", "ndcg@10", "mrr@10"))


def _side_by_side(ways: Mapping[str, tuple[Sequence[Record], str]], metrics: Sequence[str]) -> str:
    """Ways of one run or of several, each with what is written before its metrics."""
    sets = [set(map(_set_of, records)) for records, _ in ways.values()]
    rows = []
    for name in sorted(set.intersection(*sets)):
        found = [_way(records, name, way) for records, way in ways.values()]
        means = [_mean(record, metric) for metric in metrics for record in found]
        rows.append((name, figures(number(found[0], "n")), *means))
    columns = (f"{prefix}{metric}" for metric in metrics for prefix in ways)
    return markdown_table(("set", "questions", *columns), rows)


def _differences(name: str, metric: str, *ways: str) -> str:
    """The paired differences of ways to the default profile, by set."""
    records = baseline(name)
    found = {_set_of(each) for each in records}
    sets = [*(each for each in SETS if each in found), *sorted(found.difference(SETS))]
    rows = [
        (way, *(marked(difference(_way(records, each, way), metric)) for each in sets))
        for way in ways
    ]
    return markdown_table((metric, *sets), rows)


def _forms(profile: str) -> str:
    """The text forms: means of the served one, and the differences of the others to it."""
    records = baseline("quality/forms")
    metrics = ("recall@10", "mrr@10", EVIDENCE)
    ways = [
        str(table(each, "parameters")["way"])
        for each in records
        if _set_of(each) == CONVERSATIONS[0]
    ]
    rows = []
    for way in (each for each in ways if each.startswith(f"{profile}, ")):
        cells = []
        for name in CONVERSATIONS:
            record = _way(records, name, way)
            for metric in metrics:
                found = difference(record, metric)
                cells.append(marked(found) if found else _mean(record, metric).partition(" ")[0])
        rows.append((way.removeprefix(f"{profile}, "), *cells))
    columns = [f"{name} {metric}" for name in CONVERSATIONS for metric in metrics]
    return markdown_table(("text", *columns), rows)


def _doubled() -> str:
    records = baseline("quality/doubled")
    rows = []
    for name in CONVERSATIONS:
        whole, split, apart = (
            _way(records, name, way) for way in ("as one text", "by its questions", "one by one")
        )
        cells = [
            marked(difference(each, metric))
            for each in (split, apart)
            for metric in ("recall@10", "mrr@10")
        ]
        rows.append((name, figures(number(whole, "n")), _mean(whole, "recall@10"), *cells))
    columns = ("one vector: recall@10", "a vector each: recall@10", "mrr@10")
    return markdown_table(
        ("set", "pairs", *columns, "separate requests: recall@10", "mrr@10"), rows
    )


def _names() -> str:
    """The same questions as written, with changed names, and with these resolved."""
    records = baseline("quality/names")
    rows = []
    for changed in dict.fromkeys(map(_set_of, records)):
        name, _, change = changed.partition("-")
        if not change:
            continue
        resolved = _way(records, changed, DEFAULT)
        ways = (_way(records, name, DEFAULT), _way(records, changed, NOT_RESOLVED), resolved)
        means = [_mean(each, "recall@10").partition(" ")[0] for each in ways]
        gains = [marked(difference(resolved, metric)) for metric in ("recall@10", "mrr@10")]
        rows.append((f"{name}, {change}", figures(number(resolved, "n")), *means, *gains))
    means_of = ("as written: recall@10", "changed, not resolved", "resolved")
    gains_of = ("gain of resolving: recall@10", "mrr@10")
    return markdown_table(("set", "questions", *means_of, *gains_of), rows)


NOT_RESOLVED = "not resolved"


def _names_by_seed() -> str:
    rows = []
    for seed in ("0", "1", "2"):
        for record in baseline(f"quality/names-seed-{seed}"):
            if difference(record, "recall@10"):
                gains = [marked(difference(record, metric)) for metric in ("recall@10", "mrr@10")]
                rows.append((f"{_set_of(record).partition('-')[0]}, seed {seed}", *gains))
    return markdown_table(("misheard", "gain of resolving: recall@10", "mrr@10"), rows)


def _names_as_written() -> str:
    records = baseline("quality/names")
    sets = (*SETS, "sample")
    rows = [
        (metric, *(marked(difference(_way(records, each, DEFAULT), metric)) for each in sets))
        for metric in ("recall@10", "mrr@10")
    ]
    return markdown_table(("gain of resolving", *sets), rows)


def _extraction() -> str:
    """Answers without facts, with extracted ones, and with those of the set."""
    metrics = ("recall@10", "mrr@10")
    rows = []
    for record in baseline("quality/extraction"):
        means = [_mean_alone(record, metric) for metric in metrics]
        gains = [difference(record, metric) for metric in metrics]
        shown = [marked(gain) if gain else "" for gain in gains]
        rows.append((str(table(record, "parameters")["way"]), *means, *shown))
    return markdown_table(
        ("facts", *metrics, *(f"{metric}, gain over none" for metric in metrics)), rows
    )


def _control() -> str:
    """Recall of BM25 by the words that are left out."""
    records = baseline("quality/control")
    sets = list(dict.fromkeys(map(_set_of, records)))
    by_words: dict[str, list[str]] = {}
    for record in records:
        words = str(table(record, "parameters")["stop_words"])
        mean = _mean_alone(record, "recall@10")
        by_words.setdefault(words, []).append(mean)
    rows = [(words, *cells) for words, cells in by_words.items()]
    return markdown_table(("stop words: recall@10", *sets), rows)


def _mean_alone(record: Record, metric: str) -> str:
    """A mean without its interval."""
    return _mean(record, metric).partition(" ")[0]


def _budgets() -> str:
    return budgets_table(baseline("quality/budgets"))


def _answerable() -> str:
    return answerable_table(baseline("quality/answerable"))


def _tune(name: str) -> str:
    [run] = baseline(name)
    names: Mapping[str, str] = {
        "before": "the default profile",
        "after": "the profile found, on the questions that chose it",
        "held_out": "the profiles found, each on questions held out from its search",
    }
    rows = [(text, f"{number(run, name):.3f}") for name, text in names.items()]
    return markdown_table(("objective", "mean"), rows)


# ---------------------------------------------------------------- the index


def _rebuilds() -> str:
    records = [*baseline("index/searches"), *baseline("index/rebuild")]
    return rebuilds([each for each in records if "rebuilt" in str(each["scenario"])])


def _scale(dimension: str, machine_gib: str) -> str:
    records = [*baseline("index/searches"), *baseline("index/fill")]
    return scale.described(records, int(dimension), float(machine_gib), price=1.0)


TABLES: Mapping[str, Callable[..., str]] = {
    "goals": _goals,
    "loads": _loads,
    "pairs": _pairs,
    "cpu": _cpu,
    "peers": _peers,
    "overload": _overload,
    "ghz": _ghz,
    "neighbours": _neighbours,
    "beside-writes": _beside_writes,
    "faults": _faults,
    "recall": _recall,
    "cancellation": _cancellation,
    "batching": _batching,
    "chaos": _chaos,
    "fuzz": _fuzz,
    "security": lambda: security_table(baseline("speed/security")),
    "gpu": _gpu,
    "sets": _sets,
    "former": _former,
    "encoders": _encoders,
    "differences": _differences,
    "forms": _forms,
    "doubled": _doubled,
    "extraction": _extraction,
    "names": _names,
    "names-by-seed": _names_by_seed,
    "names-as-written": _names_as_written,
    "control": _control,
    "answerable": _answerable,
    "budgets": _budgets,
    "tune": _tune,
    "index-searches": lambda: ways_table(select(baseline("index/searches"), "index")),
    "index-rebuilds": _rebuilds,
    "index-scale": _scale,
}

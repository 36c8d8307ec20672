"""A control: BM25 of the library bm25s, scored by our metrics. `python -m bench.quality.control`.

If it reproduces its published numbers, sets are read and answers are scored correctly. The lexical
leg of the service should not score lower.

Source:
    Lù, "BM25S: Orders of magnitude faster lexical search via eager sparse scoring", 2024.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import bm25s
import click
import Stemmer
from bm25s.stopwords import STOPWORDS_EN

from bench.harness.collection import Collection, Memory, Query, read_collection
from bench.harness.results import Result, append_record, number, run_folder, table
from bench.quality.command import sets_argument
from bench.quality.scoring.intervals import mean_interval
from bench.quality.scoring.metrics import scores
from bench.reports.environment import about
from bench.reports.report import estimate, figures, markdown_table
from trivium.values import Segment

K1, B = 1.5, 0.75
LANGUAGE = "english"
SCENARIO = "bm25"
DEPTH = 100

QUESTION_WORDS = ("how", "what", "when", "where", "which", "who", "whom", "whose", "why")
STOP_WORDS: Mapping[str, Sequence[str]] = {
    "english": STOPWORDS_EN,
    "english and question words": (*STOPWORDS_EN, *QUESTION_WORDS),
    "none": (),
}
"""Words that are removed from texts and questions; the control uses the first list."""

ENGLISH = "english"


def ranked_by_bm25(
    collection: Collection, depth: int = DEPTH, stop_words: str = ENGLISH
) -> dict[str, list[str]]:
    """The segments that BM25 finds for each judged question, best first.

    Each tenant has its own index, as in the service.

    Args:
        collection: The set.
        depth: The maximum length of a list.
        stop_words: A name in `STOP_WORDS`.
    """
    left_out = STOP_WORDS[stop_words]
    by_tenant: dict[str, list[Query]] = {}
    for query in collection.judged:
        by_tenant.setdefault(query.tenant, []).append(query)
    return {
        query.id: found
        for tenant, queries in by_tenant.items()
        for query, found in zip(
            queries, _ranked(collection.memories[tenant], queries, depth, left_out), strict=True
        )
    }


def scored(
    collection: Collection, ranked: Mapping[str, Sequence[str]]
) -> dict[str, Mapping[str, float]]:
    """The metrics of each judged question."""
    return {query.id: scores(ranked[query.id], query.relevant) for query in collection.judged}


def _ranked(
    memory: Memory, queries: Sequence[Query], depth: int, stop_words: Sequence[str]
) -> list[list[str]]:
    stemmer = Stemmer.Stemmer(LANGUAGE)
    index = bm25s.BM25(k1=K1, b=B)
    texts = [_text(segment) for segment in memory.segments]
    index.index(_tokens(texts, stemmer, stop_words), show_progress=False)
    places, _ = index.retrieve(
        _tokens([query.text for query in queries], stemmer, stop_words),
        k=min(depth, len(texts)),
        show_progress=False,
    )
    return [[memory.segments[place].id for place in of_query] for of_query in places]


def _tokens(
    texts: Sequence[str], stemmer: Stemmer.Stemmer, stop_words: Sequence[str]
) -> bm25s.tokenization.Tokenized:
    return bm25s.tokenize(texts, stopwords=stop_words, stemmer=stemmer, show_progress=False)


def _text(segment: Segment) -> str:
    return " ".join(filter(None, (segment.title, segment.speaker, segment.text)))


def results_of(collection: Collection) -> Iterator[Result]:
    """The scores of BM25, one result for each list of stop words."""
    clusters = [query.tenant for query in collection.judged]
    for stop_words in STOP_WORDS:
        found = scored(collection, ranked_by_bm25(collection, stop_words=stop_words)).values()
        names = next(iter(found))
        yield Result(
            scenario=SCENARIO,
            parameters={"stop_words": stop_words},
            n=len(found),
            measured={
                metric: mean_interval([each[metric] for each in found], clusters).as_record()
                for metric in names
            },
        )


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@sets_argument
@click.option("--out", type=click.Path(path_type=Path), help="A folder for the results.")
def main(folders: Sequence[Path], out: Path | None) -> None:
    """Score BM25 on the set in each FOLDER, with different stop words."""
    out = out or run_folder("control")
    out.mkdir(parents=True, exist_ok=True)
    for folder in folders:
        collection = read_collection(folder)
        if collection.problems:
            raise click.ClickException(str(collection.problems[0]))
        records = [each.as_record(about(collection)) for each in results_of(collection)]
        for record in records:
            append_record(out, record)
        metrics = [*table(records[0], "measured")]
        rows = [
            (
                str(table(record, "parameters")["stop_words"]),
                *(estimate(table(record, "measured", metric)) for metric in metrics),
            )
            for record in records
        ]
        head = f"{collection.name}, {figures(number(records[0], 'n'))} questions: stop words"
        click.echo(markdown_table((head, *metrics), rows) + "\n")
    click.echo(f"written to {out}")


if __name__ == "__main__":
    main()

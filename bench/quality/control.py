"""A known control: BM25 by somebody else's code, scored by ours. `python -m bench.quality.control`.

If its published number comes out, then sets are read and answers are scored as they should be; and
it is the least that the service's own words must keep up with.

Source:
    Lù, "BM25S: Orders of magnitude faster lexical search via eager sparse scoring", 2024.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import bm25s
import click
import Stemmer
from bm25s.stopwords import STOPWORDS_EN

from bench.collection import Collection, Memory, Query, read_collection
from bench.quality.intervals import mean_interval
from bench.quality.metrics import METRICS, scores
from bench.report import estimate, markdown_table
from trivium.values import Segment

K1, B = 1.5, 0.75
LANGUAGE = "english"
DEPTH = 100

QUESTION_WORDS = ("how", "what", "when", "where", "which", "who", "whom", "whose", "why")
STOP_WORDS: Mapping[str, Sequence[str]] = {
    "english": STOPWORDS_EN,
    "english and question words": (*STOPWORDS_EN, *QUESTION_WORDS),
    "none": (),
}
"""What can be left out of texts and questions; the first is the control's."""

ENGLISH = "english"


def ranked_by_bm25(
    collection: Collection, depth: int = DEPTH, stop_words: str = ENGLISH
) -> dict[str, list[str]]:
    """The segments that BM25 finds for each judged question, best first.

    Every conversation has an index of its own, as it has a tenant of its own in the service.

    Args:
        collection: The set.
        depth: The longest list.
        stop_words: The words to leave out, by their name in `STOP_WORDS`.
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


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--stop-words",
    type=click.Choice([*STOP_WORDS]),
    default=ENGLISH,
    show_default=True,
    help="Leave these out of texts and questions.",
)
def main(folder: Path, stop_words: str) -> None:
    """Print what BM25 scores on the set in FOLDER."""
    collection = read_collection(folder)
    if collection.problems:
        raise click.ClickException(str(collection.problems[0]))
    found = scored(collection, ranked_by_bm25(collection, stop_words=stop_words))
    clusters = [query.tenant for query in collection.judged]
    rows = [
        (
            metric,
            estimate(
                mean_interval([each[metric] for each in found.values()], clusters).as_record()
            ),
        )
        for metric in METRICS
        if all(metric in each for each in found.values())
    ]
    click.echo(markdown_table((f"{len(found)} questions", "BM25 [95 %]"), rows))


if __name__ == "__main__":
    main()

"""Tables of the pages about questions without an answer, and about reranking within budgets."""

from __future__ import annotations

from collections.abc import Sequence

from bench.harness.results import Record, number, table
from bench.quality.pages.summary import difference, marked
from bench.reports.report import estimate, figures, markdown_table


def answerable_table(records: Sequence[Record]) -> str:
    """Markdown of the areas under the curve."""
    rows = []
    for record in records:
        parameters = table(record, "parameters")
        tested, fitted = str(parameters["tested"]), str(parameters["fitted"])
        rows.append(
            (
                tested,
                "its other conversations" if tested == fitted else fitted,
                figures(number(record, "n")),
                figures(number(record, "measured", "unanswerable")),
                estimate(table(record, "measured", "auroc")),
            )
        )
    return markdown_table(
        ("tested on", "fitted to", "questions", "without an answer", "AUROC"), rows
    )


def budgets_table(records: Sequence[Record]) -> str:
    """Markdown: quality, the share that was not reranked, and time, by budget."""
    rows = []
    for record in records:
        cells = []
        for metric in ("recall@10", "mrr@10"):
            found = difference(record, metric)
            mean = estimate(table(record, "measured", metric))
            cells.append(marked(found) if found else mean)
        coarse = number(record, "measured", "coarse_share")
        rows.append(
            (
                str(table(record, "collection").get("name")),
                str(table(record, "parameters")["way"]),
                *cells,
                "" if coarse is None else f"{coarse:.0%}",
                figures(number(record, "measured", "pairs")),
                figures(number(record, "measured", "failed")),
                figures(number(record, "measured", "server", "p50_ms")),
            )
        )
    columns = ("set", "budget", "recall@10", "mrr@10", "not reranked", "pairs", "failed", "p50, ms")
    return markdown_table(columns, rows)

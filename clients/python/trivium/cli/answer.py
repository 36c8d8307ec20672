"""Prints the result of a query: hits, retrievers, ledgers, timings and expectations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trivium.cli.ledger import ledger_lines
from trivium.cli.output import day, milliseconds, stdout, styled, table
from trivium.files.reading import Question
from trivium.values import Fact, Hit, LegReport, Retrieval, Stage, Statistics

FIRST = 3
"""An expected item must be among this many first hits."""

_RETRIEVERS = {
    "lexical": "words",
    "dense": "meaning",
    "temporal": "time",
    "important": "importance",
}
_RELATIONS = ("facts", "graph", "related")


@dataclass(frozen=True, slots=True)
class Answer:
    """A question and its result."""

    question: Question
    retrieval: Retrieval

    @property
    def rank(self) -> int | None:
        """The rank of the first expected hit; None if there is none."""
        return self.retrieval.rank_of(self.question.answer)

    @property
    def satisfied(self) -> bool:
        """Whether an expected item, if there is one, is among the first hits."""
        return not self.question.answer or (self.rank is not None and self.rank <= FIRST)


def retrievers(legs: Sequence[str]) -> str:
    """The kinds of retriever of some legs, such as "words, relations (graph)"."""
    named = [_RETRIEVERS.get(leg, leg) for leg in legs if leg not in _RELATIONS]
    through = [leg for leg in legs if leg in _RELATIONS]
    if through:
        named.append(f"relations ({', '.join(through)})")
    return ", ".join(named)


def print_answer(answer: Answer, *, explain: bool, briefing: bool) -> None:
    """Prints one answer to stdout."""
    console = stdout()
    retrieval = answer.retrieval
    console.print(styled(answer.question.text, "bold"))
    if briefing:
        console.print(styled_block(retrieval.briefing) or Text("nothing found", "dim"))
    elif retrieval.hits:
        console.print(_hits(retrieval.hits, explain))
    else:
        console.print(Text("nothing found", "dim"))
    for line in _remarks(answer):
        console.print(line)
    if explain:
        _print_legs(console, retrieval)
    console.print()


def print_summary(answers: Sequence[Answer]) -> None:
    """Prints how many of several questions found an expected item."""
    expected = [answer for answer in answers if answer.question.answer]
    without = [answer for answer in answers if not answer.question.answerable]
    parts = []
    if expected:
        found = sum(answer.satisfied for answer in expected)
        parts.append(f"{found} of {len(expected)} answers among the first {FIRST}")
    if without:
        silent = sum(not answer.retrieval.hits for answer in without)
        parts.append(f"no hits for {silent} of {len(without)} questions without an answer")
    if parts and len(answers) > 1:
        stdout().print(Text("; ".join(parts) + ".", "bold"))


def print_hits(hits: Sequence[Hit], *, explain: bool) -> None:
    """Prints hits to stdout."""
    stdout().print(_hits(hits, explain))


def styled_block(block: str) -> Text:
    """A text of several lines, without control characters."""
    return Text("\n").join(styled(line) for line in block.splitlines())


def _hits(hits: Sequence[Hit], explain: bool) -> Table:
    rows = table("#", "found by", "hit", "score")
    rows.columns[0].justify = "right"
    rows.columns[1].max_width = 22
    rows.columns[2].ratio = 1
    rows.expand = True
    for hit in hits:
        rows.add_row(
            str(hit.rank), Text(retrievers(hit.legs), "cyan"), _hit(hit), f"{hit.score:.4f}"
        )
        if explain and hit.ledger is not None:
            for line in ledger_lines(hit.ledger):
                rows.add_row("", "", styled(line, "green"), "")
    return rows


def _hit(hit: Hit) -> Text:
    item = hit.item
    if isinstance(item, Fact):
        about = [item.id, "fact", day(item.valid_from)]
    else:
        about = [item.id, item.title, item.speaker, day(item.event_time)]
    about.insert(0, hit.tenant)
    if hit.folded:
        about.append(f"also {', '.join(each.id for each in hit.folded)}")
    if hit.outdated_by is not None:
        about.append(f"earlier than {hit.outdated_by.id}")
    if hit.stage is not Stage.NONE:
        about.append(hit.stage.value)
    return Text.assemble(styled(" · ".join(filter(None, about)), "dim"), "\n", styled(hit.text))


def _remarks(answer: Answer) -> Iterator[Text]:
    question, retrieval = answer.question, answer.retrieval
    if question.answer:
        yield _expectation(answer)
    if not question.answerable:
        count = len(retrieval.hits)
        said = f"has no answer, but {count} hits" if count else "has no answer, and no hits"
        yield Text(said, "yellow" if count else "green")
    for line in shortcomings(retrieval):
        yield styled(line, "yellow")


def shortcomings(retrieval: Retrieval) -> Iterator[str]:
    """Deviations from the request: coercions, legs that are not OK, reranking."""
    for coercion in retrieval.coercions:
        yield f"{coercion.field}: {coercion.used or 'nothing'} instead of {coercion.given}"
    for report in retrieval.leg_reports:
        notes = [
            report.reason,
            f"{report.pending_count} rows cannot be found yet" if report.pending_count else "",
        ]
        if any(notes):
            of_tenant = f" of {report.tenant}" if report.tenant else ""
            yield f"{report.leg}{of_tenant} {report.state}: {'; '.join(filter(None, notes))}"
    if retrieval.rerank is not None and retrieval.rerank.reason:
        yield f"{retrieval.rerank.stage}: {retrieval.rerank.reason}"


def _expectation(answer: Answer) -> Text:
    expected = " or ".join(answer.question.answer)
    if answer.rank is None:
        return styled(f"{expected} is not among the {len(answer.retrieval.hits)} hits", "red")
    where = f"{expected} is at rank {answer.rank}"
    if answer.satisfied:
        return styled(where, "green")
    return styled(f"{where}, not among the first {FIRST}", "red")


def _print_legs(console: Console, retrieval: Retrieval) -> None:
    rows = table("leg", "state", "time", "candidates", "below floor")
    for report in retrieval.leg_reports:
        rows.add_row(*_leg(report))
    console.print(rows)
    console.print(Text(_times(retrieval.statistics), "dim"))


def _leg(report: LegReport) -> tuple[str, ...]:
    return (
        report.leg,
        report.state.value,
        milliseconds(report.elapsed),
        str(report.candidate_count),
        str(report.below_floor_count),
    )


def _times(statistics: Statistics) -> str:
    return (
        f"total {milliseconds(statistics.total)}: embedding {milliseconds(statistics.embedding)}, "
        f"loading {milliseconds(statistics.loading)}, "
        f"reranking {milliseconds(statistics.reranking)}, "
        f"ranking {milliseconds(statistics.ranking)}; "
        f"{statistics.candidate_count} candidates, {statistics.folded_count} folded"
    )

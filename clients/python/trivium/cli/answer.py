"""Shows the answer to a question: hits, roads, ledgers, times, and what was expected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trivium.cli.output import day, milliseconds, stdout, styled, table
from trivium.reading import Question
from trivium.values import (
    Fact,
    FusionMethod,
    Hit,
    Ledger,
    LegReport,
    LegTerm,
    Retrieval,
    Stage,
    Statistics,
)

FIRST = 3
"""An answer is satisfying if it is among the first so many hits."""

_ROADS = {"lexical": "words", "dense": "meaning"}
_RELATIONS = ("facts", "graph")


@dataclass(frozen=True, slots=True)
class Answer:
    """A question and what was found."""

    question: Question
    retrieval: Retrieval

    @property
    def rank(self) -> int | None:
        """The place of the first expected hit; None if there is none."""
        return self.retrieval.rank_of(self.question.answer)

    @property
    def satisfied(self) -> bool:
        """Whether what is expected, if anything is, is among the first hits."""
        return not self.question.answer or (self.rank is not None and self.rank <= FIRST)


def roads(legs: Sequence[str]) -> str:
    """Names the roads of some legs, such as "words, relations (graph)"."""
    named = [_ROADS.get(leg, leg) for leg in legs if leg not in _RELATIONS]
    through = [leg for leg in legs if leg in _RELATIONS]
    if through:
        named.append(f"relations ({', '.join(through)})")
    return ", ".join(named)


def print_answer(answer: Answer, *, explain: bool, briefing: bool) -> None:
    """Shows one answer on stdout."""
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
    """Says how many of several questions found what was expected."""
    expected = [answer for answer in answers if answer.question.answer]
    without = [answer for answer in answers if not answer.question.answerable]
    parts = []
    if expected:
        found = sum(answer.satisfied for answer in expected)
        parts.append(f"{found} of {len(expected)} answers among the first {FIRST}")
    if without:
        silent = sum(not answer.retrieval.hits for answer in without)
        parts.append(f"nothing found for {silent} of {len(without)} that have no answer")
    if parts and len(answers) > 1:
        stdout().print(Text("; ".join(parts) + ".", "bold"))


def print_hits(hits: Sequence[Hit], *, explain: bool) -> None:
    """Shows hits on stdout."""
    stdout().print(_hits(hits, explain))


def styled_block(block: str) -> Text:
    """A text of several lines, each without control characters."""
    return Text("\n").join(styled(line) for line in block.splitlines())


def _hits(hits: Sequence[Hit], explain: bool) -> Table:
    rows = table("#", "found by", "hit", "score")
    rows.columns[0].justify = "right"
    rows.columns[1].max_width = 22
    rows.columns[2].ratio = 1
    rows.expand = True
    for hit in hits:
        rows.add_row(str(hit.rank), Text(roads(hit.legs), "cyan"), _hit(hit), f"{hit.score:.4f}")
        if explain and hit.ledger is not None:
            for line in ledger_lines(hit.ledger):
                rows.add_row("", "", line, "")
    return rows


def _hit(hit: Hit) -> Text:
    item = hit.item
    if isinstance(item, Fact):
        about = [item.id, "fact", day(item.valid_from)]
    else:
        about = [item.id, item.title, item.speaker, day(item.event_time)]
    if hit.folded_ids:
        about.append(f"also {', '.join(hit.folded_ids)}")
    if hit.stage is not Stage.NONE:
        about.append(hit.stage.value)
    return Text.assemble(styled(" · ".join(filter(None, about)), "dim"), "\n", styled(hit.text))


def ledger_lines(ledger: Ledger) -> Iterator[Text]:
    """How a score came about, a line for each step."""
    for term in ledger.leg_terms:
        yield from _term(term, ledger)
    yield Text(f"sum {ledger.fused_score:.5f}", "green")
    if ledger.importance is not None:
        importance = ledger.importance
        yield Text(
            f"importance {importance.importance:g}: "
            f"x {importance.multiplier:.3f} + {importance.boost:.5f}",
            "green",
        )
    if ledger.decay is not None:
        decay = ledger.decay
        age = decay.age.total_seconds() / 86400
        yield Text(f"age {age:.1f} days: x {decay.multiplier:.3f}", "green")
    if ledger.rerank is not None:
        rerank = ledger.rerank
        yield Text(
            f"reranked: {1 - rerank.weight:g} x coarse / {rerank.scale:.5g} + "
            f"{rerank.weight:g} x sigmoid({rerank.logit:.3f})",
            "green",
        )
    if ledger.diversity is not None:
        diversity = ledger.diversity
        like = f" (like {diversity.closest_id})" if diversity.closest_id else ""
        yield styled(
            f"diversity: {diversity.trade_off:g} x {diversity.relevance:.3f} - "
            f"{1 - diversity.trade_off:g} x {diversity.max_similarity:.3f}{like} "
            f"= {diversity.value:.3f}",
            "green",
        )
    if ledger.reserved_by:
        yield styled(f"in a place reserved for {ledger.reserved_by}", "green")


def _term(term: LegTerm, ledger: Ledger) -> Iterator[Text]:
    yield styled(f"{term.leg}: {_formula(term, ledger)} = {term.term:.5f}", "green")
    if term.path:
        yield styled(f"  {term.path}", "green")
    if term.fact_ids:
        yield styled(f"  evidence of {', '.join(term.fact_ids)}", "green")


def _formula(term: LegTerm, ledger: Ledger) -> str:
    score = f"leg score {term.leg_score:.3g}"
    match ledger.method:
        case FusionMethod.RECIPROCAL_RANK:
            return f"{term.weight:g} / ({ledger.rank_constant:g} + {term.rank}) ({score})"
        case FusionMethod.CONVEX:
            ends = f"{term.least:.3g} to {term.most:.3g}"
            return f"{term.weight:g} x its share of {ends} ({score}, rank {term.rank})"
        case _:
            return f"{term.weight:g} x {score} (rank {term.rank})"


def _remarks(answer: Answer) -> Iterator[Text]:
    question, retrieval = answer.question, answer.retrieval
    if question.answer:
        yield _expectation(answer)
    if not question.answerable:
        count = len(retrieval.hits)
        said = f"has no answer, yet {count} found" if count else "has no answer, and none is given"
        yield Text(said, "yellow" if count else "green")
    for coercion in retrieval.coercions:
        yield styled(f"{coercion.field}: {coercion.used} instead of {coercion.given}", "yellow")
    for report in retrieval.leg_reports:
        if report.reason:
            yield styled(f"{report.leg} {report.state}: {report.reason}", "yellow")
    if retrieval.rerank is not None and retrieval.rerank.reason:
        yield styled(f"{retrieval.rerank.stage}: {retrieval.rerank.reason}", "yellow")


def _expectation(answer: Answer) -> Text:
    expected = " or ".join(answer.question.answer)
    if answer.rank is None:
        return styled(f"{expected} is not among the {len(answer.retrieval.hits)} hits", "red")
    where = f"{expected} stands at rank {answer.rank}"
    if answer.satisfied:
        return styled(where, "green")
    return styled(f"{where}, not among the first {FIRST}", "red")


def _print_legs(console: Console, retrieval: Retrieval) -> None:
    rows = table("leg", "ended", "time", "candidates", "below floor")
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

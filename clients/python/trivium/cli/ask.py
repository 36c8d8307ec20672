"""`trivium ask`: runs queries and prints the hits, the retrievers that found them, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import click

from trivium.cli.answer import FIRST, Answer, print_answer, print_summary
from trivium.cli.connection import Connection, pass_connection, says_unknown
from trivium.cli.exits import Exit
from trivium.cli.output import json_option, plain, print_json
from trivium.cli.ranking import (
    as_of_option,
    filter_option,
    known_at_option,
    limit_option,
    profile_option,
    profile_overrides_option,
    seed_ids_option,
)
from trivium.files.reading import Question, read_questions
from trivium.files.records import Problem
from trivium.values import BriefingOptions
from trivium.wire.surrogates import has_lone_surrogate


def _to_tenants(
    ctx: click.Context, parameter: click.Parameter, given: Sequence[str]
) -> Mapping[str, float]:
    """Parses `NAME` and `NAME=WEIGHT`; the last `=` ends the name.

    Raises:
        click.BadParameter: A weight is no number, or a tenant is named twice.
    """
    tenants: dict[str, float] = {}
    for each in given:
        name, _, weight = each.rpartition("=") if "=" in each else (each, "", "1")
        if name in tenants:
            raise click.BadParameter(f"{name!r} is named twice", ctx, parameter)
        try:
            tenants[name] = float(weight)
        except ValueError:
            raise click.BadParameter(f"{weight!r} is no number", ctx, parameter) from None
    return tenants


@click.command()
@click.argument("questions", nargs=-1, metavar="[QUESTION]...")
@click.option(
    "--file",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    help='JSON lines of {"text": ..., "answer": [ID, ...]}; - is standard input.',
)
@click.option(
    "--expect",
    multiple=True,
    metavar="ID",
    help=f"An item that should be among the first {FIRST} hits; several are alternatives.",
)
@limit_option
@profile_option
@filter_option
@click.option(
    "--ask-tenant",
    "tenants",
    multiple=True,
    metavar="NAME[=WEIGHT]",
    callback=_to_tenants,
    help="Ask this tenant, in place of --tenant; several are asked together.",
)
@as_of_option
@known_at_option
@click.option(
    "--consistency-token",
    default="",
    metavar="TOKEN",
    help="Wait until every leg has applied the write that returned TOKEN.",
)
@profile_overrides_option
@seed_ids_option
@click.option(
    "--required-leg",
    "required_legs",
    multiple=True,
    metavar="LEG",
    help="Fail unless this leg of the profile answered.",
)
@click.option("--explain", is_flag=True, help="Show how each score was computed, and the timings.")
@click.option("--briefing", is_flag=True, help="Show the prompt block instead of the hits.")
@json_option
@pass_connection
@click.pass_context
def ask(
    ctx: click.Context,
    connection: Connection,
    /,
    questions: Sequence[str],
    files: Sequence[str],
    expect: Sequence[str],
    tenants: Mapping[str, float],
    as_of: datetime | None,
    explain: bool,
    briefing: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Runs each QUESTION and shows the hits, and the retrievers that found them.

    The kinds of retriever are words, meaning, and relations (by facts, or by the
    graph of entities). Exits with 1 if no item that --expect or the file names is
    among the first three hits, or if the tenant is unknown.
    """
    asked = _questions(questions, files, expect)
    answers: list[Answer] = []
    with connection.open(next(iter(tenants), None)) as client:
        for question in asked:
            retrieval = client.retrieve(
                question.text,
                briefing=BriefingOptions() if briefing else None,
                tenants=tenants,
                as_of=as_of or question.as_of,
                explain=explain,
                **options,
            )
            answers.append(Answer(question, retrieval))
            if not as_json:
                print_answer(answers[-1], explain=explain, briefing=briefing)
        unknown = not any(answer.retrieval.hits for answer in answers) and says_unknown(client)
    if as_json:
        print_json(answers)
    else:
        print_summary(answers)
    satisfied = not unknown and all(answer.satisfied for answer in answers)
    ctx.exit(Exit.OK if satisfied else Exit.UNSATISFIED)


def _questions(texts: Sequence[str], files: Sequence[str], expect: Sequence[str]) -> list[Question]:
    if has_lone_surrogate(texts):
        raise click.UsageError("a QUESTION is not in the encoding of the terminal")
    questions = [Question(text=text, answer=tuple(expect)) for text in texts]
    for path in files:
        questions += read_questions(path, _reject)
    if not questions:
        raise click.UsageError("missing QUESTION or --file")
    return questions


def _reject(problem: Problem) -> None:
    raise click.UsageError(plain(str(problem)))

"""`trivium ask`: what is remembered, which road found it, and why it stands where it does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import click

from trivium.cli.answer import FIRST, Answer, print_answer, print_summary
from trivium.cli.connection import Connection, pass_connection
from trivium.cli.exits import Exit
from trivium.cli.output import json_option, plain, print_json
from trivium.cli.ranking import (
    as_of_option,
    changes_option,
    known_at_option,
    profile_option,
    seeds_option,
)
from trivium.client import Client
from trivium.reading import Question, read_questions
from trivium.records import Problem
from trivium.surrogates import has_lone_surrogate
from trivium.values import BriefingOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class _Manner:
    """How to ask, the same for all questions."""

    limit: int
    profile: str
    as_of: datetime | None
    known_at: datetime | None
    token: str
    explain: bool
    briefing: bool
    changes: Mapping[str, Any]
    seeds: Sequence[str]


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
    help=f"What should be among the first {FIRST}; several are alternatives.",
)
@click.option("--limit", default=0, metavar="N", help="How many hits.  [default: the profile's]")
@profile_option
@as_of_option
@known_at_option
@click.option("--wait", "token", default="", metavar="TOKEN", help="Wait for the write of TOKEN.")
@changes_option
@seeds_option
@click.option("--explain", is_flag=True, help="Show how each score came about, and the times.")
@click.option("--briefing", is_flag=True, help="Show the block for a prompt in place of the hits.")
@json_option
@pass_connection
@click.pass_context
def ask(
    ctx: click.Context,
    connection: Connection,
    questions: Sequence[str],
    files: Sequence[str],
    expect: Sequence[str],
    limit: int,
    profile: str,
    as_of: datetime | None,
    known_at: datetime | None,
    token: str,
    changes: Mapping[str, Any],
    seeds: Sequence[str],
    explain: bool,
    briefing: bool,
    as_json: bool,
) -> None:
    """Asks each QUESTION, and shows what is found and by which road.

    The roads are words, meaning, and relations (through facts, or through the
    graph of entities). Ends with 1 if an answer that is named by --expect or by
    the file is not among the first three hits.
    """
    manner = _Manner(
        limit=limit,
        profile=profile,
        as_of=as_of,
        known_at=known_at,
        token=token,
        explain=explain,
        briefing=briefing,
        changes=changes,
        seeds=seeds,
    )
    asked = _gather(questions, files, expect)
    answers: list[Answer] = []
    with connection.open() as client:
        for answer in _answers(client, asked, manner):
            answers.append(answer)
            if not as_json:
                print_answer(answer, explain=explain, briefing=briefing)
    if as_json:
        print_json(answers)
    else:
        print_summary(answers)
    ctx.exit(Exit.OK if all(answer.satisfied for answer in answers) else Exit.UNSATISFIED)


def _gather(texts: Sequence[str], files: Sequence[str], expect: Sequence[str]) -> list[Question]:
    if has_lone_surrogate(texts):
        raise click.UsageError("a QUESTION is not in the terminal's encoding")
    questions = [Question(text=text, answer=tuple(expect)) for text in texts]
    for path in files:
        questions += read_questions(path, _refuse)
    if not questions:
        raise click.UsageError("ask what? Give a QUESTION or a --file.")
    return questions


def _refuse(problem: Problem) -> None:
    raise click.UsageError(plain(str(problem)))


def _answers(client: Client, questions: Sequence[Question], manner: _Manner) -> Iterator[Answer]:
    for question in questions:
        retrieval = client.retrieve(
            question.text,
            briefing=BriefingOptions() if manner.briefing else None,
            limit=manner.limit,
            profile=manner.profile,
            as_of=manner.as_of or question.as_of,
            known_at=manner.known_at,
            token=manner.token,
            explain=manner.explain,
            changes=manner.changes,
            seeds=manner.seeds,
        )
        yield Answer(question, retrieval)

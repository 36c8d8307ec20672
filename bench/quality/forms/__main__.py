"""The command `python -m bench.quality.forms`: compares texts to embed for the same segments.

1. Ask the service what each leg finds for each question.
2. Embed every segment in every form, with the same encoder, and search exactly.
3. Put what each form finds in the place of what the leg `dense` found, and rank again.

Words, facts and graph are the same for all forms, so only the encoder's results differ. The leg
`related` starts from the results of other legs, which differ, and is left out.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click
import numpy as np
from rich.markdown import Markdown
from rich.progress import Progress

from bench.harness.collection import Collection
from bench.harness.results import Record, run_folder
from bench.quality.command import (
    console,
    ended_by_message,
    read_sets,
    results_option,
    sets_argument,
)
from bench.quality.forms.exact import EmbeddedEntries, embed
from bench.quality.forms.texts import FORMS, SERVED
from bench.quality.pages.folder import write_records
from bench.quality.scoring.answers import shown_of
from bench.quality.scoring.evaluate import Answers, Scored
from bench.quality.scoring.metrics import DEPTH, scores
from bench.quality.scoring.outcome import outcome
from bench.quality.tune.coordinates import alone
from bench.quality.tune.gathering import Start, ask_sets
from bench.quality.tune.leg_queries import Asked, NotWholeError
from bench.quality.tune.lists import Found
from bench.quality.tune.replay import Replay, segments_of
from bench.quality.ways import DEFAULT_PROFILE, MEANING, Way
from bench.reports import environment
from bench.reports.progress import progress_bars
from serving.composition.models import open_embedder
from serving.config.settings import load_settings
from serving.domain.budget import Deadline
from serving.domain.items.records import Segment, segment_id
from serving.domain.ranking.profile import Profile
from serving.domain.ranking.ranked_list import Candidate
from serving.ports.embedding import Embedder, Vector
from serving.telemetry import NoRecorder

DEEP = 100
"""The segments of a form that are kept for each question."""

QUESTION_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Compared:
    """The quality of each form, and the recall of the service's index.

    Args:
        answers: By form, alone and in the profile; those as served come first.
        index_recall: The share of the segments found exactly that the index finds.
    """

    answers: Sequence[Answers]
    index_recall: float


Nearest = Mapping[str, Sequence[Candidate]]
"""What a form finds, by the id of the question."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@sets_argument
@click.option("--form", "names", multiple=True, type=click.Choice([*FORMS]), help="Only these.")
@results_option
@click.option("--address", metavar="HOST:PORT", help="A running service, instead of starting one.")
@click.option("--limit-queries", type=click.IntRange(min=1), help="At most so many of each set.")
def main(
    folders: Sequence[Path],
    names: Sequence[str],
    out: Path,
    address: str | None,
    limit_queries: int | None,
) -> None:
    """Compare the texts that the encoder could be given for the segments of each FOLDER.

    A FOLDER is a set as `python -m bench.quality` takes it. The encoder is that of the settings.
    """
    forms = tuple(dict.fromkeys((SERVED, *(names or FORMS))))
    with ended_by_message(NotWholeError):
        for collection in read_sets(folders, limit_queries, skip_unreadable=False):
            compared = asyncio.run(_measure(collection, forms, address))
            where = run_folder(f"forms-{collection.name}", out)
            console.print(Markdown(_write(where, collection, compared)))
            console.print(f"written to {where}", markup=False)


async def _measure(collection: Collection, forms: Sequence[str], address: str | None) -> Compared:
    """Every form, alone and in the profile; those as served come first."""
    start, asked = await ask_sets([collection], DEFAULT_PROFILE, address)
    profiles = {"meaning": _meaning(start), "default - related": _without_led_on(start.profile)}
    answers: dict[str, list[Answers]] = {name: [] for name in profiles}
    index_recall = 0.0
    async with open_embedder(load_settings(), NoRecorder()) as embedder:
        with progress_bars(console) as bars:
            questions = await _embed_questions(embedder, asked, bars)
            for form in forms:
                nearest = await _nearest(embedder, collection, form, asked, questions, bars)
                if form == SERVED:
                    index_recall = index_recall_at(DEPTH, asked, nearest)
                for name, profile in profiles.items():
                    answers[name].append(_rank(f"{name}, {form}", profile, asked, nearest))
    return Compared([each for of_profile in answers.values() for each in of_profile], index_recall)


def _meaning(start: Start) -> Profile:
    return alone(start.profile.name, start.definition, MEANING)


def _without_led_on(profile: Profile) -> Profile:
    return replace(profile, legs=tuple(leg for leg in profile.legs if leg.expansion is None))


# ---------------------------------------------------------------- embedding


async def _embed_questions(
    embedder: Embedder, asked: Sequence[Asked], bars: Progress
) -> dict[str, Vector]:
    bar = bars.add_task("embedding questions", total=len(asked))
    vectors: dict[str, Vector] = {}
    for each in asked:
        query = each.found.query
        made = await embedder.embed_query(query.text, Deadline.after(QUESTION_TIMEOUT_S))
        vectors[query.id] = np.asarray(made)
        bars.advance(bar)
    return vectors


async def _nearest(
    embedder: Embedder,
    collection: Collection,
    form: str,
    asked: Sequence[Asked],
    questions: Mapping[str, Vector],
    bars: Progress,
) -> Nearest:
    """What a form finds for each question, searched exactly."""
    of_tenant = {each.found.query.tenant: each.found for each in asked}
    entries = {
        tenant: FORMS[form](_segments(collection, found)) for tenant, found in of_tenant.items()
    }
    bar = bars.add_task(f"embedding {form}", total=sum(map(len, entries.values())))
    embedded: dict[str, EmbeddedEntries] = {}
    for tenant, of_form in entries.items():
        embedded[tenant] = await embed(embedder, of_form, lambda done: bars.advance(bar, done))
    return {
        each.found.query.id: embedded[each.found.query.tenant].nearest(
            questions[each.found.query.id], DEEP
        )
        for each in asked
    }


def _segments(collection: Collection, found: Found) -> list[Segment]:
    """A tenant's segments as they are stored, in the order of the set."""
    ids = (segment_id(given.id) for given in collection.memories[found.query.tenant].segments)
    rows = (found.rows.get(item) for item in ids)
    return [row for row in rows if isinstance(row, Segment)]


def index_recall_at(depth: int, asked: Sequence[Asked], nearest: Nearest) -> float:
    """The mean share of the first `depth` found exactly that the service's index finds as well."""
    shares = []
    for each in asked:
        exact = {candidate.item for candidate in nearest[each.found.query.id][:depth]}
        found = {candidate.item for candidate in each.found.deep[MEANING][:depth]}
        shares.append(len(exact & found) / len(exact))
    return sum(shares) / len(shares)


# ---------------------------------------------------------------- ranking


def _rank(name: str, profile: Profile, asked: Sequence[Asked], nearest: Nearest) -> Answers:
    legs = tuple(leg.name for leg in profile.legs if leg.weight)
    scored = [_score(each.found, profile, nearest[each.found.query.id]) for each in asked]
    return Answers(Way(name), legs, scored)


def _score(found: Found, profile: Profile, nearest: Sequence[Candidate]) -> Scored:
    hits = Replay(replace(found, deep={**found.deep, MEANING: nearest})).hits_once(profile)
    ranked = segments_of(hits)
    briefed = frozenset(segments_of(hits[: shown_of([hit.item for hit in hits])]))
    query = found.query
    return Scored(
        query=query,
        ranked=ranked[:DEPTH],
        scores=scores(ranked[:DEPTH], query.relevant, briefed),
    )


# ---------------------------------------------------------------- writing


def _write(where: Path, collection: Collection, compared: Compared) -> str:
    """Writes records and summary, and returns the summary."""
    about = environment.about(collection)
    answers = compared.answers
    records = [_record(each, _baseline_of(each, answers), collection, about) for each in answers]
    return write_records(where, records, _of_index(compared.index_recall))


def _of_index(recall: float) -> str:
    return (
        f"\n## The index\n\nOf the first {DEPTH} segments found exactly in float32, as served, the "
        f"service's index finds {recall:.4f}.\n"
    )


def _baseline_of(of: Answers, answers: Sequence[Answers]) -> Answers:
    """The answers of the form as served, among the same legs."""
    return next(each for each in answers if each.legs == of.legs)


def _record(of: Answers, baseline: Answers, collection: Collection, about: Record) -> Record:
    form = of.way.name.partition(", ")[2]
    command = shlex.join(["python", "-m", "bench.quality.forms", collection.name, "--form", form])
    return outcome(of, baseline, command=command).as_record(about)


if __name__ == "__main__":
    main()

"""Writes the result of a search: the profile and its evidence.

Both hold only ids and figures, and may be published where the sets may not.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench.harness.results import Json, Record, append_record
from bench.quality.tune.coordinates import Coordinate, Definition, value_at
from bench.quality.tune.folds import Compared, CrossValidation, compare
from bench.quality.tune.objective import FORMULA, MEASURES, Board, Floats, Objective
from bench.quality.tune.replay import Proof
from bench.quality.tune.search import Searched, Step
from bench.reports.report import estimate, markdown_table
from serving.config.profiles import ProfileBook
from serving.config.profiles.form import to_form
from serving.pipeline.retrieval.legs import OPTIONS_OF_LEGS

EVIDENCE, STEPS = "evidence.md", "evidence.jsonl"
_DECIMALS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """The result of a run.

    Args:
        name: Of the profile.
        start: The profile as it stood.
        board: The questions.
        objective: Over all of them.
        before: The start's scores: float64 (questions, 3).
        after: Those of what was found: float64 (questions, 3).
        searched: The search over all questions.
        validated: The searches over parts of them.
        coordinates: What was searched over.
        proof: That the service orders alike.
        command: What makes this again.
        about: Commit, machine and versions.
    """

    name: str
    start: Definition
    board: Board
    objective: Objective
    before: Floats
    after: Floats
    searched: Searched
    validated: CrossValidation
    coordinates: Sequence[Coordinate]
    proof: Proof
    command: str
    about: Record

    @property
    def searches(self) -> Iterator[tuple[str, Searched]]:
        """Every search by its name, that over all questions first."""
        yield "all", self.searched
        for number, fold in enumerate(self.validated.folds, start=1):
            yield f"fold {number}", fold.searched


def write(folder: Path, tuned: Tuned) -> Path:
    """Writes profile and evidence to a new folder, and returns the profile's path."""
    folder.mkdir(parents=True)
    path = folder / f"{tuned.name}.yaml"
    path.write_text(profile_file(tuned), encoding="utf-8")
    (folder / EVIDENCE).write_text(evidence(tuned), encoding="utf-8")
    append_record(folder, run_record(tuned))
    lines = (json.dumps(record) + "\n" for record in records(tuned))
    (folder / STEPS).write_text("".join(lines), encoding="utf-8")
    return path


# ---------------------------------------------------------------- the profile


def profile_file(tuned: Tuned) -> str:
    """The profile as a file, its origin in comments.

    Raises:
        ValueError: The service would refuse it.
    """
    text = _head(tuned) + yaml.safe_dump(
        shortened(tuned.searched.definition),
        sort_keys=False,
        default_flow_style=None,
        allow_unicode=True,
        width=100,
    )
    ProfileBook({tuned.name: yaml.safe_load(text)})
    return text


def _head(tuned: Tuned) -> str:
    sets = ", ".join(f"{name} ({len(tuned.board.places[name])})" for name in tuned.board.sets)
    lines = (
        f"Made by {tuned.command}",
        f"at commit {tuned.about['commit']}, {tuned.about['at']}.",
        f"Sets (questions): {sets}.",
        f"Objective: {FORMULA}.",
        f"The start: {tuned.searched.before:.4f}; this, on the same questions: "
        f"{tuned.searched.after:.4f};",
        f"searched without the questions it is scored on: {tuned.validated.after:.4f}.",
        f"{EVIDENCE} has the rest.",
    )
    return "".join(f"# {line}\n" for line in lines)


def shortened(definition: Definition) -> dict[str, Any]:
    """A definition without default values; each leg with its weight and depth."""
    form = to_form(definition)
    short = form.model_dump(mode="json", exclude_defaults=True)
    legs = {
        name: {
            "weight": form.legs[name].weight,
            **({} if form.legs[name].depth_per_limit else {"depth": form.legs[name].depth}),
            **short["legs"].get(name, {}),
        }
        for name in OPTIONS_OF_LEGS
        if name in form.legs
    }
    signals = {name: weight for name, weight in form.signals.items() if weight}
    whole = {**short, "rank_constant": form.rank_constant, "legs": legs}
    whole.pop("signals", None)
    return {**whole, "signals": signals} if signals else whole


# ---------------------------------------------------------------- the evidence, for programs


def run_record(tuned: Tuned) -> Record:
    """The objective before and after the search, and held out."""
    return {
        "kind": "run",
        "profile": tuned.name,
        "command": tuned.command,
        "objective": FORMULA,
        "before": round(tuned.searched.before, _DECIMALS),
        "after": round(tuned.searched.after, _DECIMALS),
        "held_out": round(tuned.validated.after, _DECIMALS),
        "proof": {"asked": tuned.proof.asked, "agreed": tuned.proof.agreed},
        "differing": [list(each) for each in tuned.proof.differing],
        **tuned.about,
    }


def records(tuned: Tuned) -> Iterator[Mapping[str, Json]]:
    """Every value that every search tried, and every question's scores."""
    for search, searched in tuned.searches:
        for step in searched.steps:
            yield {"kind": "step", "search": search, **_step(step)}
    yield from _questions(tuned)


def _step(step: Step) -> Mapping[str, Json]:
    return {
        "sweep": step.sweep,
        "path": step.path,
        "value": step.value,
        "objective": None if math.isnan(step.worth) else round(step.worth, _DECIMALS),
        "taken": step.taken,
    }


def _questions(tuned: Tuned) -> Iterator[Mapping[str, Json]]:
    for number, fold in enumerate(tuned.validated.folds, start=1):
        for place in fold.held_out.tolist():
            found = tuned.board.replays[place].found
            yield {
                "kind": "question",
                "set": found.set,
                "query": found.query.id,
                "scope": found.query.tenant,
                "fold": number,
                "before": _scores(tuned.before[place]),
                "after": _scores(tuned.after[place]),
                "held_out": _scores(tuned.validated.held_out[place]),
            }


def _scores(scores: Floats) -> dict[str, Json]:
    return {
        measure: round(float(score), _DECIMALS)
        for measure, score in zip(MEASURES, scores, strict=True)
    }


# ---------------------------------------------------------------- the evidence, for people


def evidence(tuned: Tuned) -> str:
    """The evidence as Markdown."""
    about = tuned.about
    machine = about["machine"]
    cores = machine.get("cores") if isinstance(machine, Mapping) else None
    sections = [
        f"# {tuned.name} tuned at {about['commit']}\n\n{about['at']}, {cores} cores.\n\n"
        f"`{tuned.command}`\n",
        _section("Objective", _objective(tuned)),
        _section(
            "Held out: each question by the profile chosen without it [95 %]",
            _comparison(compare(tuned.board, tuned.before, tuned.validated.held_out)),
        ),
        _section(
            "Seen: all questions by the profile chosen with them [95 %]",
            "These flatter: the same questions chose the profile.\n\n"
            + _comparison(compare(tuned.board, tuned.before, tuned.after)),
        ),
        _section("Values chosen", _values(tuned)),
        _section("Steps of the search over all questions that were taken", _steps(tuned)),
    ]
    return "\n".join(sections)


def _section(title: str, body: str) -> str:
    return f"## {title}\n\n{body}\n"


def _objective(tuned: Tuned) -> str:
    rows = [
        (
            name,
            str(len(places)),
            str(len({tuned.board.replays[place].found.query.tenant for place in places})),
            f"{tuned.objective.bars[name]:.3f}",
        )
        for name, places in tuned.board.places.items()
    ]
    tried = sum(len(searched.steps) for _, searched in tuned.searches)
    return (
        f"{FORMULA}.\n\n"
        f"The start: {tuned.searched.before:.4f}. What was found, on the questions that chose it: "
        f"{tuned.searched.after:.4f}. The same search on questions it had not seen: "
        f"{tuned.validated.after:.4f} ({len(tuned.validated.folds)} folds). "
        f"{tried} values were tried in {len(tuned.coordinates)} fields. "
        f"Under the start {tuned.proof}.\n\n"
        + markdown_table(("set", "questions", "scopes", "best single leg's MRR@10"), rows)
    )


def _comparison(compared: Mapping[str, Mapping[str, Compared]]) -> str:
    rows = [
        (
            f"{name}: {measure}",
            str(each.n),
            estimate(each.before.as_record()),
            estimate(each.after.as_record()),
            _difference(each),
        )
        for name, of_set in compared.items()
        for measure, each in of_set.items()
    ]
    return markdown_table(("set: measure", "n", "start", "tuned", "difference"), rows)


def _difference(compared: Compared) -> str:
    written = estimate(compared.difference.as_record(), "+")
    sure = compared.difference.above_zero or compared.difference.below_zero
    return f"**{written}**" if sure else written


def _values(tuned: Tuned) -> str:
    names = [name for name, _ in tuned.searches]
    rows = []
    for coordinate in tuned.coordinates:
        before = value_at(tuned.start, coordinate.path)
        chosen = [value_at(searched.definition, coordinate.path) for _, searched in tuned.searches]
        if any(value != before for value in chosen):
            rows.append((coordinate.path, *map(_value, (before, *chosen))))
    if not rows:
        return "No search left the start."
    note = "Fields that every search left as they were are not shown.\n\n"
    return note + markdown_table(("field", "start", *names), rows)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{value['half_life']}, floor {value['floor']:g}"
    return "off" if value is None else f"{value:g}"


def _steps(tuned: Tuned) -> str:
    rows = [
        (str(step.sweep), step.path, _value(step.value), f"{step.worth:.4f}")
        for step in tuned.searched.steps
        if step.taken
    ]
    return markdown_table(("sweep", "field", "value", "objective"), rows) if rows else "None."

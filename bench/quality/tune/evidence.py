"""Writes the result of a search: the profile and its evidence.

Both hold only ids and figures, and may be published where the sets may not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench.harness.results import Record, append_record
from bench.quality.scoring.intervals import mean_interval, paired_difference
from bench.quality.scoring.summary import marked
from bench.quality.tune.coordinates import Coordinate, Definition, value_at
from bench.quality.tune.replay import Agreement
from bench.quality.tune.search import (
    FORMULA,
    MEASURES,
    Board,
    CrossValidation,
    Floats,
    Searched,
)
from bench.reports.report import estimate, markdown_table
from serving.config.profiles import ProfileBook
from serving.config.profiles.form import to_form

EVIDENCE = "evidence.md"
_DECIMALS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """The result of a run.

    Args:
        name: Of the profile.
        start: Its definition before the search.
        board: The questions.
        before: The scores of the start: float64 (questions, 3).
        searched: The search over all questions.
        validated: The searches over parts of them.
        coordinates: The fields.
        agreement: Of the replay with the service.
        command: What makes this again.
        about: Commit, machine and versions.
    """

    name: str
    start: Definition
    board: Board
    before: Floats
    searched: Searched
    validated: CrossValidation
    coordinates: Sequence[Coordinate]
    agreement: Agreement
    command: str
    about: Record


def write(folder: Path, tuned: Tuned) -> Path:
    """Writes profile and evidence to a new folder, and returns the profile's path."""
    folder.mkdir(parents=True)
    path = folder / f"{tuned.name}.yaml"
    path.write_text(profile_file(tuned), encoding="utf-8")
    (folder / EVIDENCE).write_text(evidence(tuned), encoding="utf-8")
    append_record(folder, _record(tuned))
    return path


def profile_file(tuned: Tuned) -> str:
    """The profile as a file, its origin in comments.

    Raises:
        ValueError: The service would refuse it.
    """
    sets = ", ".join(f"{name} ({len(places)})" for name, places in tuned.board.places.items())
    head = (
        f"Made by {tuned.command}",
        f"at commit {tuned.about['commit']}, {tuned.about['at']}.",
        f"Sets (questions): {sets}.",
        f"{EVIDENCE} compares it with the start, on questions that its search did not see.",
    )
    form = to_form(tuned.searched.definition).model_dump(mode="json", exclude_defaults=True)
    text = "".join(f"# {line}\n" for line in head) + yaml.safe_dump(
        form, sort_keys=False, default_flow_style=None, allow_unicode=True, width=100
    )
    ProfileBook({tuned.name: yaml.safe_load(text)})
    return text


def _record(tuned: Tuned) -> Record:
    """The objective before and after the search, and held out."""
    return {
        "kind": "run",
        "profile": tuned.name,
        "command": tuned.command,
        "objective": FORMULA,
        "before": round(tuned.searched.before, _DECIMALS),
        "after": round(tuned.searched.after, _DECIMALS),
        "held_out": round(tuned.validated.after, _DECIMALS),
        "differing": [list(each) for each in tuned.agreement.differing],
        **tuned.about,
    }


def evidence(tuned: Tuned) -> str:
    """The evidence as Markdown."""
    searches = [tuned.searched, *tuned.validated.folds]
    return (
        f"# {tuned.name} tuned at {tuned.about['commit']}\n\n{tuned.about['at']}.\n\n"
        f"`{tuned.command}`\n\n"
        f"Objective: {FORMULA}. The start: {tuned.searched.before:.4f}. The profile found, on the "
        f"questions that chose it: {tuned.searched.after:.4f}. The same search on questions that "
        f"it had not seen: {tuned.validated.after:.4f} ({len(tuned.validated.folds)} folds). "
        f"{len(tuned.coordinates)} fields. Replay and service: {tuned.agreement}.\n\n"
        "## Held out: each question by the profile chosen without it [95 %]\n\n"
        f"{_comparison(tuned, tuned.validated.held_out)}\n\n"
        "## Seen: all questions by the profile chosen with them [95 %]\n\n"
        "These flatter: the same questions chose the profile.\n\n"
        f"{_comparison(tuned, tuned.board.scores(tuned.searched.profile))}\n\n"
        f"## Values chosen\n\n{_values(tuned, searches)}\n"
    )


def _comparison(tuned: Tuned, after: Floats) -> str:
    rows = []
    for name, places in tuned.board.places.items():
        conversations = [tuned.board.replays[place].found.query.tenant for place in places]
        for column, measure in enumerate(MEASURES):
            old = tuned.before[places, column].tolist()
            new = after[places, column].tolist()
            difference = paired_difference(new, old, conversations).as_record()
            means = (mean_interval(each, conversations).as_record() for each in (old, new))
            rows.append(
                (f"{name}: {measure}", str(len(places)), *map(estimate, means), marked(difference))
            )
    return markdown_table(("set: measure", "n", "start", "tuned", "difference"), rows)


def _values(tuned: Tuned, searches: Sequence[Searched]) -> str:
    rows = []
    for path in (each.path for each in tuned.coordinates):
        before = value_at(tuned.start, path)
        chosen = [value_at(searched.definition, path) for searched in searches]
        if any(value != before for value in chosen):
            rows.append((path, *map(_value, (before, *chosen))))
    if not rows:
        return "No search left the start."
    folds = (f"fold {number}" for number in range(1, len(searches)))
    return "Fields that no search changed are left out.\n\n" + markdown_table(
        ("field", "start", "all", *folds), rows
    )


def _value(value: Any) -> str:
    return "off" if value is None else f"{value:g}"

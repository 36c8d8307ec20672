"""The forms in which segments can be given to an encoder.

A form writes entries: a text, and the segments that it stands for. Most write one for each segment;
chunks stand for several, and are replaced by them in results.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from serving.domain.items.records import Segment
from serving.domain.items.text import TextForm, text_of, text_to_embed

SERVED = "as served"
"""The form that the service gives to its encoder; the others are compared with it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A text to embed, and the ids of the segments that it stands for, in their order."""

    text: str
    segments: tuple[str, ...]


Form = Callable[[Sequence[Segment]], list[Entry]]
"""Makes entries of all segments of a tenant, which are in the order in which they were said."""


def alone(write: Callable[[Segment], str]) -> Form:
    """A form that writes each segment by itself."""

    def form(segments: Sequence[Segment]) -> list[Entry]:
        return [Entry(write(segment), (segment.id,)) for segment in segments]

    return form


def _served(segment: Segment) -> str:
    return text_to_embed(segment, TextForm.QUOTED)


def _bare(segment: Segment) -> str:
    return text_of(replace(segment, speaker=""))


def _said(segment: Segment) -> str:
    said = f'{segment.speaker} said: "{segment.text}"'
    return text_of(replace(segment, speaker="", text=said)) if segment.speaker else _bare(segment)


def _dated(segment: Segment) -> str:
    return f"{_served(segment)} ({segment.event_time:%d %B %Y})"


def after_the_turn_before(segments: Sequence[Segment]) -> list[Entry]:
    """Each segment as it is served, and what was said just before it in the same session."""
    return [
        Entry("\n".join(map(_served, (turn, *before))), (turn.id,))
        for before, turn in _with_the_turn_before(segments)
    ]


def chunks(size: int) -> Form:
    """Every segment as it is served, and beside these every `size` in a row of one session."""

    def form(segments: Sequence[Segment]) -> list[Entry]:
        return [*alone(_served)(segments), *_runs(segments, size)]

    return form


def _runs(segments: Sequence[Segment], size: int) -> Iterator[Entry]:
    for session in sessions(segments):
        for start in range(max(1, len(session) - size + 1)):
            run = session[start : start + size]
            if len(run) > 1:
                yield Entry("\n".join(map(_served, run)), tuple(turn.id for turn in run))


def _with_the_turn_before(
    segments: Sequence[Segment],
) -> Iterator[tuple[tuple[Segment, ...], Segment]]:
    for session in sessions(segments):
        for place, turn in enumerate(session):
            yield tuple(session[max(0, place - 1) : place]), turn


def sessions(segments: Iterable[Segment]) -> list[list[Segment]]:
    """Segments by session, in their order; what has no session is one by itself."""
    named: defaultdict[str, list[Segment]] = defaultdict(list)
    single: list[list[Segment]] = []
    for segment in segments:
        if segment.session:
            named[segment.session].append(segment)
        else:
            single.append([segment])
    return [*named.values(), *single]


FORMS: Mapping[str, Form] = {
    SERVED: alone(_served),
    "the text alone": alone(_bare),
    "without quotation marks": alone(text_of),
    "Mel said": alone(_said),
    "with its date": alone(_dated),
    "with the turn before": after_the_turn_before,
    "chunks of 3 beside": chunks(3),
    "chunks of 6 beside": chunks(6),
}

"""The fields of a profile that the search varies, and their values.

A profile under search is its definition, in the form of a profile file. A coordinate is one field
of it, by the path that `--profile-override` takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from serving.adapters.neo4j.search import MIN_FAN_OUT
from serving.config.profiles import ProfileBook
from serving.config.profiles.book import merged
from serving.domain.ranking.leg_options import WordsMode
from serving.domain.ranking.profile import MAX_LIMIT, LegSpec, Profile, Yields
from serving.domain.ranking.ranked_list import RankStyle, depth_to_read
from serving.domain.ranking.signals import ACCESS, SIGNALS
from serving.pipeline.retrieval.legs import ContextLeg, DenseLeg, FactsLeg, GraphLeg, RelatedLeg

Definition: TypeAlias = Mapping[str, Any]

LEG_WEIGHTS = (0.0, 0.3, 0.5, 0.6, 0.7, 0.85, 1.0, 1.1, 1.25, 1.5, 2.0)
DEPTHS = (5, 8, 10, 15, 20, 30, 50)
FLOORS: Mapping[str, Sequence[float | None]] = {
    DenseLeg.name: (None, 0.15, 0.2, 0.25, 0.3, 0.35),
    ContextLeg.name: (None, 0.15, 0.2, 0.25, 0.3, 0.35),
    FactsLeg.name: (None, 0.3, 0.4, 0.45, 0.5, 0.55, 0.6),
    GraphLeg.name: (None, 0.05, 0.1, 0.15, 0.2, 0.3),
    RelatedLeg.name: (None, 0.02, 0.05, 0.1, 0.15),
}
RANK_CONSTANTS = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
SIGNAL_WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5)

DEEPEST: Mapping[str, int] = {GraphLeg.name: MIN_FAN_OUT}
"""How deep a leg is queried, if not `MAX_LIMIT`. Beyond this depth a walk fans out more, and its
shorter lists are no longer the heads of its longest."""


@dataclass(frozen=True, slots=True)
class Coordinate:
    """A field of a profile, by its path, and the values that are tried."""

    path: str
    values: tuple[Any, ...]


def coordinates(definition: Definition, profile: Profile) -> list[Coordinate]:
    """The fields of the legs, the rank constant, and the weight of every signal but one.

    A leg from whose results another leg starts keeps its depth and floor, so that the other leg
    always starts from the same segments and needs a single query.

    Args:
        definition: The profile that the search starts with; its own values are tried too.
        profile: The same as the pipeline takes it.
    """
    upstream = {name for leg in profile.legs for name in leg.leans_on}
    found = [each for leg in profile.legs for each in _of_leg(leg, leg.name in upstream)]
    found.append(Coordinate("rank_constant", RANK_CONSTANTS))
    found += (Coordinate(f"signals.{name}", SIGNAL_WEIGHTS) for name in SIGNALS if name != ACCESS)
    return [_with_own(each, value_at(definition, each.path)) for each in found]


def _of_leg(leg: LegSpec, upstream: bool) -> Iterator[Coordinate]:
    path = f"legs.{leg.name}"
    yield Coordinate(f"{path}.weight", LEG_WEIGHTS)
    if upstream:
        return
    if not leg.depth_per_limit:
        depths = (depth for depth in DEPTHS if depth <= max_depth(leg.name))
        yield Coordinate(f"{path}.depth", tuple(depths))
    if leg.name in FLOORS:
        yield Coordinate(f"{path}.floor", tuple(FLOORS[leg.name]))


def _with_own(coordinate: Coordinate, own: Any) -> Coordinate:
    """The coordinate with the start's own value among those tried."""
    if own in coordinate.values or own is None:
        return coordinate
    return Coordinate(coordinate.path, (*coordinate.values, own))


def deepest(leg: str) -> int:
    """How deep a leg is queried, so that every list of the search is the head of that one."""
    return DEEPEST.get(leg, MAX_LIMIT)


def max_depth(leg: str) -> int:
    """The greatest depth that can be tried: to cut a list by mean rank takes twice its depth."""
    return deepest(leg) // depth_to_read(1, RankStyle.MEAN)


# ---------------------------------------------------------------- definitions


def value_at(definition: Definition, path: str) -> Any:
    """The value of a field; None if the definition has none."""
    value: Any = definition
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def changed(definition: Definition, path: str, value: Any) -> Definition:
    """The definition with another value in a field."""
    for part in reversed(path.split(".")):
        value = {part: value}
    return merged(definition, value)


def accepted(name: str, definition: Definition) -> Profile | None:
    """The profile of a definition; None if the service would refuse it.

    The service refuses profiles with a leg that can show nothing, or that crowds out all others
    (`serving.domain.ranking.reachability`).
    """
    try:
        return ProfileBook({name: definition})[name]
    except ValueError:
        return None


def check_tunable(profile: Profile) -> None:
    """Refuses a profile whose answers cannot be computed from the lists of its legs.

    Raises:
        ValueError: There are such fields; the message names each and why.
    """
    if found := sorted(_untunable(profile)):
        raise ValueError(f"profile {profile.name!r} cannot be tuned: {'; '.join(found)}")


def _untunable(profile: Profile) -> Iterator[str]:
    if profile.rerank is not None:
        yield "rerank: a cross-encoder would have to read every candidate of every profile tried"
    if any(signal.name == ACCESS for signal in profile.signals):
        yield f"signals.{ACCESS}: it changes with every question"
    expanding = {leg.name for leg in profile.legs if leg.leans_on}
    for leg in profile.legs:
        if leg.pool is not None or leg.walk.seeds_from:
            field = "pool" if leg.pool is not None else "walk.seeds_from"
            yield f"legs.{leg.name}.{field}: its results depend on other legs, at every depth"
        if leg.expansion is not None and expanding.intersection(leg.expansion.found_by):
            yield f"legs.{leg.name}.expansion: it starts from a leg that itself starts from others"
        if leg.yields is Yields.FACTS:
            yield f"legs.{leg.name}.yields: judgments are of segments"
        if leg.words.mode is WordsMode.ALL_THEN_ANY:
            yield f"legs.{leg.name}.words.mode: it depends on the answer's limit"
        if leg.depth_for(profile.limit) > (most := max_depth(leg.name)):
            yield f"legs.{leg.name}.depth: above {most} no answer shows all of its list"

"""Ranking profiles as data: the YAML files beside this module, and a user's own folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter

from serving.domain.diversity import MMR_POOL, MMR_TRADE_OFF
from serving.domain.fusion import RRF_RANK_CONSTANT
from serving.domain.priors import (
    DECAY_HALF_LIFE,
    EVERGREEN_FLOOR,
    EVERGREEN_KINDS,
    Decay,
    Importance,
    ImportanceStyle,
)
from serving.domain.profile import Diversity, LegSpec, Profile, Yields
from serving.domain.ranking import RankStyle

DEFAULT_PROFILE = "default"
SHIPPED = Path(__file__).parent


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _LegFile(_File):
    weight: float = 1.0
    depth: int = 20
    floor: float | None = None
    yields: Yields = Yields.EVIDENCE


class _ImportanceFile(_File):
    style: ImportanceStyle
    boost_from: float = 0.8


class _DecayFile(_File):
    half_life: timedelta = DECAY_HALF_LIFE
    evergreen_kinds: frozenset[str] = EVERGREEN_KINDS
    evergreen_floor: float = EVERGREEN_FLOOR


class _DiversityFile(_File):
    trade_off: float = MMR_TRADE_OFF
    pool: int = MMR_POOL
    relative: bool = True


class _ProfileFile(_File):
    description: str
    legs: dict[str, _LegFile]
    limit: int = 10
    rank_constant: float = RRF_RANK_CONSTANT
    rank_style: RankStyle = RankStyle.ORDINAL
    importance: _ImportanceFile | None = None
    decay: _DecayFile | None = None
    diversity: _DiversityFile | None = None
    fold_from: float | None = 0.9

    def to_profile(self, name: str) -> Profile:
        """The profile as the pipeline takes it."""
        return Profile(
            name=name,
            legs=tuple(LegSpec(name=leg, **spec.model_dump()) for leg, spec in self.legs.items()),
            limit=self.limit,
            rank_constant=self.rank_constant,
            rank_style=self.rank_style,
            importance=Importance(**self.importance.model_dump())
            if self.importance
            else Importance(),
            decay=Decay(**self.decay.model_dump()) if self.decay else None,
            diversity=Diversity(**self.diversity.model_dump()) if self.diversity else None,
            fold_from=self.fold_from,
        )


def load_profiles(own_folder: Path | None = None) -> dict[str, Profile]:
    """Reads the shipped profiles and those of a user's folder, which win.

    Raises:
        ValueError: A file is malformed; the message names the file and the field.
        OSError: The folder cannot be read.
    """
    profiles: dict[str, Profile] = {}
    for folder in [SHIPPED, *([own_folder] if own_folder else [])]:
        for path in sorted(folder.glob("*.yaml")):
            profiles[path.stem] = _read(path)
    return profiles


def _read(path: Path) -> Profile:
    try:
        return _ProfileFile.model_validate(yaml.safe_load(path.read_text())).to_profile(path.stem)
    except (ValueError, yaml.YAMLError) as error:
        raise ValueError(f"profile file {path} is malformed: {error}") from error


_OVERRIDES = TypeAdapter(dict[str, dict[str, Any]])


def override_profiles(
    profiles: Mapping[str, Profile], overrides: Mapping[str, Any]
) -> dict[str, Profile]:
    """Replaces whole legs' settings, live: `{"default": {"graph": {"weight": 2}}}`.

    Raises:
        ValueError: A profile, leg or field is unknown, or a value out of range.
    """
    changed = dict(profiles)
    for name, legs in _OVERRIDES.validate_python(overrides).items():
        if name not in changed:
            raise ValueError(f"no profile is called {name!r}")
        changed[name] = _with_legs(changed[name], legs)
    return changed


def _with_legs(profile: Profile, legs: Mapping[str, Any]) -> Profile:
    unknown = set(legs) - {leg.name for leg in profile.legs}
    if unknown:
        raise ValueError(f"profile {profile.name!r} has no leg {sorted(unknown)}")
    merged = []
    for leg in profile.legs:
        given = _LegFile.model_validate(legs.get(leg.name, {}))
        merged.append(replace(leg, **given.model_dump(include=given.model_fields_set)))
    return replace(profile, legs=tuple(merged))

"""The form of a profile as data: every field that a file, a request or `reconfigure` can give.

Unknown fields are refused. What a value means, and which are allowed, stands with the domain's
classes, which these mirror.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from serving.domain.diversity import MMR_POOL, MMR_TRADE_OFF
from serving.domain.fusion import RRF_RANK_CONSTANT
from serving.domain.ledger import FusionMethod
from serving.domain.leg_options import (
    CandidatePool,
    Walk,
    WalkDirection,
    WalkOrder,
    WordsMode,
    WordsSearch,
)
from serving.domain.priors import (
    DECAY_HALF_LIFE,
    EVERGREEN_FLOOR,
    EVERGREEN_KINDS,
    Decay,
    Importance,
    ImportanceStyle,
)
from serving.domain.profile import (
    Diversity,
    LegSpec,
    Profile,
    Rerank,
    SignalSpec,
    Sort,
    Yields,
)
from serving.domain.ranking import RankStyle
from serving.pipeline.legs import LEGS

Made = TypeVar("Made")


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _WordsForm(_Form):
    mode: WordsMode = WordsMode.BM25
    rank_gate: float = 0.01


class _PoolForm(_Form):
    recently_accessed: int
    joined_by: tuple[str, ...] = ()


class _WalkForm(_Form):
    order: WalkOrder = WalkOrder.ACTIVATION
    direction: WalkDirection = WalkDirection.BOTH
    relations: tuple[str, ...] = ()
    hops: int = 2
    seeds_from: str = ""


class _LegForm(_Form):
    weight: float = 1.0
    depth: int = 20
    depth_per_limit: int = 0
    floor: float | None = None
    least_score: float = 0.0
    lookback: timedelta | None = None
    yields: Yields = Yields.EVIDENCE
    reserved: int = 0
    reorders: bool = False
    may_fill: bool = False
    words: _WordsForm = _WordsForm()
    pool: _PoolForm | None = None
    walk: _WalkForm = _WalkForm()


class _ImportanceForm(_Form):
    style: ImportanceStyle = ImportanceStyle.OFF
    boost_from: float = 0.8


class _DecayForm(_Form):
    half_life: timedelta = DECAY_HALF_LIFE
    evergreen_kinds: frozenset[str] = EVERGREEN_KINDS
    evergreen_floor: float = EVERGREEN_FLOOR
    floor: float = 0.0
    facts_are_fresh: bool = False


class _RerankForm(_Form):
    head: int = 50
    weight: float = 0.7


class _DiversityForm(_Form):
    trade_off: float = MMR_TRADE_OFF
    pool: int = MMR_POOL
    relative: bool = True


class ProfileForm(_Form):
    """A whole profile as data."""

    description: str
    limit: int = 10
    legs: dict[str, _LegForm]
    signals: dict[str, float] = {}
    fusion: FusionMethod = FusionMethod.RECIPROCAL_RANK
    rank_constant: float = RRF_RANK_CONSTANT
    rank_style: RankStyle = RankStyle.ORDINAL
    importance: _ImportanceForm = _ImportanceForm()
    decay: _DecayForm | None = None
    rerank: _RerankForm | None = None
    fold_from: float | None = 0.9
    diversity: _DiversityForm | None = None
    sort: Sort = Sort.RELEVANCE

    @field_validator("legs")
    @classmethod
    def _legs_exist(cls, legs: dict[str, _LegForm]) -> dict[str, _LegForm]:
        if unknown := sorted(set(legs) - set(LEGS)):
            raise ValueError(f"no leg is called {unknown[0]!r}; there are {', '.join(LEGS)}")
        return legs

    def to_profile(self, name: str) -> Profile:
        """The profile as the pipeline takes it.

        Raises:
            FieldError: A value is out of range; names the field by its path.
        """
        legs = tuple(_leg(leg, form) for leg, form in self.legs.items())
        signals = tuple(_signal(signal, weight) for signal, weight in self.signals.items())
        decay = _made("decay", Decay, self.decay) if self.decay else None
        rerank = _made("rerank", Rerank, self.rerank) if self.rerank else None
        diversity = _made("diversity", Diversity, self.diversity) if self.diversity else None
        with _fields_of(self):
            return Profile(
                name=name,
                description=self.description,
                legs=legs,
                limit=self.limit,
                fusion=self.fusion,
                rank_constant=self.rank_constant,
                rank_style=self.rank_style,
                signals=signals,
                importance=_made("importance", Importance, self.importance),
                decay=decay,
                rerank=rerank,
                fold_from=self.fold_from,
                diversity=diversity,
                sort=self.sort,
            )


class FieldError(ValueError):
    """A value of a profile is not as it must be; `path` is its field, dots between the parts."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)
        self.path = path
        self.why = why

    def __str__(self) -> str:
        return f"{self.path}: {self.why}" if self.path else self.why


def to_form(data: Mapping[str, Any]) -> ProfileForm:
    """Reads a profile from plain data.

    Raises:
        FieldError: It lacks a field, has an unknown one, or one of another type; the first such.
    """
    try:
        return ProfileForm.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join(map(str, first["loc"]))
        raise FieldError(path, first["msg"].removeprefix("Value error, ")) from None


def _leg(name: str, form: _LegForm) -> LegSpec:
    path = f"legs.{name}"
    values = {field: getattr(form, field) for field in type(form).model_fields}
    values["words"] = _made(f"{path}.words", WordsSearch, form.words)
    values["pool"] = _made(f"{path}.pool", CandidatePool, form.pool) if form.pool else None
    values["walk"] = _made(f"{path}.walk", Walk, form.walk)
    with _fields_of(form, path):
        return LegSpec(name=name, **values)


def _signal(name: str, weight: float) -> SignalSpec:
    try:
        return SignalSpec(name=name, weight=weight)
    except ValueError as error:
        raise FieldError(f"signals.{name}", str(error)) from None


def _made(path: str, kind: Callable[..., Made], form: _Form) -> Made:
    """The domain's value of a section; its fields have the same names."""
    with _fields_of(form, path):
        return kind(**form.model_dump())


@contextmanager
def _fields_of(form: _Form, path: str = "") -> Iterator[None]:
    """Turns a refusal of the domain into the path of the field that its message begins with."""
    try:
        yield
    except FieldError:
        raise
    except ValueError as error:
        field, _, why = str(error).partition(" ")
        if field.partition(".")[0] not in type(form).model_fields:
            raise FieldError(path, str(error)) from None
        raise FieldError(f"{path}.{field}" if path else field, why) from None

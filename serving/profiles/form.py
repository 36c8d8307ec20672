"""The form of a profile as data: every field that a file, a request or `reconfigure` can give.

Unknown fields are refused. What a value means, and which are allowed, stands with the domain's
classes, which these mirror.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from serving.domain.diversity import MMR_POOL, MMR_TRADE_OFF
from serving.domain.fusion import RRF_RANK_CONSTANT
from serving.domain.ledger import FusionMethod
from serving.domain.leg_options import (
    CandidatePool,
    Expansion,
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
    by_need,
)
from serving.domain.ranking import RankStyle
from serving.domain.signals import SIGNALS
from serving.pipeline.legs import OPTIONS_OF_LEGS
from serving.profiles.faults import Fault, FieldError, Gathered

Made = TypeVar("Made")


def _number(value: object) -> object:
    """Refuses what pydantic would read as a number though it is none."""
    if isinstance(value, bool | str):
        raise ValueError(f"must be a number, got {value!r}")
    return value


def _duration(value: object) -> object:
    """Refuses a bare number, of which nobody knows the unit."""
    if isinstance(value, timedelta) or (isinstance(value, str) and value.startswith("P")):
        return value
    raise ValueError(f"must be a duration as ISO 8601 writes it, such as P7D, got {value!r}")


Count = Annotated[int, BeforeValidator(_number)]
Number = Annotated[float, BeforeValidator(_number)]
Duration = Annotated[timedelta, BeforeValidator(_duration)]


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class _WordsForm(_Form):
    mode: WordsMode = WordsMode.BM25
    rank_gate: Number = 0.01


class _PoolForm(_Form):
    recently_accessed: Count
    joined_by: tuple[str, ...] = ()


class _WalkForm(_Form):
    order: WalkOrder = WalkOrder.ACTIVATION
    direction: WalkDirection = WalkDirection.BOTH
    relations: tuple[str, ...] = ()
    hops: Count = 2
    seeds_from: str = ""


class _ExpansionForm(_Form):
    found_by: tuple[str, ...] = ("lexical", "dense")
    seeds: Count = 5


class _LegForm(_Form):
    """All that any leg can be told; which leg can be told what, `OPTIONS_OF_LEGS` says."""

    weight: Number = 1.0
    depth: Count = 20
    depth_per_limit: Count = 0
    floor: Number | None = None
    least_score: Number = 0.0
    lookback: Duration | None = None
    yields: Yields = Yields.EVIDENCE
    reserved: Count = 0
    reorders: bool = False
    may_fill: bool = False
    words: _WordsForm = _WordsForm()
    pool: _PoolForm | None = None
    walk: _WalkForm = _WalkForm()
    expansion: _ExpansionForm = _ExpansionForm()


class _ImportanceForm(_Form):
    style: ImportanceStyle = ImportanceStyle.OFF
    boost_from: Number = 0.8


class _DecayForm(_Form):
    half_life: Duration = DECAY_HALF_LIFE
    evergreen_kinds: frozenset[str] = EVERGREEN_KINDS
    evergreen_floor: Number = EVERGREEN_FLOOR
    floor: Number = 0.0
    facts_are_fresh: bool = False


class _RerankForm(_Form):
    head: Count = 50
    weight: Number = 0.7


class _DiversityForm(_Form):
    trade_off: Number = MMR_TRADE_OFF
    pool: Count = MMR_POOL
    relative: bool = True


class ProfileForm(_Form):
    """A whole profile as data."""

    description: str
    limit: Count = 10
    legs: dict[str, _LegForm]
    signals: dict[str, Number] = {}
    fusion: FusionMethod = FusionMethod.RECIPROCAL_RANK
    rank_constant: Number = RRF_RANK_CONSTANT
    rank_style: RankStyle = RankStyle.ORDINAL
    importance: _ImportanceForm = _ImportanceForm()
    decay: _DecayForm | None = None
    rerank: _RerankForm | None = None
    fold_from: Number | None = 0.9
    diversity: _DiversityForm | None = None
    sort: Sort = Sort.RELEVANCE
    resolve_names: bool = False
    split_questions: bool = False

    def to_data(self, mode: Literal["python", "json"] = "python") -> dict[str, Any]:
        """The profile as data, with every field that it can have; a form of it is equal."""
        data = self.model_dump(mode=mode)
        for leg, options in data["legs"].items():
            for option in _ALL_OPTIONS - OPTIONS_OF_LEGS[leg]:
                del options[option]
        return data

    def to_profile(self, name: str) -> Profile:
        """The profile as the pipeline takes it; each leg after those that it leans on.

        Raises:
            FieldError: Values are out of range; names each field by its path.
        """
        gathered = Gathered()
        # In an order of our own: data that travels as a Struct has lost the one it was given in.
        legs = [
            gathered.made(partial(_leg, leg, self.legs[leg], self.legs))
            for leg in _in_order_of(OPTIONS_OF_LEGS, self.legs)
        ]
        signals = [
            gathered.made(partial(_signal, signal, self.signals[signal]))
            for signal in _in_order_of(SIGNALS, self.signals)
        ]
        importance = gathered.made(partial(_made, "importance", Importance, self.importance))
        decay = gathered.made(partial(_made_if_given, "decay", Decay, self.decay))
        rerank = gathered.made(partial(_made_if_given, "rerank", Rerank, self.rerank))
        diversity = gathered.made(partial(_made_if_given, "diversity", Diversity, self.diversity))
        gathered.finish()
        with _fields_of(self):
            return Profile(
                name=name,
                description=self.description,
                legs=by_need([leg for leg in legs if leg]),
                limit=self.limit,
                fusion=self.fusion,
                rank_constant=self.rank_constant,
                rank_style=self.rank_style,
                signals=tuple(signal for signal in signals if signal),
                importance=importance or Importance(),
                decay=decay,
                rerank=rerank,
                fold_from=self.fold_from,
                diversity=diversity,
                sort=self.sort,
                resolve_names=self.resolve_names,
                split_questions=self.split_questions,
            )


def _in_order_of(known: Iterable[str], given: Iterable[str]) -> list[str]:
    """What is given in the order in which it is known, and the unknown after that."""
    places = {name: place for place, name in enumerate(known)}
    return sorted(given, key=lambda name: (places.get(name, len(places)), name))


_ALL_OPTIONS = frozenset[str]().union(*OPTIONS_OF_LEGS.values())


def to_form(data: Mapping[str, Any]) -> ProfileForm:
    """Reads a profile from plain data.

    Raises:
        FieldError: It lacks a field, has an unknown one, or one of another type; names each.
    """
    try:
        return ProfileForm.model_validate(data)
    except ValidationError as error:
        raise FieldError(*map(_fault, error.errors(include_url=False))) from None


def _fault(error: Mapping[str, Any]) -> Fault:
    """What pydantic says of one value."""
    path = ".".join(str(part) for part in error["loc"] if part != "[key]")
    return Fault(path, error["msg"].removeprefix("Value error, "))


def _leg(name: str, form: _LegForm, all_legs: Mapping[str, _LegForm]) -> LegSpec:
    path = f"legs.{name}"
    if name not in OPTIONS_OF_LEGS:
        raise FieldError(Fault(path, f"is no leg; there are {', '.join(OPTIONS_OF_LEGS)}"))
    idle = (form.model_fields_set & _ALL_OPTIONS) - OPTIONS_OF_LEGS[name]
    if idle:
        raise FieldError(
            *(Fault(f"{path}.{option}", "is no option of this leg") for option in sorted(idle))
        )
    values = {field: getattr(form, field) for field in type(form).model_fields}
    values["words"] = _made(f"{path}.words", WordsSearch, form.words)
    values["pool"] = _made_if_given(f"{path}.pool", CandidatePool, form.pool)
    values["walk"] = _made(f"{path}.walk", Walk, form.walk)
    values["expansion"] = (
        _made(f"{path}.expansion", Expansion, form.expansion)
        if "expansion" in OPTIONS_OF_LEGS[name]
        else None
    )
    with _fields_of(form, path):
        leg = LegSpec(name=name, **values)
    _check_leanings(path, leg, all_legs)
    return leg


def _check_leanings(path: str, leg: LegSpec, all_legs: Mapping[str, _LegForm]) -> None:
    seeds = leg.walk.seeds_from
    faults = [
        Fault(f"{path}.{field}", f"the profile has no leg {other!r} beside this one")
        for field, others in (
            ("pool.joined_by", leg.pool.joined_by if leg.pool else ()),
            ("walk.seeds_from", (seeds,) if seeds else ()),
            ("expansion.found_by", leg.expansion.found_by if leg.expansion else ()),
        )
        for other in others
        if other == leg.name or other not in all_legs
    ]
    if faults:
        raise FieldError(*faults)


def _signal(name: str, weight: float) -> SignalSpec:
    try:
        return SignalSpec(name=name, weight=weight)
    except ValueError as error:
        raise FieldError(Fault(f"signals.{name}", str(error))) from None


def _made(path: str, kind: Callable[..., Made], form: _Form) -> Made:
    """The domain's value of a section; its fields have the same names."""
    with _fields_of(form, path):
        return kind(**form.model_dump())


def _made_if_given(path: str, kind: Callable[..., Made], form: _Form | None) -> Made | None:
    return None if form is None else _made(path, kind, form)


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
            raise FieldError(Fault(path, str(error))) from None
        raise FieldError(Fault(f"{path}.{field}" if path else field, why)) from None

"""The fields of a profile as data, in files, requests and `reconfigure`.

Unknown fields are rejected. These classes mirror those of the domain, which document the fields
and check their values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from serving.domain.briefing import BlockForm
from serving.domain.ranking.diversity import MMR_POOL, MMR_TRADE_OFF
from serving.domain.ranking.faults import Fault, FieldError
from serving.domain.ranking.fusion import PUBLISHED_RANK_CONSTANT
from serving.domain.ranking.ledger import FusionMethod
from serving.domain.ranking.leg_options import (
    CandidatePool,
    Expansion,
    Walk,
    WalkDirection,
    WalkOrder,
    WordsMode,
    WordsSearch,
)
from serving.domain.ranking.priors import (
    DECAY_HALF_LIFE,
    EVERGREEN_FLOOR,
    EVERGREEN_KINDS,
    Decay,
    Importance,
    ImportanceStyle,
)
from serving.domain.ranking.profile import (
    Diversity,
    LegSpec,
    Profile,
    Rerank,
    SignalSpec,
    Sort,
    Yields,
    by_need,
)
from serving.domain.ranking.ranked_list import RankStyle
from serving.domain.ranking.signals import SIGNALS
from serving.pipeline.retrieval.legs import LEGS

Made = TypeVar("Made")


def _number(value: object) -> object:
    """Rejects booleans and strings, which pydantic would accept as numbers."""
    if isinstance(value, bool | str):
        raise ValueError(f"must be a number, got {value!r}")
    return value


def _duration(value: object) -> object:
    """Rejects plain numbers, which have no unit."""
    if isinstance(value, timedelta) or (isinstance(value, str) and value.startswith("P")):
        return value
    raise ValueError(f"must be an ISO 8601 duration, such as P7D, got {value!r}")


Count = Annotated[int, BeforeValidator(_number)]
Number = Annotated[float, BeforeValidator(_number)]
Duration = Annotated[timedelta, BeforeValidator(_duration)]


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class _WordsForm(_Form):
    mode: WordsMode = WordsMode.BM25
    rank_gate: Number = 0.01
    title: Number = 1.0
    keywords: Number = 1.0
    speaker: Number = 1.0


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
    """The options of all legs; the class of a leg has those that it supports."""

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
    named_times: bool = False


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
    rank_constant: Number = PUBLISHED_RANK_CONSTANT
    rank_style: RankStyle = RankStyle.MEAN
    importance: _ImportanceForm = _ImportanceForm()
    decay: _DecayForm | None = None
    rerank: _RerankForm | None = None
    fold_repeats: bool = True
    diversity: _DiversityForm | None = None
    sort: Sort = Sort.RELEVANCE
    resolve_names: bool = False
    split_questions: bool = False
    current_first: bool = False
    block: BlockForm = BlockForm.DATED

    def to_data(self, mode: Literal["python", "json"] = "python") -> dict[str, Any]:
        """The profile as data, with all its fields; `to_form` of it is an equal form."""
        data = self.model_dump(mode=mode)
        for leg, options in data["legs"].items():
            for option in _ALL_OPTIONS - LEGS[leg].options:
                del options[option]
            del options["depth" if options["depth_per_limit"] else "depth_per_limit"]
        return data

    def to_profile(self, name: str) -> Profile:
        """The profile for the pipeline; each leg comes after the legs that it depends on.

        Raises:
            FieldError: Values are invalid; it has all of them.
        """
        faults = _Faults()
        # A Struct does not keep the order of its fields, so the order is fixed here.
        legs = [
            faults.made(partial(_leg, leg, self.legs[leg], self.legs))
            for leg in _in_order_of(LEGS, self.legs)
        ]
        signals = [
            faults.made(partial(_signal, signal, self.signals[signal]))
            for signal in _in_order_of(SIGNALS, self.signals)
        ]
        importance = faults.made(partial(_made, "importance", Importance, self.importance))
        decay = faults.made(partial(_made_if_given, "decay", Decay, self.decay))
        rerank = faults.made(partial(_made_if_given, "rerank", Rerank, self.rerank))
        diversity = faults.made(partial(_made_if_given, "diversity", Diversity, self.diversity))
        faults.finish()
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
            fold_repeats=self.fold_repeats,
            diversity=diversity,
            sort=self.sort,
            resolve_names=self.resolve_names,
            split_questions=self.split_questions,
            current_first=self.current_first,
            block=self.block,
        )


def _in_order_of(known: Iterable[str], given: Iterable[str]) -> list[str]:
    """Orders given names as in `known`; unknown names come last."""
    places = {name: place for place, name in enumerate(known)}
    return sorted(given, key=lambda name: (places.get(name, len(places)), name))


_ALL_OPTIONS = frozenset[str]().union(*(leg.options for leg in LEGS.values()))


def to_form(data: Mapping[str, Any]) -> ProfileForm:
    """Reads a profile from plain data.

    Raises:
        FieldError: Fields are missing, unknown or of the wrong type; it has all of them.
    """
    try:
        return ProfileForm.model_validate(data)
    except ValidationError as error:
        raise FieldError(*map(_fault, error.errors(include_url=False))) from None


def _fault(error: Mapping[str, Any]) -> Fault:
    """Converts an error of pydantic."""
    path = ".".join(str(part) for part in error["loc"] if part != "[key]")
    own = error["type"] == "value_error"
    return Fault(path, str(error["ctx"]["error"]) if own else error["msg"])


def _leg(name: str, form: _LegForm, all_legs: Mapping[str, _LegForm]) -> LegSpec:
    path = f"legs.{name}"
    if name not in LEGS:
        raise FieldError(Fault(path, f"unknown leg, must be one of {', '.join(LEGS)}"))
    idle = (form.model_fields_set & _ALL_OPTIONS) - LEGS[name].options
    if idle:
        raise FieldError(
            *(Fault(f"{path}.{option}", "not supported by this leg") for option in sorted(idle))
        )
    if form.depth_per_limit and "depth" in form.model_fields_set:
        raise FieldError(Fault(f"{path}.depth", "must not be set together with depth_per_limit"))
    values = {field: getattr(form, field) for field in type(form).model_fields}
    values["words"] = _made(f"{path}.words", WordsSearch, form.words)
    values["pool"] = _made_if_given(f"{path}.pool", CandidatePool, form.pool)
    values["walk"] = _made(f"{path}.walk", Walk, form.walk)
    values["expansion"] = (
        _made(f"{path}.expansion", Expansion, form.expansion)
        if "expansion" in LEGS[name].options
        else None
    )
    leg = _section(path, LegSpec, name=name, **values)
    _check_dependencies(path, leg, all_legs)
    return leg


def _check_dependencies(path: str, leg: LegSpec, all_legs: Mapping[str, _LegForm]) -> None:
    seeds = leg.walk.seeds_from
    faults = [
        Fault(f"{path}.{field}", f"the profile has no other leg {other!r}")
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
    except FieldError as error:
        raise FieldError(*(Fault(f"signals.{name}", why) for _, why in error.faults)) from None


def _made(path: str, kind: Callable[..., Made], form: _Form) -> Made:
    """The domain value of a section, whose fields have the same names."""
    return _section(path, kind, **form.model_dump())


def _made_if_given(path: str, kind: Callable[..., Made], form: _Form | None) -> Made | None:
    return None if form is None else _made(path, kind, form)


def _section(path: str, kind: Callable[..., Made], **values: Any) -> Made:
    """Creates the domain value of a section; its errors get the path of the section.

    Raises:
        FieldError: Values are invalid.
    """
    try:
        return kind(**values)
    except FieldError as error:
        raise error.within(path) from None


class _Faults:
    """Collects the faults of several sections, to report all of them at once."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []

    def made(self, make: Callable[[], Made]) -> Made | None:
        """The result of `make`; None if it raises a FieldError."""
        try:
            return make()
        except FieldError as error:
            self._faults += error.faults
            return None

    def finish(self) -> None:
        """Raises the collected faults.

        Raises:
            FieldError: There are faults.
        """
        if self._faults:
            raise FieldError(*self._faults)

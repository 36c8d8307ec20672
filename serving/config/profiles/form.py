"""The fields of a profile as data, in files, requests and `reconfigure`.

Unknown fields are rejected. The forms are made of the dataclasses of the domain, which document the
fields, their defaults, and check their values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass
from datetime import timedelta
from functools import cache, partial
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, cast, get_args, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, create_model

from serving.domain.ranking.faults import Fault, FieldError
from serving.domain.ranking.leg_options import Expansion
from serving.domain.ranking.profile import LegSpec, Profile, SignalSpec, Sort, by_need
from serving.domain.ranking.signals import SIGNALS
from serving.pipeline.retrieval.legs import LEGS

Made = TypeVar("Made")

MAX_FAULTS = 32
"""Further ones are only counted: listing takes longer than finding them."""


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

RECENCY_FLOOR = 0.3
"""The default floor of legs by meaning with `sort: recency`, whose order shows the least similar of
their candidates as soon as it is new. On the memories of `bench/quality/changes` a cosine of .3 has
70 % of what answers a question (125), and 12 % of what does not (5,845), with the model minilm."""


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


_CHECKED = {int: Count, float: Number, timedelta: Duration}


def _form_of(kind: Any, *left_out: str, **given: tuple[Any, Any]) -> Any:
    """A form with the fields and defaults of a dataclass; `given` are added, or replace them."""
    hints = get_type_hints(kind)
    definitions: dict[str, Any] = {
        each.name: _field(hints[each.name], each.default)
        for each in fields(kind)
        if each.name not in left_out
    }
    return create_model(f"{kind.__name__}Form", __base__=_Form, **(definitions | given))


def _field(hint: Any, default: Any) -> tuple[Any, Any]:
    """The type of a field in a form, where a dataclass is a form, and its default."""
    inner = _not_none(hint)
    type_ = _form_of(inner) if is_dataclass(inner) else _CHECKED.get(inner, inner)
    if is_dataclass(default):
        default = type_(**asdict(cast(Any, default)))
    return type_ if inner is hint else type_ | None, ... if default is MISSING else default


def _not_none(hint: Any) -> Any:
    """The type of what is optional; another type as it is."""
    of = get_args(hint)
    return next(each for each in of if each is not NoneType) if NoneType in of else hint


_ExpansionForm: Any = _form_of(Expansion, found_by=(tuple[str, ...], ("lexical", "dense")))
_LegForm: Any = _form_of(LegSpec, "name", expansion=(_ExpansionForm, _ExpansionForm()))
"""The options of all legs; the class of a leg has those that it supports."""

_ProfileForm: Any = _form_of(
    Profile,
    "name",
    description=(str, ...),
    legs=(dict[str, _LegForm], ...),
    signals=(dict[str, Number], {}),
)


class ProfileForm(_ProfileForm):  # type: ignore[misc]  # a class that is made above
    """A whole profile as data."""

    def to_data(self, mode: Literal["python", "json"] = "python") -> dict[str, Any]:
        """The profile as data, with all its fields; `to_form` of it is an equal form."""
        data: dict[str, Any] = self.model_dump(mode=mode)
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
            faults.made(partial(_leg, leg, self._sorted(leg), self.legs))
            for leg in _in_order_of(LEGS, self.legs)
        ]
        signals = [
            faults.made(partial(_signal, signal, self.signals[signal]))
            for signal in _in_order_of(SIGNALS, self.signals)
        ]
        sections = {
            field: faults.made(partial(_made, field, section, getattr(self, field)))
            for field, section in _sections(Profile).items()
            if getattr(self, field) is not None
        }
        faults.finish()
        lists = {"legs": by_need([leg for leg in legs if leg]), "signals": tuple(signals)}
        return Profile(**dict(self) | sections | lists, name=name)

    def _sorted(self, leg: str) -> Any:
        """A leg with the floor that the order of the profile requires."""
        form = self.legs[leg]
        is_by_meaning = leg in LEGS and LEGS[leg].by_meaning
        if self.sort is Sort.RECENCY and is_by_meaning and form.floor is None:
            return form.model_copy(update={"floor": RECENCY_FLOOR})
        return form


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
        form: ProfileForm = ProfileForm.model_validate(data)
    except ValidationError as error:
        if (count := error.error_count()) > MAX_FAULTS:
            raise FieldError(Fault("", f"has {count:,} faults")) from None
        raise FieldError(*map(_fault, error.errors(include_url=False))) from None
    return form


def _fault(error: Mapping[str, Any]) -> Fault:
    path = ".".join(str(part) for part in error["loc"] if part != "[key]")
    own = error["type"] == "value_error"
    return Fault(path, str(error["ctx"]["error"]) if own else error["msg"])


def _leg(name: str, form: Any, all_legs: Mapping[str, object]) -> LegSpec:
    path = f"legs.{name}"
    if name not in LEGS:
        raise FieldError(Fault(path, f"unknown leg, must be one of {', '.join(LEGS)}"))
    idle = sorted((form.model_fields_set & _ALL_OPTIONS) - LEGS[name].options)
    if idle:
        why = "not supported by this leg"
        raise FieldError(*(Fault(f"{path}.{option}", why) for option in idle))
    if form.depth_per_limit and "depth" in form.model_fields_set:
        raise FieldError(Fault(f"{path}.depth", "must not be set together with depth_per_limit"))
    if "expansion" not in LEGS[name].options:
        form = form.model_copy(update={"expansion": None})
    leg = _made(path, LegSpec, form, name=name)
    _check_dependencies(path, leg, all_legs)
    return leg


def _check_dependencies(path: str, leg: LegSpec, all_legs: Mapping[str, object]) -> None:
    faults = [
        Fault(f"{path}.{field}", f"the profile has no other leg {other!r}")
        for field, others in (
            ("pool.joined_by", leg.pool.joined_by if leg.pool else ()),
            ("walk.seeds_from", leg.walk.seeds_from),
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


@cache
def _sections(kind: Any) -> Mapping[str, Any]:
    """The dataclasses among the fields of one."""
    types = {name: _not_none(hint) for name, hint in get_type_hints(kind).items()}
    return {name: type_ for name, type_ in types.items() if is_dataclass(type_)}


def _made(path: str, kind: Callable[..., Made], form: Any, **others: object) -> Made:
    """The domain value of a form, and of the forms in it, in whose errors `path` comes first."""
    values = dict(form)
    for field, section in _sections(kind).items():
        if values[field] is not None:
            values[field] = _made(f"{path}.{field}", section, values[field])
    try:
        return kind(**values, **others)
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
        """Raises `FieldError` if there are faults."""
        if self._faults:
            raise FieldError(*self._faults)

"""Whether a value fits a filter, and a namespace a condition, as `InMemoryStore` has it."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.store.base import MatchCondition

_ORDERS = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}


def fits(value: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> bool:
    """Whether the fields of a value are as the filter of a search wants them.

    Raises:
        ValueError: The filter has an unknown operator.
    """
    return all(_is_as(value.get(name), each) for name, each in (wanted or {}).items())


def _is_as(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        if any(name.startswith("$") for name in wanted):
            return all(_compares(value, name, operand) for name, operand in wanted.items())
        return isinstance(value, Mapping) and fits(value, wanted)
    if isinstance(wanted, list | tuple):
        return (
            isinstance(value, list | tuple)
            and len(value) == len(wanted)
            and all(map(_is_as, value, wanted))
        )
    return bool(value == wanted)


def _compares(value: Any, name: str, operand: Any) -> bool:
    if name in ("$eq", "$ne"):
        return bool(value == operand) is (name == "$eq")
    if name not in _ORDERS:
        raise ValueError(f"unknown operator {name!r}; known are $eq, $ne, {', '.join(_ORDERS)}")
    try:
        return bool(_ORDERS[name](float(value), float(operand)))
    except (TypeError, ValueError):
        # InMemoryStore raises this; the stores over PostgreSQL do not find the item.
        return False


def matches(condition: MatchCondition, namespace: Sequence[str]) -> bool:
    """Whether a namespace begins, or ends, as the condition says; "*" is any one level.

    Raises:
        ValueError: The condition is of an unknown type.
    """
    path = condition.path
    if len(namespace) < len(path):
        return False
    match condition.match_type:
        case "prefix":
            part = namespace[: len(path)]
        case "suffix":
            part = namespace[len(namespace) - len(path) :]
        case _:
            raise ValueError(f"unknown match type {condition.match_type!r}")
    return all(wanted in ("*", level) for wanted, level in zip(path, part, strict=True))

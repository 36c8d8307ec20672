"""The ways to ask, each with less of the default profile than the one before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LEGS = ("lexical", "dense", "facts", "graph", "related", "temporal")
OF_VECTORS = ("dense", "facts")


@dataclass(frozen=True, slots=True)
class Way:
    """What is asked.

    Attributes:
        name: In the table.
        overrides: Changes of the default profile, in the form of a profile file.
        with_vector: Whether the caller gives the vector of the question.
    """

    name: str
    overrides: Mapping[str, Any]
    with_vector: bool = False


def _without(*legs: str) -> dict[str, Any]:
    return {"legs": {leg: {"weight": 0} for leg in legs}}


def _only(*legs: str) -> dict[str, Any]:
    plain = {"signals": {"speaker": 0, "time": 0}, "resolve_names": False}
    return {**_without(*(leg for leg in LEGS if leg not in legs)), **plain}


WAYS: Sequence[Way] = (
    Way("default", {}),
    Way("without related and graph", _without("related", "graph")),
    Way("also without signals, names and times", _only("lexical", "dense", "facts")),
    Way("words alone", _only("lexical")),
    Way("meaning alone", _only(*OF_VECTORS)),
    Way("graph alone", _only("graph")),
    Way("meaning alone, vector given", _only(*OF_VECTORS), with_vector=True),
)

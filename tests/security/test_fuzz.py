"""The quick form of `make fuzz`: two thousand inputs of each kind."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.rpc.identity.rules import RULES
from tests.security.edge import METHODS, Edge, inputs
from tests.security.hostile import TEXTS

ACCEPTED, MALFORMED, REJECTED = "accepted", "undecodable", "INVALID_FIELD"
EDGE = Edge()


def test_every_rpc_is_tried() -> None:
    assert set(METHODS) == set(RULES)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_hostile_request_is_accepted_or_rejected_with_its_fields(method: str) -> None:
    make = inputs(seed=7)

    outcomes = Counter(EDGE.receive(method, make(method)) for _ in range(400))

    assert set(outcomes) <= {ACCEPTED, REJECTED, MALFORMED}
    assert outcomes[REJECTED] > 0


@given(method=st.sampled_from(sorted(METHODS)), encoded=st.binary(max_size=200))
def test_any_bytes_are_accepted_or_rejected(method: str, encoded: bytes) -> None:
    assert EDGE.receive(method, encoded) in {ACCEPTED, REJECTED, MALFORMED}


def test_the_texts_are_hostile() -> None:
    assert any("\0" in text for text in TEXTS)

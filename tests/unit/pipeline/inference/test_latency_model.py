"""What a latency model learns of a device, and how little a slow batch now and then changes it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.pipeline.inference.latency_model import GROWTH, MIN_SPREAD, REMEMBERED, LatencyModel

BATCH_S = 0.0008
TOKEN_S = 0.018e-3 / 16


def learned(*sizes: int, batch_s: float = BATCH_S, token_s: float = TOKEN_S) -> LatencyModel:
    """What batches of these sizes taught, on a device that takes exactly so long."""
    latency_model = LatencyModel()
    for tokens in sizes:
        latency_model.learn(tokens, batch_s + token_s * tokens)
    return latency_model


def predicted(latency_model: LatencyModel, tokens: int) -> float:
    seconds = latency_model.seconds(tokens)
    assert seconds is not None
    return seconds


def test_model_predicts_no_latency_before_a_batch() -> None:
    assert LatencyModel().seconds(100) is None
    assert LatencyModel().tokens_within(1.0) == 0


def test_batches_of_two_sizes_determine_every_latency() -> None:
    latency_model = learned(*[40, 1000] * 5)

    for tokens in (1, 40, 500, 4000):
        assert predicted(latency_model, tokens) == pytest.approx(BATCH_S + TOKEN_S * tokens)


@given(
    sizes=st.lists(st.integers(1, 20_000), min_size=1, max_size=60),
    seconds=st.floats(1e-5, 1.0),
    batch_s=st.floats(0, 0.1),
    token_s=st.floats(0, 1e-4),
)
def test_batch_predicted_to_fit_does_fit(
    sizes: list[int], seconds: float, batch_s: float, token_s: float
) -> None:
    latency_model = learned(*sizes, batch_s=batch_s, token_s=token_s)

    fitting = latency_model.tokens_within(seconds)

    # Below what ran, or among sizes too like to tell batch from token, it is an estimate.
    least, most = min(sizes[-REMEMBERED:]), max(sizes[-REMEMBERED:])
    if fitting > (least if most >= MIN_SPREAD * least else most):
        assert batch_s + token_s * fitting <= seconds * (1 + 1e-6)
    assert fitting <= GROWTH * max(sizes[-REMEMBERED:])


@given(
    sizes=st.permutations(([64, 256, 1600] * REMEMBERED)[:REMEMBERED]),
    slow=st.sets(st.integers(0, REMEMBERED - 1), max_size=3),
)
def test_a_few_batches_that_were_held_up_change_nothing(sizes: list[int], slow: set[int]) -> None:
    latency_model, held_up = LatencyModel(), LatencyModel()
    for place, tokens in enumerate(sizes):
        seconds = BATCH_S + TOKEN_S * tokens
        latency_model.learn(tokens, seconds)
        held_up.learn(tokens, 30 * seconds if place in slow else seconds)

    for tokens in (64, 256, 1600):
        assert predicted(held_up, tokens) == pytest.approx(predicted(latency_model, tokens))


def test_a_device_that_became_slower_is_followed() -> None:
    latency_model = learned(*[64, 1024] * 20)
    for tokens in [64, 1024] * (REMEMBERED // 2):
        latency_model.learn(tokens, 0.1 + 0.001 * tokens)

    assert predicted(latency_model, 1024) == pytest.approx(0.1 + 1.024)


def test_batches_of_equal_size_count_by_tokens() -> None:
    latency_model = learned(*[100] * 10)

    assert predicted(latency_model, 100) == pytest.approx(BATCH_S + 100 * TOKEN_S)
    assert predicted(latency_model, 200) == pytest.approx(2 * predicted(latency_model, 100))


def test_batch_far_beyond_measured_sizes_never_fits() -> None:
    latency_model = learned(100, 400, batch_s=0.001, token_s=0)

    assert latency_model.tokens_within(0.002) == GROWTH * 400
    assert latency_model.tokens_within(0.0005) == 0


def test_doubt_makes_predictions_shorter_until_something_is_learned() -> None:
    latency_model = learned(100)
    before = predicted(latency_model, 100)
    for _ in range(100):
        latency_model.doubt()
    doubted = predicted(latency_model, 100)
    latency_model.learn(100, before)

    assert doubted == pytest.approx(before * math.pow(0.98, 100))
    assert predicted(latency_model, 100) == pytest.approx(before)

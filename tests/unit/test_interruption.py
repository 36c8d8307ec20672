"""Signals are noted and acted on where that is safe."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from serving.deployments.interruption import Interruption


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def interruption(told: list[str]) -> Iterator[Interruption]:
    with Interruption(lambda: told.append("noted")) as running:
        yield running


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_raises_only_where_it_is_looked_for(
    interruption: Interruption, told: list[str], number: signal.Signals
) -> None:
    interruption.check()

    send(number)

    assert told == ["noted"]
    with pytest.raises(KeyboardInterrupt):
        interruption.check()


def test_it_raises_at_once_where_that_is_safe(interruption: Interruption, told: list[str]) -> None:
    with pytest.raises(KeyboardInterrupt), interruption.at_once():
        send(signal.SIGINT)

    assert told == ["noted"]


def test_past_such_a_block_it_is_only_noted_again(interruption: Interruption) -> None:
    with interruption.at_once():
        pass

    send(signal.SIGINT)

    assert interruption.noted


def test_one_that_came_before_raises_there_too(interruption: Interruption) -> None:
    send(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), interruption.at_once():
        pytest.fail("the block was entered")


def test_only_the_first_counts(interruption: Interruption, told: list[str]) -> None:
    with pytest.raises(KeyboardInterrupt), interruption.at_once():
        send(signal.SIGINT)

    send(signal.SIGINT)
    send(signal.SIGTERM)

    assert told == ["noted"]


def test_waiting_ends_with_a_signal(interruption: Interruption) -> None:
    send(signal.SIGTERM)

    interruption.wait()

    assert interruption.noted


def test_the_handlers_before_are_put_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    with Interruption(lambda: None):
        pass

    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before

"""Signals are recorded, and handled where that is safe."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from serving.desk.interruption import Interruption


@pytest.fixture
def reported() -> list[str]:
    return []


@pytest.fixture
def interruption(reported: list[str]) -> Iterator[Interruption]:
    with Interruption(lambda: reported.append("noted")) as running:
        yield running


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_raises_only_where_it_is_checked(
    interruption: Interruption, reported: list[str], number: signal.Signals
) -> None:
    interruption.check()

    send(number)

    assert reported == ["noted"]
    with pytest.raises(KeyboardInterrupt):
        interruption.check()


def test_interruption_raises_at_once_if_safe(
    interruption: Interruption, reported: list[str]
) -> None:
    with pytest.raises(KeyboardInterrupt), interruption.at_once():
        send(signal.SIGINT)

    assert reported == ["noted"]


def test_after_such_a_block_it_is_only_recorded_again(interruption: Interruption) -> None:
    with interruption.at_once():
        pass

    send(signal.SIGTERM)
    interruption.wait()

    assert interruption.noted


def test_a_signal_before_the_block_raises_in_it_too(interruption: Interruption) -> None:
    send(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), interruption.at_once():
        pytest.fail("the block was entered")


def test_only_the_first_counts(interruption: Interruption, reported: list[str]) -> None:
    with pytest.raises(KeyboardInterrupt), interruption.at_once():
        send(signal.SIGINT)

    send(signal.SIGINT)
    send(signal.SIGTERM)

    assert reported == ["noted"]


def test_the_previous_handlers_are_restored() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    with Interruption(lambda: None):
        pass

    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_upkeep_during_waiting_is_not_interrupted(interruption: Interruption) -> None:
    tended: list[bool] = []

    def tend() -> None:
        if len(tended) == 2:
            send(signal.SIGTERM)
        tended.append(interruption.noted)

    interruption.wait(tend, every_s=0.001)

    assert tended == [False, False, True]

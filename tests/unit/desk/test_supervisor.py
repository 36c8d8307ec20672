"""A store is started in a thread, started again when it has ended, and stopped."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pytest

from serving.desk import supervisor
from serving.desk.embedded_postgres import PostgresStartError
from serving.desk.supervisor import keep_running, supervised
from serving.domain.errors import DependencyError
from tests.support.waiting import until


class Store:
    """A store that ends as soon as it runs; it starts while there is no `error`, if it may."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.is_starting, self.may_start = threading.Event(), threading.Event()
        self.runs = False
        self.restarts = 0

    def start(self) -> str:
        self.is_starting.set()
        assert self.may_start.wait(20), "nobody lets it start"
        if self.error is not None:
            raise self.error
        self.runs = True
        return "address"

    def restart_if_dead(self) -> None:
        self.restarts += 1
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        self.runs = False


@pytest.fixture
def store() -> Iterator[Store]:
    store = Store()
    yield store
    store.may_start.set()


def test_started_store_has_an_address_until_stopped(store: Store) -> None:
    store.may_start.set()

    with supervised(store, "Nothing works.", print) as address:
        assert address.result(20) == "address"
        assert store.runs

    assert not store.runs


def test_store_starting_at_shutdown_is_stopped_afterwards(store: Store) -> None:
    with contextlib.suppress(KeyError), supervised(store, "Nothing works.", print):
        store.is_starting.wait()
        # The start continues only after the block has ended.
        threading.Timer(0.1, store.may_start.set).start()
        raise KeyError("something else failed")

    assert store.may_start.is_set()
    assert not store.runs


@pytest.mark.parametrize("error", [PostgresStartError("no room"), KeyError("unexpected")])
def test_failed_first_start_is_the_address(store: Store, error: Exception) -> None:
    store.error = error
    store.may_start.set()

    with supervised(store, "Nothing works.", print) as address:
        assert address.exception(20) is error

    assert store.restarts == 0


def test_slow_store_does_not_delay_another(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "EVERY_S", 0.001)
    quick = Store()
    quick.may_start.set()

    with supervised(store, "", print), supervised(quick, "", print):
        until(lambda: quick.restarts >= 3)
        assert not store.runs
        store.may_start.set()


class Pauses:
    """A wait that returns at once; something happens at some of its times, in seconds."""

    def __init__(self, ends_at: float) -> None:
        self.now = 0.0
        self._ends_at = ends_at

    def __call__(self, pause_s: float) -> bool:
        self.now += pause_s
        return self.now > self._ends_at


class Broken:
    """Does not start again until it is mended."""

    def __init__(self, pauses: Pauses, error: Exception, mended_at: float = 1e9) -> None:
        self._pauses, self._error, self._mended_at = pauses, error, mended_at
        self.attempts: list[float] = []

    def start(self) -> str:
        return "address"

    def restart_if_dead(self) -> None:
        self.attempts.append(self._pauses.now)
        if self._pauses.now < self._mended_at:
            raise self._error

    def stop(self) -> None:
        """Nothing runs."""


@pytest.mark.parametrize(
    "error",
    [PostgresStartError("no memory"), DependencyError("graph", "no memory"), OSError("no memory")],
)
def test_failed_restart_is_retried_after_doubling_pauses(error: Exception) -> None:
    pauses, said = Pauses(ends_at=250), list[str]()
    store = Broken(pauses, error)

    keep_running(store, "Nothing works.", said.append, pauses)

    assert store.attempts == [2, 6, 14, 30, 62, 122, 182, 242]
    assert "no memory. Nothing works. Next attempt in 4 s" in said[0]
    assert said[-1].endswith("in 60 s")


def test_restarted_store_is_checked_as_often_again() -> None:
    pauses, said = Pauses(ends_at=20), list[str]()
    store = Broken(pauses, PostgresStartError("no memory"), mended_at=10)

    keep_running(store, "Nothing works.", said.append, pauses)

    assert store.attempts == [2, 6, 14, 16, 18, 20]
    assert len(said) == 2

"""How a start waits for Ray, what it reports meanwhile, and when a desk ends without Ray."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from serving.desk import ray_cluster
from serving.desk.ray_cluster import (
    RayStartError,
    essential_of,
    first_that_starts,
    require_essential,
    require_started,
    wait_for_node,
    waits_for,
)
from serving.desk.ray_environment import DeskEndedError, DeskStartError


def deployment(status: str, message: str = "") -> Any:
    return SimpleNamespace(status=status, message=message)


def test_deployment_not_running_is_named_with_its_reason() -> None:
    application: Any = SimpleNamespace(
        deployments={
            "Embedder": deployment("UPDATING", "loading the model"),
            "Ingress": deployment("UPDATING"),
            "VectorIndex": deployment("HEALTHY"),
        }
    )

    assert waits_for(application) == "waiting for Embedder (loading the model), Ingress"
    assert waits_for(None) == "waiting for Serve"


def nothing() -> None:
    """Lets a start go on."""


class LateNode:
    """A node that Ray finds when it is asked for the third time."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self) -> str:
        self.asked += 1
        if self.asked < 3:
            raise RuntimeError("not registered")
        return "node"


def test_a_node_may_register_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "POLL_S", 0)

    assert wait_for_node(LateNode(), nothing) == "node"


def test_wait_for_a_node_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "START_TIMEOUT_S", 0)

    with pytest.raises(RuntimeError):
        wait_for_node(LateNode(), nothing)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RayStartError("ended")])
def test_signal_or_ended_process_ends_the_wait(error: BaseException) -> None:
    node = LateNode()

    def check() -> None:
        raise error

    with pytest.raises(type(error)):
        wait_for_node(node, check)

    assert node.asked == 1


class Starts:
    """Starts of Ray, the first of which fail."""

    def __init__(self, failing: int) -> None:
        self._failing = failing
        self.done: list[str] = []

    def start(self) -> str:
        self.done.append("start")
        if self.done.count("start") <= self._failing:
            raise RayStartError("the raylet ended")
        return "addresses"

    def clean_up(self) -> None:
        self.done.append("clean up")


def test_failed_start_of_ray_is_cleaned_and_repeated() -> None:
    starts, said = Starts(failing=2), list[str]()

    assert first_that_starts(starts.start, starts.clean_up, said.append) == "addresses"

    assert starts.done == ["start", "clean up", "start", "clean up", "start"]
    assert said == [f"the raylet ended. Starting Ray again, {number} of 3" for number in (2, 3)]


def test_last_failed_start_of_ray_is_raised() -> None:
    starts = Starts(failing=9)

    with pytest.raises(DeskStartError, match=r"raylet ended\. Start again when less runs"):
        first_that_starts(starts.start, starts.clean_up, lambda _: None)

    assert starts.done.count("start") == 3


def test_unexpected_start_error_is_not_repeated() -> None:
    done: list[str] = []

    def start() -> None:
        done.append("start")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        first_that_starts(start, nothing, lambda _: None)

    assert done == ["start"]


def process(status: int | None) -> Any:
    return SimpleNamespace(poll=lambda: status)


RUNNING = process(None)


@pytest.mark.parametrize(
    ("logged", "said"),
    [
        ("[C] main.cc:1: Check failed: ok() Timed out waiting for a file\n***\n", "Timed out"),
        ("\nterminate called\n", "terminate called"),
        ("", "no reason"),
        (None, "no reason"),
    ],
)
def test_process_ended_while_starting_is_reported_with_reason(
    tmp_path: Path, logged: str | None, said: str
) -> None:
    if logged is not None:
        (tmp_path / "raylet.err").write_text(logged)

    with pytest.raises(
        RayStartError, match=f"raylet was ended by SIGABRT .* load .*{said}"
    ) as failed:
        require_started({"gcs_server": RUNNING, "raylet": process(-6)}, tmp_path)

    assert "Check failed" not in str(failed.value)


def test_start_goes_on_while_its_processes_run(tmp_path: Path) -> None:
    require_started({"gcs_server": RUNNING, "raylet": RUNNING}, tmp_path)


def test_essential_processes_exclude_dashboard_and_logs() -> None:
    raylet, gcs, python = (
        SimpleNamespace(args=[program, "dashboard.py"])
        for program in ("/ray/core/raylet", "/ray/core/gcs_server", "/usr/bin/python")
    )
    started: list[Any] = [gcs, python, raylet]

    assert essential_of(started) == {"raylet": raylet, "gcs_server": gcs}


@pytest.mark.parametrize(
    ("name", "status", "said"),
    [
        ("raylet", -9, "Ray's process raylet was ended by SIGKILL"),
        ("gcs_server", 1, "Ray's process gcs_server ended with status 1"),
    ],
)
def test_desk_ends_with_a_needed_process_of_ray(name: str, status: int, said: str) -> None:
    with pytest.raises(DeskEndedError, match=said):
        require_essential({"raylet": RUNNING, "gcs_server": RUNNING, name: process(status)})

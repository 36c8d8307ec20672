"""How long a start waits for Ray, what it reports meanwhile, and when a desk ends without Ray."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from serving.desk import ray_cluster
from serving.desk.ray_cluster import (
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
            "Fusion": deployment("UPDATING"),
            "VectorIndex": deployment("HEALTHY"),
        }
    )

    assert waits_for(application) == "waiting for Embedder (loading the model), Fusion"
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


def test_signal_ends_the_wait_for_a_node() -> None:
    node = LateNode()

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        wait_for_node(node, interrupted)

    assert node.asked == 1


def process(name: str, status: int | None) -> Any:
    return name, SimpleNamespace(returncode=status, poll=lambda: status)


RUNNING = process("gcs_server", None)


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

    with pytest.raises(DeskStartError, match=f"raylet was ended by SIGABRT .*{said}") as failed:
        require_started([RUNNING, process("raylet", -6)], tmp_path)

    assert "load" in str(failed.value)
    assert "Check failed" not in str(failed.value)


def test_start_goes_on_while_its_processes_run(tmp_path: Path) -> None:
    require_started([RUNNING, process("raylet", None)], tmp_path)


@pytest.mark.parametrize(
    ("dead", "said"),
    [
        (process("raylet", -9), "Ray's process raylet was ended by SIGKILL"),
        (process("gcs_server", 1), "Ray's process gcs_server ended with status 1"),
    ],
)
def test_desk_ends_with_a_needed_process_of_ray(dead: Any, said: str) -> None:
    with pytest.raises(DeskEndedError, match=said):
        require_essential([process("raylet", None), dead])

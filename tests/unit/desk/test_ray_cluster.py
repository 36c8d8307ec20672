"""How long a start waits for Ray, what it reports meanwhile, and when a desk ends without Ray."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import ray._private.services

from serving.desk import ray_cluster
from serving.desk.ray_cluster import patience, require_essential, waits_for
from serving.desk.ray_environment import DeskEndedError

services: Any = ray._private.services


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


class LateNode:
    """A node that Ray finds when it is asked for the third time."""

    def __init__(self) -> None:
        self.asked = 0

    def get_node(self, gcs_address: str, node_id: str) -> str:
        self.asked += 1
        if self.asked < 3:
            raise RuntimeError("not registered")
        return f"{node_id} at {gcs_address}"


def test_a_node_may_register_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "get_node", LateNode().get_node)
    monkeypatch.setattr(ray_cluster, "POLL_S", 0)

    with patience():
        found = services.get_node("gcs", "node")

    assert found == "node at gcs"


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "get_node", LateNode().get_node)
    monkeypatch.setattr(ray_cluster, "NODE_TIMEOUT_S", 0)

    with pytest.raises(RuntimeError), patience():
        services.get_node("gcs", "node")


def ended(name: str, returncode: int) -> Any:
    return name, SimpleNamespace(returncode=returncode)


@pytest.mark.parametrize(
    ("dead", "said"),
    [
        (ended("raylet", -9), "Ray's process raylet was ended by SIGKILL"),
        (ended("gcs_server", 1), "Ray's process gcs_server ended with status 1"),
    ],
)
def test_desk_ends_with_a_needed_process_of_ray(dead: Any, said: str) -> None:
    with pytest.raises(DeskEndedError, match=said):
        require_essential([ended("dashboard", 0), dead])


def test_desk_survives_the_end_of_dashboard_and_logs() -> None:
    require_essential([ended("dashboard", -9), ended("log_monitor", -9), ended("monitor", 1)])

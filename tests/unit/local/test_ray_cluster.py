"""What a start reports while Serve deploys."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from serving.local.ray_cluster import waits_for


def deployment(status: str, message: str = "") -> Any:
    return SimpleNamespace(status=status, message=message)


def test_what_is_not_running_yet_is_named_with_its_reason() -> None:
    application: Any = SimpleNamespace(
        deployments={
            "Embedder": deployment("UPDATING", "loading the model"),
            "Fusion": deployment("UPDATING"),
            "VectorIndex": deployment("HEALTHY"),
        }
    )

    assert waits_for(application) == "waiting for Embedder (loading the model), Fusion"
    assert waits_for(None) == "waiting for Serve"

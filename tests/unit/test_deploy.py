"""What `deploy/` ships is what the code says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from serving.config import load_settings
from serving.deployments.app import build, serve_config
from serving.deployments.ray_environment import LATENCY_ENVIRONMENT

DEPLOY = Path(__file__).parents[2] / "deploy"


@pytest.mark.parametrize("placement", ["fused", "split"])
def test_the_shipped_serve_config_is_the_one_that_is_built(placement: str) -> None:
    arguments = {"serve": {"placement": placement}}

    shipped = yaml.safe_load((DEPLOY / f"serve.{placement}.yaml").read_text())

    assert shipped == serve_config(load_settings(arguments), arguments)


def test_the_shipped_environment_has_all_that_ray_needs() -> None:
    lines = (DEPLOY / "ray.env").read_text().splitlines()

    assert {f"{name}={value}" for name, value in LATENCY_ENVIRONMENT.items()} <= set(lines)


def parts(**settings: object) -> dict[str, Any]:
    """What the ingress of the split placement is given, by name."""
    application = build({"serve": {"placement": "split"}, **settings})
    # Serve has no public way to ask an application what it consists of.
    given: Any = application._bound_deployment.init_kwargs
    return dict(given)


def test_the_split_placement_has_a_reranker_where_a_model_is_named() -> None:
    assert parts()["reranker"] is None
    assert parts(reranker={"model": "folder"})["reranker"]._bound_deployment.name == "Reranker"

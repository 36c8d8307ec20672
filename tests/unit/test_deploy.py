"""What `deploy/` ships is what the code says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from serving.config import load_settings
from serving.deployments.app import build, serve_config
from serving.deployments.ray_environment import LATENCY_ENVIRONMENT
from serving.telemetry import ALL_METRICS

DEPLOY = Path(__file__).parents[2] / "deploy"
README = DEPLOY.parent / "README.md"


@pytest.mark.parametrize("placement", ["fused", "split"])
def test_the_shipped_serve_config_is_the_one_that_is_built(placement: str) -> None:
    arguments = {"serve": {"placement": placement}}

    shipped = yaml.safe_load((DEPLOY / f"serve.{placement}.yaml").read_text())

    assert shipped == serve_config(load_settings(arguments), arguments)


def test_the_shipped_dashboard_has_a_panel_for_each_metric() -> None:
    dashboard = json.loads((DEPLOY / "grafana" / "trivium.json").read_text())

    shown = [
        set(re.findall(r"ray_trivium_\w+", target["expr"]))
        for panel in dashboard["panels"]
        for target in panel["targets"]
    ]

    assert set().union(*shown) <= exposed_names()
    assert {panel["title"] for panel in dashboard["panels"]} == {each.name for each in ALL_METRICS}


def test_the_readme_asks_for_metrics_that_there_are() -> None:
    asked = set(re.findall(r"ray_trivium_\w+", README.read_text()))

    assert asked
    assert asked <= exposed_names()


def exposed_names() -> set[str]:
    """The names on the metrics page: Ray's prefix, and Prometheus' parts of a histogram."""
    parts = {"counter": [""], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"]}
    return {f"ray_{each.name}{part}" for each in ALL_METRICS for part in parts[each.kind]}


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

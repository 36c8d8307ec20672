"""The files in `deploy/` agree with the code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.serve import Deployment
from ray.serve._private.build_app import build_app
from ray.serve.schema import ServeDeploySchema

from serving.composition.authentication import NotAuthenticatedError
from serving.config.settings import load_settings
from serving.deployments.app import build, serve_config
from serving.desk.ray_environment import LATENCY_ENVIRONMENT
from serving.domain.shards import Shard
from serving.telemetry import ALL_METRICS

DEPLOY = Path(__file__).parents[3] / "deploy"
OPERATING = DEPLOY.parent / "docs/operating.md"


SHIPPED = sorted(path.name for path in DEPLOY.glob("serve.*.yaml"))


def shipped(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text())


def test_serve_configs_cover_every_kind_of_machine() -> None:
    of_cpus = ["serve.single.yaml", "serve.split.yaml"]
    of_gpus = [f"serve.{name}.yaml" for name in ("blackwell", "gpu-big", "gpu-small", "gpus")]
    assert sorted([*of_cpus, *of_gpus]) == SHIPPED


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_serve_config_equals_built_one_without_replicas(name: str) -> None:
    config = shipped(name)
    [application] = config["applications"]
    arguments = application["args"]

    fusion, *scaled = application["deployments"]
    application["deployments"] = [fusion]

    assert config == serve_config(load_settings(arguments), arguments)
    there = {each.name for each in built(arguments)}
    assert {each.pop("name") for each in scaled} <= there
    for each in scaled:
        assert each.keys() <= {"num_replicas", "autoscaling_config"}


@pytest.mark.parametrize("name", SHIPPED)
def test_serve_accepts_a_shipped_serve_config(name: str) -> None:
    ServeDeploySchema.model_validate(shipped(name))


def test_reflection_can_be_switched_off() -> None:
    config = serve_config(load_settings({"serve": {"reflection": False}}), {})

    accepted = ServeDeploySchema.model_validate(config)

    assert not accepted.grpc_options.enable_reflection


def shares(**arguments: Any) -> dict[str, float]:
    """The share of a GPU that a replica of each deployment requests."""
    return {each.name: (each.ray_actor_options or {})["num_gpus"] for each in built(arguments)}


def built(arguments: dict[str, Any]) -> list[Deployment]:
    application = build({**arguments, "auth": {"allow_anonymous": True}})
    return list(build_app(application, name="trivium").deployments)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_serve_config_does_not_start_without_authentication(name: str) -> None:
    [application] = shipped(name)["applications"]

    with pytest.raises(NotAuthenticatedError, match="allow_anonymous"):
        build(application["args"])


def test_no_deployment_requests_a_gpu_by_default() -> None:
    named = {"reranker": {"model": "folder"}}
    found = [shares(serve={"placement": each}, **named) for each in ("single", "split", "gpu")]

    assert found == [
        {"Ingress": 0},
        dict.fromkeys(["Ingress", "Embedder", "VectorIndex", "Projector", "Reranker"], 0),
        dict.fromkeys(["Ingress", "VectorSpace", "Projector", "Reranker"], 0),
    ]


def test_deployment_requests_its_own_share_of_a_gpu() -> None:
    assert shares(**shipped("serve.gpu-small.yaml")["applications"][0]["args"]) == {"Ingress": 1}
    assert shares(**shipped("serve.gpu-big.yaml")["applications"][0]["args"]) == {
        "Ingress": 0,
        "VectorSpace": 0.4,
        "Projector": 0,
        "Reranker": 0.2,
    }


def test_shard_of_a_separate_index_has_its_own_share() -> None:
    serve = {"placement": "split", "gpus": {"embedder": 0.4, "index": 0.3}}

    assert shares(serve=serve, index={"device": "cuda", "shards": 2}) == {
        "Ingress": 0,
        "Embedder": 0.4,
        "VectorIndex-0-of-2": 0.3,
        "VectorIndex-1-of-2": 0.3,
        "Projector": 0,
    }


@pytest.mark.parametrize(
    ("placement", "index", "others"),
    [
        ("split", "VectorIndex", {"Ingress", "Projector", "Embedder"}),
        ("gpu", "VectorSpace", {"Ingress", "Projector"}),
    ],
)
def test_shard_of_the_index_is_a_separate_deployment(
    placement: str, index: str, others: set[str]
) -> None:
    deployed = built({"serve": {"placement": placement}, "index": {"shards": 3}})

    shards = {f"{index}-{number}-of-3": Shard(number, 3) for number in range(3)}
    assert {each.name for each in deployed} == others | set(shards)
    given = {each.name: each.init_args[-1] for each in deployed if each.name in shards}
    assert given == shards


def test_shards_without_separate_deployments_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"index\.shards: .* need serve\.placement split or gpu"):
        built({"index": {"shards": 2}})


def test_the_shipped_dashboard_has_a_panel_for_each_metric() -> None:
    dashboard = json.loads((DEPLOY / "grafana" / "trivium.json").read_text())

    shown = [
        set(re.findall(r"ray_trivium_\w+", target["expr"]))
        for panel in dashboard["panels"]
        for target in panel["targets"]
    ]

    assert set().union(*shown) <= exposed_names()
    assert {panel["title"] for panel in dashboard["panels"]} == {each.name for each in ALL_METRICS}


def test_the_page_on_operating_queries_existing_metrics() -> None:
    asked = set(re.findall(r"ray_trivium_\w+", OPERATING.read_text()))

    assert asked
    assert asked <= exposed_names()


def exposed_names() -> set[str]:
    """The names on the metrics page: with Ray's prefix, and the parts of histograms."""
    parts = {"counter": [""], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"]}
    return {f"ray_{each.name}{part}" for each in ALL_METRICS for part in parts[each.kind]}


def test_the_shipped_environment_has_all_that_ray_needs() -> None:
    lines = (DEPLOY / "ray.env").read_text().splitlines()

    assert {f"{name}={value}" for name, value in LATENCY_ENVIRONMENT.items()} <= set(lines)


def parts(**settings: object) -> dict[str, Any]:
    """The arguments of the ingress in the split placement, by name."""
    application = build(
        {"serve": {"placement": "split"}, "auth": {"allow_anonymous": True}, **settings}
    )
    # Serve has no public API for the deployments of an application.
    given: Any = application._bound_deployment.init_kwargs
    return dict(given)


def test_the_split_placement_has_a_reranker_where_a_model_is_named() -> None:
    assert parts()["reranker"] is None
    assert parts(reranker={"model": "folder"})["reranker"]._bound_deployment.name == "Reranker"

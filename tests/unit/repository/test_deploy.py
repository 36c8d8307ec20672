"""The files in `deploy/` agree with the code."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
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
from tests.lint import sections
from tests.support import release
from tests.support.tracked_files import ROOT

DEPLOY = ROOT / "deploy"
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
def test_throughput_of_gpus_is_on_one_page(name: str) -> None:
    text = (DEPLOY / name).read_text()

    assert not re.search(r"\d+ answers a second", text)
    assert (
        ("answers a second" in text) == ("docs/gpu.md#planning" in text) == ("replicas: " in text)
    )
    assert "planning" in sections(ROOT / "docs/gpu.md")


@pytest.mark.parametrize("name", SHIPPED)
def test_serve_accepts_a_shipped_serve_config(name: str) -> None:
    ServeDeploySchema.model_validate(shipped(name))


def test_reflection_can_be_switched_off() -> None:
    config = serve_config(load_settings({"serve": {"reflection": False}}), {})

    accepted = ServeDeploySchema.model_validate(config)

    assert not accepted.grpc_options.enable_reflection


def built(arguments: dict[str, Any]) -> list[Deployment]:
    application = build({**arguments, "auth": {"allow_anonymous": True}})
    return list(build_app(application, name="trivium").deployments)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_serve_config_does_not_start_without_authentication(name: str) -> None:
    [application] = shipped(name)["applications"]

    with pytest.raises(NotAuthenticatedError, match="allow_anonymous"):
        build(application["args"])


SHARDS_ON_GPUS = {
    "serve": {"placement": "split", "gpus": {"embedder": 0.4, "index": 0.3}},
    "index": {"device": "cuda", "shards": 2},
}
SHARDS = dict.fromkeys(["VectorIndex-0-of-2", "VectorIndex-1-of-2"], 0.3)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"serve": {"placement": "single"}}, {"Ingress": 0}),
        (
            {"serve": {"placement": "split"}},
            dict.fromkeys(["Ingress", "Embedder", "VectorIndex", "Projector", "Reranker"], 0),
        ),
        (
            {"serve": {"placement": "gpu"}},
            dict.fromkeys(["Ingress", "VectorSpace", "Projector", "Reranker"], 0),
        ),
        ("gpu-small", {"Ingress": 1}),
        ("gpu-big", {"Ingress": 0, "VectorSpace": 0.4, "Projector": 0, "Reranker": 0.2}),
        (SHARDS_ON_GPUS, {"Ingress": 0, "Embedder": 0.4, **SHARDS, "Projector": 0, "Reranker": 0}),
    ],
)
def test_deployment_requests_its_own_share_of_a_gpu(
    arguments: Any, expected: dict[str, float]
) -> None:
    if isinstance(arguments, str):
        given = shipped(f"serve.{arguments}.yaml")["applications"][0]["args"]
    else:
        given = {"reranker": {"model": "folder"}, **arguments}

    found = {each.name: (each.ray_actor_options or {})["num_gpus"] for each in built(given)}

    assert found == expected


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


@pytest.mark.parametrize("file", ["docs/operating.md", "deploy/prometheus/alerts.yaml"])
def test_queries_of_a_file_name_existing_metrics(file: str) -> None:
    asked = set(re.findall(r"ray_trivium_\w+", (ROOT / file).read_text()))

    assert asked
    assert asked <= exposed_names()


def exposed_names() -> set[str]:
    """The names on the metrics page: with Ray's prefix, and the parts of histograms."""
    parts = {"counter": [""], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"]}
    return {f"ray_{each.name}{part}" for each in ALL_METRICS for part in parts[each.kind]}


@pytest.mark.parametrize("file", ["ray.env", "Containerfile"])
def test_shipped_environment_has_all_that_ray_needs(file: str) -> None:
    set_there = set(re.findall(r"(RAY_\w+=[^\s\\]+)", (DEPLOY / file).read_text()))

    assert {f"{name}={value}" for name, value in LATENCY_ENVIRONMENT.items()} <= set_there


PROMETHEUS = ROOT / "deploy" / "prometheus"


def alerts() -> list[dict[str, Any]]:
    [group] = yaml.safe_load((PROMETHEUS / "alerts.yaml").read_text())["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_alert_is_explained_in_the_runbook(alert: dict[str, Any]) -> None:
    page, _, section = alert["annotations"]["runbook_url"].partition("#")

    assert section in sections(ROOT / page)
    assert f"`{alert['alert']}`" in (ROOT / page).read_text()


def test_every_alert_is_tested_to_fire() -> None:
    tests = yaml.safe_load((PROMETHEUS / "tests.yaml").read_text())["tests"]
    expected = [each for test in tests for each in test["alert_rule_test"]]

    firing = {each["alertname"] for each in expected if each["exp_alerts"]}
    silent = {each["alertname"] for each in expected if not each["exp_alerts"]}
    assert firing == silent == {alert["alert"] for alert in alerts()}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool, of Prometheus")
def test_alerts_fire_as_their_tests_say() -> None:
    subprocess.run(["promtool", "test", "rules", PROMETHEUS / "tests.yaml"], check=True)


CHART = DEPLOY / "helm" / "trivium"
VALUES = ["values", "values-split", "values-gpu"]
needs_helm = pytest.mark.skipif(shutil.which("helm") is None, reason="needs helm")


def test_image_runs_as_no_root_with_health_command() -> None:
    last = (DEPLOY / "Containerfile").read_text().rpartition("FROM ")[2]

    assert re.search(r"^USER 10001:10001$", last, re.M)
    assert "HEALTHCHECK" in last


@pytest.mark.parametrize(("requirements", "packages"), [("serving", ""), ("gpu", "gcc libc6-dev")])
def test_image_for_gpus_alone_has_a_compiler(requirements: str, packages: str) -> None:
    text = (DEPLOY / "Containerfile").read_text()
    [chosen] = re.findall(r"^RUN (compiler=.*\)) \\$", text, re.M)
    script = f'REQUIREMENTS={requirements}; {chosen}; echo "$compiler"'

    assert subprocess.check_output(["sh", "-c", script], text=True).strip() == packages
    assert re.search(r"apt-get install .* \$\{compiler\} ", text)


@pytest.mark.parametrize(
    ("name", "gpus", "said"),
    [
        ("serve.gpu-small.yaml", 0, "needs a GPU, and torch finds none"),
        ("serve.gpu-small.yaml", 1, "ray start"),
        ("serve.single.yaml", 0, "ray start"),
    ],
)
def test_container_without_a_needed_gpu_ends(
    tmp_path: Path, name: str, gpus: int, said: str
) -> None:
    for program, script in {
        "python": f"exit {0 if gpus else 1}",
        "ray": 'echo "ray $1" >&2',
        "serve": "exit 0",
    }.items():
        (tmp_path / program).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / program).chmod(0o755)
    path = f"{tmp_path}:{os.defpath}"

    done = subprocess.run(
        [DEPLOY / "start", DEPLOY / name], env={"PATH": path}, capture_output=True, text=True
    )

    assert done.returncode == (0 if said == "ray start" else 1)
    assert said in done.stderr


def test_requirements_of_images_are_pinned() -> None:
    files = [DEPLOY / "Containerfile", DEPLOY / "compose.yaml", ROOT / "docs/deploying.md"]
    text = "\n".join(file.read_text() for file in files)

    named = set(re.findall(r"REQUIREMENTS=([\w-]+)", text))

    assert {"gpu", "serving"} <= named
    assert [each for each in named if not (ROOT / f"requirements/{each}.txt").exists()] == []


def test_workers_keep_models_in_a_volume() -> None:
    text = (CHART / "templates/_helpers.tpl").read_text()
    [mounted] = re.findall(r"name: models, mountPath: (\S+)\}", text)

    kept = dict(re.findall(r"name: (HF_HOME|TORCHINDUCTOR_CACHE_DIR), value: (\S+)\}", text))

    assert len(kept) == 2
    assert all(folder.startswith(f"{mounted}/") for folder in kept.values())
    assert "with $.Values.models.claim" in text


def test_compose_file_publishes_ports_on_loopback_alone() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]

    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_variables_of_deployments_are_settings() -> None:
    page = (ROOT / "docs/configuration.md").read_text()
    settings = set(re.findall(r"^\* `(TRIVIUM_\w+)`", page, re.M))
    files = [
        each for each in DEPLOY.rglob("*") if each.is_file() and each.name != "haproxy-tls.cfg"
    ]

    named = {name for each in files for name in re.findall(r"TRIVIUM_\w+", each.read_text())}

    assert named
    assert named <= settings


def test_all_packages_have_one_version() -> None:
    assert release.faults() == []


def rendered(values: str) -> dict[str, Any]:
    command = ["helm", "template", "memory", str(CHART), "-f", str(CHART / f"{values}.yaml")]
    written = subprocess.check_output([*command, "--kube-version", "1.33.0"], text=True)
    return {each["kind"]: each for each in yaml.safe_load_all(written) if each}


@needs_helm
@pytest.mark.parametrize("values", VALUES)
def test_chart_deploys_the_deployments_of_the_code(values: str) -> None:
    config = yaml.safe_load(rendered(values)["RayService"]["spec"]["serveConfigV2"])
    [application] = config["applications"]
    arguments = application["args"]
    application["deployments"] = application["deployments"][:1]

    assert config == serve_config(load_settings(arguments), arguments)


@needs_helm
@pytest.mark.parametrize("values", VALUES)
def test_pods_have_neither_rights_nor_secrets(values: str) -> None:
    cluster = rendered(values)["RayService"]["spec"]["rayClusterConfig"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]

    assert cluster["authOptions"] == {"mode": "token"}
    for group in groups:
        pod = group["template"]["spec"]
        [container] = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert not pod["automountServiceAccountToken"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        variables = {each["name"]: each for each in container["env"]}
        for name in ("TRIVIUM_POSTGRES__DSN", "TRIVIUM_NEO4J__PASSWORD"):
            assert set(variables[name]["valueFrom"]) == {"secretKeyRef"}


@needs_helm
def test_ports_of_ray_are_for_its_pods() -> None:
    policy = rendered("values")["NetworkPolicy"]["spec"]

    open_to = [rule for rule in policy["ingress"] if "ports" not in rule]
    assert [rule["from"] for rule in open_to] == [[{"podSelector": policy["podSelector"]}]]
    ports = {port["port"] for rule in policy["ingress"] for port in rule.get("ports", [])}
    assert ports == {"grpc", "serve", "metrics", "dashboard"}

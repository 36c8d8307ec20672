"""The image, the compose file and the Helm chart agree with the code."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from serving.config.settings import load_settings
from serving.deployments.app import serve_config
from serving.desk.ray_environment import LATENCY_ENVIRONMENT
from tests.support import release_check

DEPLOY = Path(__file__).parents[3] / "deploy"
CHART = DEPLOY / "helm" / "trivium"
VALUES = ["values", "values-split", "values-gpu"]
needs_helm = pytest.mark.skipif(shutil.which("helm") is None, reason="needs helm")


def test_image_has_the_environment_that_ray_needs() -> None:
    containerfile = (DEPLOY / "Containerfile").read_text()

    set_there = set(re.findall(r"(RAY_\w+=[^\s\\]+)", containerfile))
    assert {f"{name}={value}" for name, value in LATENCY_ENVIRONMENT.items()} <= set_there


def test_image_runs_as_no_root_with_health_command() -> None:
    last = (DEPLOY / "Containerfile").read_text().rpartition("FROM ")[2]

    assert re.search(r"^USER 10001:10001$", last, re.M)
    assert "HEALTHCHECK" in last


def test_compose_file_publishes_ports_on_loopback_alone() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]

    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_variables_of_deployments_are_settings() -> None:
    page = (DEPLOY.parent / "docs" / "configuration.md").read_text()
    settings = set(re.findall(r"^\* `(TRIVIUM_\w+)`", page, re.M))
    files = [
        each for each in DEPLOY.rglob("*") if each.is_file() and each.name != "haproxy-tls.cfg"
    ]

    named = {name for each in files for name in re.findall(r"TRIVIUM_\w+", each.read_text())}

    assert named
    assert named <= settings


def test_all_that_is_released_has_one_version() -> None:
    assert {version for _, version in release_check.versions(release_check.ROOT)} == {
        dict(release_check.versions(release_check.ROOT))["pyproject.toml"]
    }


def rendered(values: str) -> dict[str, Any]:
    """The resources of the chart, by kind."""
    command = ["helm", "template", "memory", str(CHART), "-f", str(CHART / f"{values}.yaml")]
    written = subprocess.check_output([*command, "--kube-version", "1.33.0"], text=True)
    return {each["kind"]: each for each in yaml.safe_load_all(written) if each}


@needs_helm
@pytest.mark.parametrize("values", VALUES)
def test_chart_deploys_what_the_code_would_deploy(values: str) -> None:
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

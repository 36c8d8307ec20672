"""The alerts query metrics that exist, and each has its section in the runbook."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.repository.test_deploy import exposed_names
from tests.unit.repository.test_pages import sections

ROOT = Path(__file__).parents[3]
PROMETHEUS = ROOT / "deploy" / "prometheus"


def alerts() -> list[dict[str, Any]]:
    [group] = yaml.safe_load((PROMETHEUS / "alerts.yaml").read_text())["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def test_alerts_query_existing_metrics() -> None:
    asked = {name for rule in alerts() for name in re.findall(r"ray_trivium_\w+", rule["expr"])}

    assert asked
    assert asked <= exposed_names()


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

"""What an operator sees and does, in both placements."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.fix_service import Service
from tests.processes import listeners, tree_of
from tests.waiting import until
from trivium import Segment

pytestmark = [pytest.mark.postgres, pytest.mark.neo4j, pytest.mark.ray, pytest.mark.model]

README = (Path(__file__).parents[2] / "README.md").read_text()
LOOPBACK = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def test_everything_listens_on_loopback_as_the_readme_says(service: Service) -> None:
    listening = [
        listener for process in tree_of(service.process.pid) for listener in listeners(process)
    ]

    assert listening
    assert not [(name, address) for name, address in listening if address.ip not in LOOPBACK]
    assert "Everything that the desk starts listens on 127.0.0.1 alone" in README


def test_ctrl_c_reaches_the_command_alone_which_stops_the_others_in_order(
    service: Service,
) -> None:
    own = os.getpgid(service.process.pid)

    reached = [each.name() for each in service.descendants() if os.getpgid(each.pid) == own]

    assert service.descendants("raylet")
    assert reached == []


def test_the_metrics_port_shows_ours(service: Service) -> None:
    service.client(tenant="metrics").retrieve("Anything?")

    until_shown(service.metrics, "ray_trivium_leg_latency_ms_count")
    shown = until_shown(service.metrics, "ray_trivium_projection_lag_seconds")

    assert 'leg="lexical"' in shown
    assert "ray_trivium_rpc_latency_ms" in shown
    assert "ray_trivium_index_vectors" in shown
    assert 'projection="embedding"' in shown
    assert 'projection="graph"' in shown


def until_shown(url: str, wanted: str) -> str:
    """Ray collects measurements every second: reads until the wanted one is there."""
    until(lambda: wanted in page(url))
    return page(url)


def page(url: str) -> str:
    with urlopen(url, timeout=10) as response:
        return str(response.read().decode())


def test_weights_change_live_without_a_restart(service: Service) -> None:
    memory = service.client(tenant=f"live-{uuid.uuid4().hex[:8]}")
    token = memory.ingest([Segment(id="a", text="The lighthouse is lit again.")]).token

    def weight() -> float:
        hit = memory.retrieve("lighthouse", token=token, explain=True).hits[0]
        assert hit.ledger is not None
        return next(term.weight for term in hit.ledger.leg_terms if term.leg == "lexical")

    started = memory.stats().service.started_at
    deploy(service, {"profiles": {"default": {"legs": {"lexical": {"weight": 1.1}}}}})
    until(lambda: weight() == 1.1)
    deploy(service, {"profiles": {}})
    until(lambda: weight() == 1.0)

    assert memory.stats().service.started_at == started


def test_a_bad_profile_is_refused_and_the_ones_before_go_on(service: Service) -> None:
    memory = service.client(tenant=f"live-{uuid.uuid4().hex[:8]}")

    def refused() -> str:
        return " ".join(memory.stats().service.degraded)

    started = memory.stats().service.started_at
    deploy(service, {"profiles": {"default": {"rank_constant": 0}}})
    until(lambda: "profile 'default': rank_constant" in refused())
    definition = next(each for each in memory.profiles() if each.name == "default").definition
    deploy(service, {"profiles": {}})
    until(lambda: not refused())

    assert definition["rank_constant"] == 60
    assert memory.stats().service.started_at == started


def deploy(service: Service, user_config: dict[str, Any]) -> None:
    """Does what `serve deploy` does: puts the whole configuration, with this part changed."""
    serving = api(service, "GET")
    application = serving["applications"]["trivium"]["deployed_app_config"]
    for deployment in application["deployments"]:
        if deployment["name"] == "Fusion":
            deployment["user_config"] = user_config
    api(
        service,
        "PUT",
        {
            "proxy_location": serving["proxy_location"],
            "http_options": {key: serving["http_options"][key] for key in ("host", "port")},
            "grpc_options": {
                key: serving["grpc_options"][key] for key in ("port", "grpc_servicer_functions")
            },
            "applications": [application],
        },
    )


def api(service: Service, method: str, body: dict[str, Any] | None = None) -> Any:
    """Calls Ray's REST API as its dashboard does."""
    request = Request(
        f"{service.dashboard}/api/serve/applications/",
        method=method,
        data=json.dumps(body).encode() if body else None,
        headers={"Authorization": f"Bearer {service.token}", "Content-Type": "application/json"},
    )
    with urlopen(request, timeout=30) as response:
        said = response.read()
    return json.loads(said) if said else None

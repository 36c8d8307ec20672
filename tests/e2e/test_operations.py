"""What an operator sees and does."""

from __future__ import annotations

import json
import os
import re
import uuid
from typing import Any
from urllib.request import Request, urlopen

import pytest

from serving.config.settings import ServeSettings
from tests.fixtures.service import PASSWORD, Service
from tests.support.listing import listed
from tests.support.processes import listeners, tree_of
from tests.support.waiting import until
from trivium import Client, Fact, Segment
from trivium.errors import InvalidRequestError

LOOPBACK = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


@pytest.mark.placement
def test_listening_ports_equal_those_of_the_page(service: Service) -> None:
    chosen = chosen_ports(service)

    def all_listen() -> bool:
        found = [(command, address.port) for command, address in listening(service)]
        needed = (each for each in listed() if each.needed)
        return all(any(each.admits(*one, chosen) for one in found) for each in needed)

    # Ray's dashboard listens some time after the service answers.
    until(all_listen)

    found = listening(service)
    assert not [(command, address) for command, address in found if address.ip not in LOOPBACK]
    assert not [
        (command, address.port)
        for command, address in found
        if not any(each.admits(command, address.port, chosen) for each in listed())
    ], "listens and is not listed"


def listening(service: Service) -> list[tuple[tuple[str, ...], Any]]:
    """The commands of the service's processes, each with an address at which it listens."""
    return [each for process in tree_of(service.process.pid) for each in listeners(process)]


def chosen_ports(service: Service) -> dict[int, int]:
    """The ports of this service, by the defaults that docs/operating.md lists."""
    usual = ServeSettings()
    return {
        usual.grpc_port: port_of(service.address),
        usual.http_port: api(service, "GET")["http_options"]["port"],
        usual.dashboard_port: port_of(service.dashboard),
        usual.metrics_port: port_of(service.metrics),
    }


def port_of(address: str) -> int:
    return int(re.findall(r":(\d+)", address)[-1])


@pytest.mark.placement
def test_logs_hold_no_text_and_no_credentials(service: Service) -> None:
    secret = f"zanzibar{uuid.uuid4().hex}"
    key = uuid.uuid4().hex
    request_id = uuid.uuid4().hex
    metadata = [("request_id", request_id), ("authorization", f"Bearer trv_{key[:16]}_{key}")]
    with Client(service.address, tenant="silent", timeout=30, metadata=metadata) as memory:
        token = memory.ingest(
            [
                Segment(id="s", text=f"We met at {secret}.", title=secret, speaker="Nora"),
                Segment(id="malformed", text=f"{secret}\0"),
                Fact(id="f", subject="Nora", relation="fears", object=secret, evidence=["s"]),
            ]
        ).consistency_token
        found = memory.retrieve(f"Who went to {secret}?", consistency_token=token)
        with pytest.raises(InvalidRequestError):
            memory.retrieve(f"{secret}\0", profile=secret)
    logs = [*service.log_dir.rglob("*"), *service.data_dir.glob("*/*.log")]
    ours = [path for path in logs if path.match("serve/replica_*.log")]

    def calls() -> list[tuple[str, str]]:
        lines = [json.loads(line) for path in ours for line in path.read_text().splitlines()]
        mine = [line for line in lines if line.get("request_id") == request_id]
        return [(line["method"], line["code"]) for line in mine if line["message"] == "call"]

    assert [hit.id for hit in found.hits] == ["s"]
    until(lambda: len(calls()) == 3)
    assert calls() == [("Ingest", "OK"), ("Retrieve", "OK"), ("Retrieve", "INVALID_ARGUMENT")]
    hidden = [each.encode() for each in (secret, key, service.token, PASSWORD)]
    written = [path for path in logs if path.is_file()]
    assert [path for path in written if any(each in path.read_bytes() for each in hidden)] == []


def test_ctrl_c_reaches_the_command_alone(service: Service) -> None:
    own = os.getpgid(service.process.pid)

    reached = [each.name() for each in service.descendants() if os.getpgid(each.pid) == own]

    assert service.descendants("raylet")
    assert reached == []


@pytest.mark.placement
def test_the_metrics_port_shows_ours(service: Service) -> None:
    service.client(tenant="metrics").retrieve("Anything?")

    until_shown(
        service.metrics,
        r'ray_trivium_leg_latency_ms_count{.*leg="lexical"',
        r'ray_trivium_projection_lag_seconds{.*projection="embedding"',
        r'ray_trivium_projection_lag_seconds{.*projection="graph"',
        r'ray_trivium_embedding_batch_size_bucket{.*le="1.0".*queue="query"',
        "ray_trivium_index_lag_seconds",
        "ray_trivium_index_vectors",
        "ray_trivium_rpc_latency_ms",
    )


def until_shown(url: str, *wanted: str) -> None:
    """Ray collects measurements every second: reads until every pattern is found."""

    def all_shown() -> bool:
        with urlopen(url, timeout=10) as response:
            shown = str(response.read().decode())
        return all(re.search(pattern, shown) for pattern in wanted)

    until(all_shown)


@pytest.mark.placement
def test_weights_change_live_without_a_restart(service: Service) -> None:
    memory = service.client(tenant=f"live-{uuid.uuid4().hex[:8]}")
    token = memory.ingest([Segment(id="a", text="The lighthouse is lit again.")]).consistency_token

    def weight() -> float:
        hit = memory.retrieve("lighthouse", consistency_token=token, explain=True).hits[0]
        assert hit.ledger is not None
        return next(term.weight for term in hit.ledger.leg_terms if term.leg == "lexical")

    started = memory.stats().service.started_at
    shipped = weight()
    deploy(service, {"profiles": {"default": {"legs": {"lexical": {"weight": 1.05}}}}})
    until(lambda: weight() == 1.05)
    deploy(service, {"profiles": {}})
    until(lambda: weight() == shipped)

    assert memory.stats().service.started_at == started


def test_bad_profile_is_rejected_and_previous_ones_stay(service: Service) -> None:
    memory = service.client(tenant=f"live-{uuid.uuid4().hex[:8]}")

    def refused() -> str:
        return " ".join(memory.stats().service.degraded)

    started = memory.stats().service.started_at
    deploy(service, {"profiles": {"default": {"rank_constant": 0}}})
    until(lambda: "profile 'default': rank_constant" in refused())
    definition = next(each for each in memory.list_profiles() if each.name == "default").definition
    deploy(service, {"profiles": {}})
    until(lambda: not refused())

    assert definition["rank_constant"] > 0
    assert memory.stats().service.started_at == started


def deploy(service: Service, user_config: dict[str, Any]) -> None:
    """Does what `serve deploy` does: puts the whole configuration, with this part changed."""
    serving = api(service, "GET")
    application = serving["applications"]["trivium"]["deployed_app_config"]
    for deployment in application["deployments"]:
        if deployment["name"] == "Ingress":
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

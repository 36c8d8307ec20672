"""What an operator does with the wheels, `deploy/` and a Ray cluster."""

from __future__ import annotations

import socket
import ssl
import subprocess
import uuid
import zipfile
from pathlib import Path
from typing import Any

import grpc
import pytest

from serving.config.profiles import ProfileBook
from serving.desk.ray_environment import LOOPBACK as LOCAL
from tests.e2e.test_operations import until_shown
from tests.e2e.test_reranking import when_loaded
from tests.fixtures.cluster import (
    DEPLOY,
    PROJECT,
    Cluster,
    Encryption,
    Wheels,
    in_environment,
    inherited,
)
from tests.support.answers import states
from tests.support.haproxy import tls_proxy
from tests.support.processes import listeners, tree_of
from tests.support.waiting import first
from trivium import Client, Fact, Retrieval, Segment, Stage
from trivium.errors import UnavailableError, to_error
from trivium.values import LegState

LOOPBACK = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
SLOW_WAY_IN = "calls go through Ray's own proxy"
QUESTION = "Who hired Tom?"


def packed(wheel: Path) -> set[str]:
    """The files of a wheel that are none of its metadata."""
    names = zipfile.ZipFile(wheel).namelist()
    return {name for name in names if ".dist-info/" not in name}


def below(parent: Path, package: str) -> set[str]:
    return {
        str(path.relative_to(parent))
        for path in (parent / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_wheels_hold_every_file_of_their_package_alone(wheels: Wheels) -> None:
    client, server = packed(wheels.client), packed(wheels.server)

    assert client == below(PROJECT / "clients/python", "trivium")
    assert server == below(PROJECT, "serving")
    assert {".jsonl", ".py", ".sql", ".yaml"} <= {Path(name).suffix for name in server}


def test_node_imports_the_installed_wheels(wheel_python: Path, tmp_path: Path) -> None:
    code = "import serving, trivium; print(serving.__file__); print(trivium.__file__)"

    said = subprocess.check_output(
        [wheel_python, "-c", code], cwd=tmp_path, env=inherited(), text=True
    )

    installed = wheel_python.parents[1]
    assert all(Path(line).is_relative_to(installed) for line in said.splitlines()), said


def test_uncommented_environment_reaches_a_node_whole(tmp_path: Path) -> None:
    copy = tmp_path / "ray.env"
    copy.write_text((DEPLOY / "ray.env").read_text().replace("#TRIVIUM_", "TRIVIUM_"))

    command = [*in_environment(copy), "printenv", "TRIVIUM_POSTGRES__DSN"]
    said = subprocess.check_output(command, env=inherited(), text=True)

    names = [part.partition("=")[0] for part in said.split()]
    assert names == ["host", "user", "password", "dbname", "sslmode", "sslrootcert"]


def started(how: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("cluster", [how], indirect=True, scope="session")


@pytest.mark.release
@started("with ray.env")
@pytest.mark.timeout(300)
def test_the_single_placement_serves_through_haproxy(cluster: Cluster) -> None:
    cluster.deploy("single")

    with new_client(cluster) as memory:
        answer = store_and_ask(memory)
        serving = memory.stats().service

    assert all_legs_answered(answer)
    assert (serving.placement, serving.ingress) == ("single", "haproxy")
    assert not [line for line in cluster.log_of("Ingress") if line.startswith(SLOW_WAY_IN)]
    assert cluster.listening() <= LOOPBACK, "a machine that others use is not to be opened to them"


@pytest.mark.release
@started("with ray.env")
@pytest.mark.timeout(300)
def test_the_split_placement_takes_its_place_and_its_memory(cluster: Cluster) -> None:
    cluster.deploy("single")
    with new_client(cluster) as memory:
        store_and_ask(memory)

        cluster.deploy("split")

        answer = whole(memory)
        serving = memory.stats().service
    assert all_legs_answered(answer)
    assert (serving.placement, serving.ingress) == ("split", "haproxy")
    parts = {"Ingress", "Embedder", "VectorIndex", "Projector"}
    assert set(cluster.application()["deployments"]) == parts


@pytest.mark.release
@started("without")
@pytest.mark.timeout(300)
def test_service_without_environment_uses_rays_proxy(cluster: Cluster) -> None:
    cluster.deploy("single")

    with new_client(cluster) as memory:
        answer = store_and_ask(memory)
        serving = memory.stats().service
    with grpc.insecure_channel(f"{LOCAL}:{cluster.grpc_port}") as channel:
        ingest: Any = channel.unary_unary("/trivium.v1.IngestService/Ingest")
        with pytest.raises(grpc.RpcError) as refused:
            ingest(b"\x0a\x01\xff", timeout=30)  # field 1, a string that is not UTF-8

    assert all_legs_answered(answer)
    assert serving.ingress == "ray_proxy"
    # Ray's proxy reads the request in a process of its own, and hands over what it made of it.
    assert to_error(refused.value).reason == "INVALID_FIELD"
    assert [line for line in cluster.log_of("Ingress") if line.startswith(SLOW_WAY_IN)]


@pytest.mark.release
@started("without")
@pytest.mark.timeout(300)
def test_missing_reranker_is_reported_and_counted(cluster: Cluster, tmp_path: Path) -> None:
    cluster.deploy("single", reranker={"model": str(tmp_path / "gone")})

    with new_client(cluster) as memory:
        usual = store_and_ask(memory)
        answer = when_loaded(lambda: memory.retrieve(QUESTION, profile="two_stage"))

    assert usual.hits[0].id == "hired"
    assert answer.rerank is not None
    assert answer.rerank.reason.startswith("reranker: the model is no folder")
    assert {hit.id: hit.stage for hit in answer.hits} == {
        "hired": Stage.COARSE_FALLBACK,
        "heat": Stage.COARSE_FALLBACK,
    }
    until_shown(cluster.metrics, 'stage="coarse_fallback"')


@pytest.mark.release
@started("with ray.env")
@pytest.mark.timeout(300)
def test_behind_a_proxy_that_does_tls_calls_are_answered(
    cluster: Cluster, encryption: Encryption
) -> None:
    cluster.deploy("single")

    with (
        tls_proxy(encryption.pem_file, f"{LOCAL}:{cluster.grpc_port}") as address,
        Client(address, tenant="behind", tls=encryption.tls(), timeout=30) as memory,
        Client(address, tenant="behind", timeout=10) as in_clear_text,
    ):
        assert all_legs_answered(store_and_ask(memory))
        with pytest.raises(UnavailableError):
            in_clear_text.retrieve(QUESTION)


@pytest.mark.release
@started("with TLS between nodes")
@pytest.mark.timeout(300)
def test_the_parts_of_the_service_speak_tls_with_each_other(
    cluster: Cluster, encryption: Encryption
) -> None:
    cluster.deploy("split")

    with new_client(cluster) as memory:
        assert all_legs_answered(store_and_ask(memory))
    for name in ("ray::ServeReplica:trivium:Embedder", "ray::ServeReplica:trivium:VectorIndex"):
        ports = {
            address.port
            for process in tree_of(cluster.process.pid)
            for (command, *_), address in listeners(process)
            if command.startswith(name)
        }
        assert any(speaks_tls(port, encryption.of_a_node) for port in ports), (name, ports)


def speaks_tls(port: int, context: ssl.SSLContext) -> bool:
    """Whether gRPC over TLS, with a certificate of the nodes' authority, is spoken at a port."""
    try:
        with (
            socket.create_connection((LOCAL, port), timeout=10) as plain,
            context.wrap_socket(plain, server_hostname=LOCAL) as encrypted,
        ):
            return encrypted.selected_alpn_protocol() == "h2"
    except OSError:
        return False


def new_client(cluster: Cluster) -> Client:
    return cluster.client(tenant=f"t-{uuid.uuid4().hex[:12]}")


def store_and_ask(memory: Client) -> Retrieval:
    """Stores two sentences and a fact, and asks about them.

    The first questions of a new replica can be late on a busy machine: asks until none is.
    """
    hired = Segment(id="hired", speaker="Tom", text="Lotus Books hired me, I start on Monday.")
    heat = Segment(id="heat", speaker="Tom", text="The dog sleeps all day since the heat came.")
    works = Fact(
        id="works", subject="Tom", relation="works at", object="Lotus Books", evidence=("hired",)
    )
    token = memory.ingest([hired, heat, works]).consistency_token
    return whole(memory, token)


def whole(memory: Client, token: str = "") -> Retrieval:
    """The first answer of all legs; fails if none comes."""
    return first(lambda: memory.retrieve(QUESTION, consistency_token=token), all_legs_answered)


def all_legs_answered(answer: Retrieval) -> bool:
    legs = [leg.name for leg in ProfileBook.load()["default"].legs]
    return answer.hits[0].id == "hired" and states(answer) == dict.fromkeys(legs, LegState.OK)

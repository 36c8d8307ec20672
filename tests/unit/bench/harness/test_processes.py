from __future__ import annotations

import pytest

from bench.harness.processes import CpuReading, Memory, cpu_by_role, role_of, spent


@pytest.mark.parametrize(
    ("name", "command", "role"),
    [
        ("postgres", ["/opt/bin/postgres", "-D", "/data"], "postgres"),
        ("postgres", ["postgres: walwriter "], "postgres"),
        ("python", ["python", "-P", "/app/embedded_neo4j/server.py", "/data"], "neo4j"),
        ("haproxy", ["/opt/haproxy", "-f", "haproxy.cfg"], "haproxy"),
        ("ray::ServeRepli", ["ray::ServeReplica:trivium:Fusion"], "replica Fusion"),
        ("ray::ServeRepli", ["ray::ServeReplica:trivium:Embedder.call()"], "replica Embedder"),
        ("python", ["python", "-m", "serving", "serve"], "desk"),
        ("ray::ServeContr", ["ray::ServeController"], "ray"),
        ("ray::HAProxyMan", ["ray::HAProxyManager"], "ray"),
        ("raylet", ["/opt/raylet", "--store_socket_name=x"], "ray"),
        ("kworker", [], "ray"),
    ],
)
def test_the_role_of_a_process_shows_in_its_command(
    name: str, command: list[str], role: str
) -> None:
    assert role_of(name, command) == role


def test_cpu_is_summed_by_role_with_that_of_ended_children() -> None:
    readings = [
        CpuReading("postgres", 1.0, 0.5),
        CpuReading("postgres", 0.25, 0.0),
        CpuReading("neo4j", 2.0, 0.0),
    ]

    assert cpu_by_role(readings) == {"postgres": 1.75, "neo4j": 2.0}


def test_a_child_that_ends_between_the_readings_is_counted_once() -> None:
    # The backend used 3 s before and 1 s more before it ended under the postmaster.
    before = cpu_by_role([CpuReading("postgres", 1.0, 0.0), CpuReading("postgres", 3.0, 0.0)])
    after = cpu_by_role([CpuReading("postgres", 1.0, 4.0)])

    assert spent(before, after) == {"postgres": 1.0}


def test_a_process_that_starts_between_the_readings_counts_whole() -> None:
    assert spent({}, {"haproxy": 0.5}) == {"haproxy": 0.5}


def test_a_role_never_spends_less_than_nothing() -> None:
    assert spent({"haproxy": 2.0}, {"haproxy": 1.5}) == {"haproxy": 0.0}


def test_memory_adds_up_and_pss_only_if_all_of_it_is_known() -> None:
    assert Memory(2, 1) + Memory(3, 2) == Memory(5, 3)
    assert Memory(2, 1) + Memory(3, None) == Memory(5, None)

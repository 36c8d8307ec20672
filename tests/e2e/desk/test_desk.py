"""What a user of the desk sees and what stays: the demonstration, failed starts, Ctrl-C, doctor."""

from __future__ import annotations

import json
import signal
import socket
from pathlib import Path

import pytest

from serving.desk import demo
from tests.fixtures.desk import PROJECT, RunCommand
from tests.fixtures.service import Service

pytestmark = pytest.mark.timeout(300)

ONE_SCREEN = 24
SAMPLE = PROJECT / "serving/desk/sample"
ASKED_TO_END = 130
PATIENCE_OF_RAYLET_S = 15
"""After which a raylet ends whose agents have not written their ports."""


def test_the_demonstration_answers_its_questions(
    service: Service, capfd: pytest.CaptureFixture[str]
) -> None:
    demo.play(service.address, SAMPLE)

    assert_all_answered(capfd.readouterr().out)


@pytest.mark.release
def test_the_demonstration_ends_and_leaves_nothing(run_command: RunCommand) -> None:
    ended = run_command("demo", "--once")

    assert ended.code == 0, ended.said
    assert_all_answered(ended.said)
    assert "Traceback" not in ended.said
    assert ended.leaves_nothing, ended


def assert_all_answered(said: str) -> None:
    lines = (SAMPLE / "questions.jsonl").read_text().splitlines()
    assert all(json.loads(line)["text"] in said for line in lines)
    assert f"{len(lines)} of {len(lines)}" in said


def test_a_port_in_use_is_named_before_anything_starts(
    run_command: RunCommand, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])

        failed = run_command(
            "serve", TRIVIUM_SERVE__GRPC_PORT=port, TRIVIUM_CACHE_DIR=str(tmp_path / "cache")
        )

    assert failed.code == 1
    assert f"port {port} is in use" in failed.said
    assert "TRIVIUM_SERVE__GRPC_PORT" in failed.said
    assert "starting" not in failed.said
    assert is_short(failed.said)
    assert failed.leaves_nothing, failed


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("starting Ray, PostgreSQL and Neo4j", signal.SIGTERM),
        pytest.param("deploying the service", signal.SIGINT, marks=pytest.mark.release),
    ],
)
def test_interrupted_start_stops_and_leaves_nothing(
    run_command: RunCommand, line: str, number: signal.Signals
) -> None:
    interrupted = run_command("serve", signal_at=[(line, number), ("stopping", signal.SIGINT)])

    assert interrupted.code == ASKED_TO_END, interrupted.said
    assert interrupted.said.count("stopping") == 1
    assert interrupted.said.endswith("trivium: stopped\n")
    assert is_short(interrupted.said)
    assert interrupted.leaves_nothing, interrupted


LATE_AGENT = """
import sys, time

if any(argument.endswith("dashboard/agent.py") for argument in sys.orig_argv):
    time.sleep({seconds})
"""


def late_agents(folder: Path, seconds: float) -> str:
    """A folder for PYTHONPATH, with which an agent of Ray starts later."""
    (folder / "sitecustomize.py").write_text(LATE_AGENT.format(seconds=seconds))
    return str(folder)


@pytest.mark.release
def test_raylet_waits_for_its_late_agent(run_command: RunCommand, tmp_path: Path) -> None:
    path = late_agents(tmp_path, seconds=2 * PATIENCE_OF_RAYLET_S)

    started = run_command(
        "serve", signal_at=[("deploying the service", signal.SIGINT)], PYTHONPATH=path
    )

    assert started.code == ASKED_TO_END, started.said
    assert started.leaves_nothing, started


@pytest.mark.release
def test_signal_ends_the_wait_for_raylet(run_command: RunCommand, tmp_path: Path) -> None:
    path = late_agents(tmp_path, seconds=600)

    started = run_command("serve", signal_at=[("starting Neo4j", signal.SIGINT)], PYTHONPATH=path)

    assert started.code == ASKED_TO_END, started.said
    assert started.leaves_nothing, started


def test_doctor_lists_every_part(run_command: RunCommand) -> None:
    doctor = run_command("doctor")

    assert doctor.code == 0, doctor.said
    parts = [line.split()[1] for line in doctor.said.splitlines()]
    assert {"python", "postgres", "neo4j", "grpc_port", "gpu", "model"} <= set(parts)
    assert "FAIL" not in doctor.said
    assert doctor.leaves_nothing, doctor


def is_short(said: str) -> bool:
    return "Traceback" not in said and len(said.splitlines()) <= ONE_SCREEN

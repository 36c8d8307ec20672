"""Fixtures live in one plugin per concern, `fixtures/`; this adds `--all` and `--require`.

There are two tiers. `make test` leaves out the tests marked `release`, runs those of the service in
the placement `single`, and tries few examples of each property. `--all`, with which `make test-all`
runs, leaves nothing out.

No test is timed, those of properties included: machines are shared.

A test whose service cannot be had skips at a desk. In CI, `--require postgres,ray` turns
such a skip into a failure, so that skips cannot pass for success.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

# Tests start programs while clients run. The handlers that gRPC runs at a fork can then crash the
# child before it becomes the program.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"  # noqa: TID251 - gRPC reads it when it is imported

# A Neo4j of the tests lives for minutes, in which the optimizing compiler costs more than it saves:
# a third of the CPU time of a start.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")  # noqa: TID251 - for the JVM

# The same examples in every run: a tree passes or fails wherever it is tested.
# `--hypothesis-profile random` looks for others.
FEW_EXAMPLES = 25
settings.register_profile("random", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("all", settings.get_profile("random"), derandomize=True)
settings.register_profile("few", settings.get_profile("all"), max_examples=FEW_EXAMPLES)
settings.register_profile(
    "mutants", settings.get_profile("all"), phases=[Phase.explicit, Phase.generate]
)

pytest_plugins = sorted(
    f"tests.fixtures.{path.stem}"
    for path in (Path(__file__).parent / "fixtures").glob("*.py")
    if path.stem != "__init__"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cancellations",
        type=int,
        default=200,
        help="How many callers give up at random (tests/integration/faults).",
    )
    parser.addoption(
        "--requests",
        type=int,
        default=600,
        help="How many requests must not leave memory behind (tests/integration/faults).",
    )
    parser.addoption(
        "--require", default="", help="markers, by comma, whose tests must not be skipped"
    )
    parser.addoption(
        "--all",
        action="store_true",
        help="nothing is left out: tests marked `release`, all placements, all examples",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Chooses how many examples of a property are tried, unless the command line does."""
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile("all" if config.getoption("--all") else "few")


CLUSTERS = "clusters"
POSTGRES = "postgres"
STORES = "stores"


@cache
def _store_of(file: Path) -> str:
    """The group of a file by the stores that it names, as its markers do."""
    text = file.read_text()
    return STORES if "neo4j" in text else POSTGRES if "postgres" in text else str(file)


class _OneProcessForEachService(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """Starts few services in more than one process.

    One process runs the end-to-end tests, which start Ray, another one the files that name Neo4j,
    and another one those that name PostgreSQL alone; these three groups take longest and are given
    out first. The other files go to whichever process is free.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if file.startswith("tests/e2e/"):
            return CLUSTERS
        if file.startswith("tests/unit/"):
            return file
        return _store_of(self.config.rootpath / file)

    def _assign_work_unit(self, node: WorkerController) -> None:
        for scope in (POSTGRES, STORES, CLUSTERS):
            if scope in self.workqueue:
                self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """With `-n`, which `make test` runs with; called by pytest-xdist."""
    return _OneProcessForEachService(config, log)


def pytest_unconfigure() -> None:
    """Lets Python's collector see what indexes had it leave out (`gc.freeze`).

    At the end of the process triton would else take its objects for leaked, and say so at length.
    """
    gc.unfreeze()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the tests of a release, and runs those of the Ray cluster last.

    The cluster stays up once it is started. It would hold the ports of Ray's own metrics, so that
    a desk on the same machine listens on fewer ports than docs/operating.md lists.
    """
    if not config.getoption("--all"):
        left_out = [item for item in items if item.get_closest_marker("release")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("release")]
    items.sort(key=lambda item: "cluster" in getattr(item, "fixturenames", ()))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    required = set(item.config.getoption("--require").split(","))
    markers = {marker.name for marker in item.iter_markers()}
    if report.skipped and required & markers:
        report.outcome = "failed"
        report.longrepr = f"skipped, but required: {report.longreprtext}"
    return report

"""Fixtures live in one plugin per concern, `fix_*.py`; this adds `--require`.

No test is timed, those of properties included: machines are shared.

A test whose service cannot be had skips at a desk. In CI, `--require postgres,ray` turns
such a skip into a failure, so that skips cannot pass for success.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

pytest_plugins = sorted(f"tests.{path.stem}" for path in Path(__file__).parent.glob("fix_*.py"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--require", default="", help="markers, by comma, whose tests must not be skipped"
    )
    parser.addoption(
        "--placements",
        default="fused,split",
        help="where the suite of the whole service runs, by comma; each is a start of its own",
    )
    parser.addoption(
        "--index-matrix", action="store_true", help="all forms of the index, not one a placement"
    )


class _ServicesInOneProcess(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """Has one process run all tests that start a service, and the others all else beside it.

    In two processes each would start services of its own, which take far longer than the tests.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if file.startswith("tests/integration/models/"):
            return file
        in_service = file.startswith(("tests/integration/", "tests/e2e/"))
        return "services" if in_service or "neo4j" in nodeid or "postgres" in nodeid else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """With `-n`, which `make test` runs with; called by pytest-xdist."""
    return _ServicesInOneProcess(config, log)


def pytest_unconfigure() -> None:
    """Lets Python's collector see what indexes had it leave out (`gc.freeze`).

    At the end of the process triton would else take its objects for leaked, and say so at length.
    """
    gc.unfreeze()


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

"""The README is short, and its figures and claims are those of the baselines."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.docs import hung_neo4j, pages
from bench.peers.tables import claims
from bench.reports.baselines import baseline
from tests.support.tracked_files import ROOT

README = ROOT / "README.md"
MAX_BYTES = 7_000


def test_readme_is_short() -> None:
    assert README.stat().st_size <= MAX_BYTES


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_page_states_figures_of_the_baselines(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == pages()[page], "outdated: run `make docs`"


def test_claims_of_the_readme_hold() -> None:
    found = claims(baseline("peers"))

    assert float(found["recall"]) > float(found["next"])
    assert hung_neo4j(baseline("speed/faults")).startswith("all ")

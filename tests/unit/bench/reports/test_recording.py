"""What stays of a run, whole or cut short."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click
import pytest

from bench.harness.results import Result, read_records
from bench.harness.sample import multiplied_sample
from bench.harness.service import ServiceStartError
from bench.reports.recording import recorded

RESULT = Result(scenario="any", n=1)


def run_that_fails(out: Path, error: BaseException) -> None:
    with recorded(
        "kind",
        multiplied_sample(1),
        out,
        lambda records: f"{len(records)} record",
        lambda _, path: path.touch(),
    ) as take:
        take(RESULT)
        raise error


@pytest.mark.parametrize(
    ("error", "becomes"),
    [
        (ServiceStartError("no start"), click.ClickException),
        (asyncio.CancelledError(), click.Abort),
    ],
)
def test_what_was_measured_is_kept_and_told_when_a_run_fails(
    tmp_path: Path, error: BaseException, becomes: type[Exception]
) -> None:
    with pytest.raises(becomes):
        run_that_fails(tmp_path, error)

    [folder] = tmp_path.glob("kind-*")
    assert [each["scenario"] for each in read_records(folder)] == ["any"]
    assert (folder / "summary.md").read_text() == "1 record"
    assert (folder / "overview.png").exists()

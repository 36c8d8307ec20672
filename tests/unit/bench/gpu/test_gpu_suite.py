"""All benchmarks of a GPU: what is run, in how much time, and what is said without a GPU."""

from __future__ import annotations

import importlib
import signal
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from bench.gpu.suite import STEPS, STOPPED, Step, Suite, ended_in_time, main
from serving.desk.doctor.gpu_facts import GpuFacts
from tests.support.gpu_tests import plan

SLEEPS = "import time; print('up', flush=True); time.sleep(600)"


def step(name: str, code: str, *, minutes: float = 1, gpu_gib: float = 1) -> Step:
    """A step that runs Python code in the place of a module."""

    class Coded(Step):
        def arguments(self, folder: Path, *, dry_run: bool) -> list[str]:
            return ["-c", code, str(folder / self.name)]

    return Coded(name=name, shows="", command=("",), dry=(), minutes=minutes, gpu_gib=gpu_gib)


WRITES = (
    "import pathlib, sys; folder = pathlib.Path(sys.argv[1]); folder.mkdir(parents=True);"
    "(folder / 'results.jsonl').write_text('{}\\n');"
)


@pytest.mark.parametrize("step", STEPS, ids=lambda each: each.name)
@pytest.mark.parametrize("dry_run", [False, True])
def test_each_script_takes_the_options_of_its_step(
    step: Step, dry_run: bool, tmp_path: Path
) -> None:
    option, module, *options = step.arguments(tmp_path, dry_run=dry_run)
    found = importlib.import_module(module)
    if hasattr(found, "__path__"):
        found = importlib.import_module(f"{module}.__main__")

    given = found.main.make_context(module, options).params

    assert option == "-m"
    assert given["out"] == tmp_path / step.name
    # The simulated encoder needs no device.
    on = "cpu" if dry_run and given.get("encoder") != "simulated" else "cuda"
    assert given["device"] == on


def test_a_step_that_takes_longer_is_stopped_and_keeps_its_results(tmp_path: Path) -> None:
    slow = step("slow", WRITES + SLEEPS, minutes=0.1)

    outcomes = Suite(tmp_path, 60).run([slow, step("next", WRITES)], room_gib=8)

    assert outcomes["slow"] == f"{STOPPED}, with 1 results"
    assert outcomes["next"].startswith("1 results in")


def test_a_command_that_is_stopped_ends_what_it_has_started(tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    # A shell, since it is up at once however busy the machine is.
    endless = f"trap 'touch {ended}; exit' INT; while :; do sleep 0.1; done"

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a background job of a shell
    try:
        assert ended_in_time(["sh", "-c", endless], 1.5) is None
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.exists()


def test_no_step_is_started_when_the_time_is_over(tmp_path: Path) -> None:
    times = iter([0.0, 1.0, 2.0, 3.0, 100.0])
    suite = Suite(tmp_path, 10, clock=lambda: next(times))

    outcomes = suite.run([step("first", WRITES), step("second", WRITES)], room_gib=8)

    assert outcomes["first"].startswith("1 results")
    assert outcomes["second"] == "left out: the time is over"


def test_a_step_that_does_not_fit_the_device_is_left_out(tmp_path: Path) -> None:
    outcomes = Suite(tmp_path, 60).run([step("big", "raise SystemExit(9)", gpu_gib=20)], 11.6)

    assert outcomes == {"big": "left out: needs 20 GiB, 12 are free"}


def test_a_step_that_fails_is_said_and_the_next_one_runs(tmp_path: Path) -> None:
    steps = [step("bad", "raise SystemExit(3)"), step("good", WRITES)]

    outcomes = Suite(tmp_path, 60).run(steps, 8)

    assert outcomes["bad"] == "failed"
    assert outcomes["good"].startswith("1 results")


def fits_a_screen(text: str) -> bool:
    return len(text.splitlines()) <= 24 and max(map(len, text.splitlines())) <= 120


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_gpu_one_screen_says_what_would_be_needed_and_run() -> None:
    done = CliRunner().invoke(main, [])

    assert done.exit_code == 1
    assert fits_a_screen(done.output)
    assert done.output.startswith("Needs: an NVIDIA GPU, driver 580 or later")
    assert all(each.name in done.output for each in STEPS)
    assert "nothing was run" in done.output


def test_the_tests_of_a_gpu_are_listed_on_one_screen_without_one() -> None:
    facts = GpuFacts(versions={"torch": "2.15.0"})

    told = plan(facts, ["tests/a.py::test_one[x]", "tests/a.py::test_two", "tests/b.py::test_it"])

    assert fits_a_screen(told)
    assert "pytest -m gpu would run 3 tests:\n    2  tests/a.py\n    1  tests/b.py" in told
    assert "driver none, 0 CUDA devices, torch 2.15.0" in told

"""The commands of `python -m serving` as a user types them, each to its end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.processes import mentioning

PROJECT = Path(__file__).parents[1]
END_TIMEOUT_S = 240.0
LISTENING = ("GRPC", "HTTP", "DASHBOARD", "METRICS")


@dataclass(frozen=True, slots=True)
class Ended:
    """What a command said and what it left, in processes and in its folder for temporary files."""

    code: int
    said: str
    processes: list[str]
    files: list[str]

    @property
    def leaves_nothing(self) -> bool:
        return not self.processes and not self.files


RunCommand = Callable[..., Ended]


@pytest.fixture
def run_command() -> Iterator[RunCommand]:
    """Runs a command of the service; lines of its output may be named at which it is signalled."""
    with tempfile.TemporaryDirectory(prefix="trv-") as folder:
        # PostgreSQL runs under another account if we are root.
        Path(folder).chmod(0o755)

        def run(
            *arguments: str, signal_at: Sequence[tuple[str, signal.Signals]] = (), **settings: str
        ) -> Ended:
            return _run(Path(folder), arguments, signal_at, settings)

        yield run


def _run(
    folder: Path,
    arguments: tuple[str, ...],
    signal_at: Sequence[tuple[str, signal.Signals]],
    settings: dict[str, str],
) -> Ended:
    temporary = folder / "t"
    temporary.mkdir(mode=0o755, exist_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "serving", *arguments],
        cwd=PROJECT,
        env={**_environment(folder, temporary), **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # the group that a terminal would send Ctrl-C to
    )
    with _ended(process, folder) as left:
        said = [*_said_until_signalled(process, signal_at)]
        said.append(process.communicate(timeout=END_TIMEOUT_S)[0])
    return Ended(
        code=process.returncode,
        said="".join(said),
        processes=left,
        files=sorted(path.name for path in temporary.iterdir()),
    )


def _said_until_signalled(
    process: subprocess.Popen[str], signal_at: Sequence[tuple[str, signal.Signals]]
) -> Iterator[str]:
    """The lines up to the last one that is waited for; each of these sends its signal."""
    assert process.stdout is not None
    for awaited, number in signal_at:
        for line in iter(process.stdout.readline, ""):
            yield line
            if awaited in line:
                os.killpg(process.pid, number)
                break


@contextlib.contextmanager
def _ended(process: subprocess.Popen[str], folder: Path) -> Iterator[list[str]]:
    """Ends what still runs after the block; yields the list that their names go into."""
    left: list[str] = []
    try:
        yield left
    finally:
        for each in mentioning(folder):
            left.append(each.name())
            each.kill()
        process.wait()


def _environment(folder: Path, temporary: Path) -> dict[str, str]:
    inherited = os.environ  # noqa: TID251 - a child process inherits it
    return {
        **{name: value for name, value in inherited.items() if not name.startswith("TRIVIUM_")},
        **{f"TRIVIUM_SERVE__{name}_PORT": "0" for name in LISTENING},
        "TMPDIR": str(temporary),
        "TRIVIUM_DATA_DIR": str(folder / "data"),
    }

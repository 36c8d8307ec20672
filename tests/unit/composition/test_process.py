"""The end of a process: that of one whose device is lost, and a crash."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

from serving.composition.gpu import device_works
from serving.composition.process import EXIT_CODE


def test_ended_process_logs_its_reason() -> None:
    """A thread that is no daemon keeps an interpreter from its ordinary end."""
    script = textwrap.dedent(
        """
        import atexit, logging, threading
        from serving.composition.process import end_process_soon
        logging.basicConfig(format="%(message)s")
        atexit.register(lambda: print("asked the device once more"))
        threading.Thread(target=threading.Event().wait).start()
        end_process_soon()
        """
    )

    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert ended.returncode == EXIT_CODE
    assert "process ends: its device is lost" in ended.stderr
    assert not ended.stdout


def test_a_cpu_always_works() -> None:
    assert device_works("cpu")


def test_a_crash_leaves_no_core_dump(tmp_path: Path) -> None:
    script = textwrap.dedent(
        f"""
        import os, resource
        from serving.composition.process import write_no_core_dumps
        _, most = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (most, most))
        os.chdir({str(tmp_path)!r})
        write_no_core_dumps()
        os.abort()
        """
    )

    pid = os.posix_spawn(
        sys.executable, [sys.executable, "-c", script], {"PYTHONPATH": os.pathsep.join(sys.path)}
    )
    _, status = os.waitpid(pid, 0)

    assert os.WTERMSIG(status) == signal.SIGABRT
    assert not os.WCOREDUMP(status)
    assert not list(tmp_path.iterdir())

from __future__ import annotations

import subprocess
import sys

ALLOWED = ("grpc", "google", "trivium", "typing_extensions")

PROBE = f"""
import importlib.abc, sys

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        # The standard library has one more, which is named after the platform.
        standard = top in sys.stdlib_module_names or top.startswith("_sysconfigdata_")
        if not standard and top not in {ALLOWED!r}:
            raise ModuleNotFoundError(f"{{name}} is refused", name=name)

sys.meta_path.insert(0, Refuse())
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROBE + code]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_client_imports_nothing_but_grpc_and_protobuf() -> None:
    modules = "trivium, trivium.files.reading, trivium.aio"
    done = run(f"import {modules}; print(len(trivium.__all__))")

    assert (done.returncode, done.stderr) == (0, "")


def test_command_line_without_extra_names_its_installation() -> None:
    done = run("from trivium.cli import main; main()")

    assert done.returncode == 2
    assert "install trivium-client[cli]" in done.stderr
    assert "Traceback" not in done.stderr

"""The example of the README prints what the README shows."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from tests.fixtures.service import Service
from tests.support.tracked_files import ROOT

EXAMPLE = re.compile(r"^```python\n(?P<code>.*?)^```\n+```\n(?P<output>.*?)^```", re.M | re.S)


def test_readme_example_prints_the_shown_output(
    service: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example = EXAMPLE.search((ROOT / "README.md").read_text())
    assert example
    here = example["code"].replace("127.0.0.1:9000", service.address)
    script = tmp_path / "example.py"
    script.write_text(re.sub(r"timeout=[\d.]+", "timeout=30", here))

    runpy.run_path(str(script))

    assert capsys.readouterr().out == example["output"]

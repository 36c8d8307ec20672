"""Pages of the site, block by block: each prints what is shown."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.e2e.test_tutorial import BLOCK, PATIENCE
from tests.fixtures.service import Service
from tests.support.tracked_files import ROOT


@pytest.mark.parametrize("page", ["filters", "several-memories"])
def test_page_prints_the_shown_outputs(
    service: Service, capsys: pytest.CaptureFixture[str], page: str
) -> None:
    namespace: dict[str, Any] = {}
    shown = (ROOT / f"docs/{page}.md").read_text()

    for block in BLOCK.finditer(shown):
        if block["kind"] == "python":
            code = re.sub(r"timeout=[\d.]+", PATIENCE, block["code"])
            code = code.replace("127.0.0.1:9000", service.address)
            exec(compile(code, page, "exec"), namespace)
            assert capsys.readouterr().out == (block["output"] or ""), block["code"]

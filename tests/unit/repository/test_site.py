"""The web site of `make site`: every page is in its contents, and every link leads somewhere."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support import site
from tests.support.tracked_files import ROOT, tracked_files

MKDOCS = ROOT / ".venv-site/bin/mkdocs"
CONTENTS = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]


def test_every_page_is_in_the_contents_once() -> None:
    pages = {*tracked_files("docs/*.md"), *site.OUTSIDE}

    counted = {page: CONTENTS.count(f" {site.place_of(page)}\n") for page in pages}

    assert {page: count for page, count in counted.items() if count != 1} == {}


@pytest.mark.release
@pytest.mark.skipif(not MKDOCS.exists(), reason="`make site` installs what makes it")
def test_site_is_made_without_a_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        [MKDOCS, "build", "--quiet", "--strict", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    home = (tmp_path / "site/index.html").read_text()
    assert 'src="flow.svg"' in home
    assert 'src="bench/baselines/peers/overview.png"' in home
    assert (tmp_path / "site/examples/ledger.ipynb").exists()
    assert 'id="trivium.Client.retrieve"' in (tmp_path / "site/python.html").read_text()

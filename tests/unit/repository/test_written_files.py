"""The files that are written from the code are current."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from serving.domain.languages import LANGUAGE_NAMES
from serving.http.static import OPENAPI
from tests.support import languages_page, openapi, settings_page
from tests.unit.repository import retrieval_walk


@pytest.mark.parametrize(
    ("writer", "file"),
    [
        (openapi, OPENAPI),
        (settings_page, settings_page.PAGE),
        (languages_page, languages_page.PAGE),
    ],
    ids=["openapi", "settings", "languages"],
)
def test_written_file_is_current(writer: ModuleType, file: Path) -> None:
    current = file.read_text(encoding="utf-8") == writer.text()

    assert current, f"it is outdated: run `python -m {writer.__name__}`"


def test_walk_of_a_search_is_current() -> None:
    # In a process of its own: what others have cached is not called again, and not counted.
    script = "from tests.unit.repository import retrieval_walk as w; print(w.text(), end='')"
    written = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)

    assert written.stdout.decode() == retrieval_walk.PAGE.read_text(encoding="utf-8")


def test_page_of_languages_names_all() -> None:
    words = languages_page.PAGE.read_text(encoding="utf-8").replace(",", " ").split()

    variants = {"dutch_porter", "porter", "simple"}  # older stemmers of Dutch and of English
    assert not LANGUAGE_NAMES - variants - set(words)

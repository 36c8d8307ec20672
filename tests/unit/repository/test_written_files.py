"""The files that are written from the code are current."""

from __future__ import annotations

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
        (retrieval_walk, retrieval_walk.PAGE),
    ],
    ids=["openapi", "settings", "languages", "walk"],
)
def test_written_file_is_current(writer: ModuleType, file: Path) -> None:
    current = file.read_text(encoding="utf-8") == writer.text()

    assert current, f"it is outdated: run `python -m {writer.__name__}`"


def test_page_of_languages_names_all() -> None:
    words = languages_page.PAGE.read_text(encoding="utf-8").replace(",", " ").split()

    variants = {"dutch_porter", "porter", "simple"}  # older stemmers of Dutch and of English
    assert not LANGUAGE_NAMES - variants - set(words)

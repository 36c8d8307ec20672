from __future__ import annotations

from serving.domain.languages import LANGUAGE_NAMES
from tests.support import languages_page


def test_table_of_languages_is_what_is_found() -> None:
    page = languages_page.PAGE.read_text(encoding="utf-8")

    _, table = page.split(languages_page.BEGIN)
    assert table.split(languages_page.END)[0] == languages_page.table(), (
        "run `make docs` (python -m tests.support.languages_page)"
    )


def test_page_of_languages_names_all() -> None:
    words = languages_page.PAGE.read_text(encoding="utf-8").replace(",", " ").split()

    variants = {"dutch_porter", "porter", "simple"}  # older stemmers of Dutch and of English
    assert not LANGUAGE_NAMES - variants - set(words)

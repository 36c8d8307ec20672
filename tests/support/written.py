"""The files that are written from the code: `python -m tests.support.written` writes them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from serving.http.static import OPENAPI
from tests.support import (
    commands_page,
    http_page,
    languages_page,
    openapi,
    rpc_page,
    settings_page,
)

WRITERS: Mapping[Path, Callable[[], str]] = {
    OPENAPI: openapi.text,
    settings_page.PAGE: settings_page.text,
    languages_page.PAGE: languages_page.text,
    rpc_page.PAGE: rpc_page.text,
    commands_page.PAGE: commands_page.text,
    http_page.PAGE: http_page.text,
}

if __name__ == "__main__":
    for file, text in WRITERS.items():
        file.write_text(text(), encoding="utf-8")

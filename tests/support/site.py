"""The hook of `mkdocs.yml`: pages outside `docs/`, and links as they are in the repository.

The README is the first page; others keep their path from the root. A link to a file that is no
page, such as a module, becomes its path, since the site does not have it.
"""

from __future__ import annotations

import os.path
import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
OUTSIDE = (
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "bench/README.md",
    "examples/README.md",
    *(str(page.relative_to(ROOT)) for page in sorted(ROOT.glob("clients/*/README.md"))),
)
EXAMPLES = tuple(
    str(file.relative_to(ROOT))
    for kind in ("*.py", "*.ts", "*.ipynb", "*.csv", "*/main.go")
    for file in sorted((ROOT / "examples").glob(kind))
)
"""Programs that a reader of the site takes from it."""

LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<path>[^)#\s]*)(?P<section>#[^)\s]*)?\)")
CODE = re.compile(r"(^```.*?^```$)", re.M | re.S)
DECLARATION = re.compile(r"(?P<ticks>`+)(?P<code>[^`\n]*<![^`\n]*)(?P=ticks)")
"""Inline code that the parser of MkDocs takes for a declaration of HTML."""
IMAGES = (".png", ".svg", ".webp")


def place_of(path: str) -> str:
    """Where a file of the repository is on the site."""
    return "index.md" if path == "README.md" else path.removeprefix("docs/")


def source_of(place: str) -> str:
    """The file of the repository that is a page of the site."""
    if place == "index.md":
        return "README.md"
    return place if place in OUTSIDE else f"docs/{place}"


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages outside of `docs/`, and the pictures that they show."""
    from mkdocs.structure.files import File

    pictures = {
        target
        for page in OUTSIDE
        for link in LINK.finditer((ROOT / page).read_text())
        if (target := posixpath.normpath(posixpath.join(posixpath.dirname(page), link["path"])))
        if target.endswith(IMAGES) and not target.startswith("docs/")
    }
    for path in (*OUTSIDE, *sorted(pictures), *EXAMPLES):
        content = (ROOT / path).read_bytes()
        files.append(File.generated(config, place_of(path), content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Rewrites the links of a page, except in blocks of code."""
    del config
    source = source_of(page.file.src_uri)
    parts = CODE.split(markdown)
    for number in range(0, len(parts), 2):
        linked = LINK.sub(lambda link: _link(link, source, files), parts[number])
        parts[number] = DECLARATION.sub(_escaped, linked)
    return "".join(parts)


def _escaped(found: re.Match[str]) -> str:
    code = found["code"].strip().replace(r"\|", "|")
    return f"<code>{''.join(each if each.isalnum() else f'&#{ord(each)};' for each in code)}</code>"


def _link(link: re.Match[str], source: str, files: Any) -> str:
    path, section = link["path"], link["section"] or ""
    if not path or re.match(r"[a-z]+:", path):
        return link[0]
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    if (ROOT / target).is_dir() and (ROOT / target / "README.md").exists():
        target = f"{target}/README.md"
    if files.get_file_from_path(place_of(target)) is None:
        # A file of the repository that the site does not have.
        return link["text"] if "`" in link["text"] else f"{link['text']} (`{target}`)"
    here = posixpath.dirname(place_of(source)) or "."
    return f"{link['image']}[{link['text']}]({os.path.relpath(place_of(target), here)}{section})"

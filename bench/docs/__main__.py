"""The command `python -m bench.docs`, or `make docs-figures`: updates the figures of the pages."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from pathlib import Path

import click

from bench.docs.markers import MarkerError, rewritten
from bench.docs.tables import render

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/**/*.md", "bench/**/README.md")

_CITED = re.compile(r"bench/baselines/[\w./-]*\w")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--check", is_flag=True, help="Change nothing; fail if a page differs.")
@click.option("--root", type=click.Path(path_type=Path, file_okay=False), default=ROOT, hidden=True)
def main(check: bool, root: Path) -> None:
    """Write the figures of docs/ from bench/baselines."""
    differing = 0
    for path in pages(root):
        name = str(path.relative_to(root))
        old = path.read_text(encoding="utf-8")
        try:
            new = rewritten(old, render)
        except MarkerError as error:
            raise click.ClickException(f"{name}: {error}") from error
        for cited in _CITED.findall(new):
            if not (ROOT / cited).exists():
                raise click.ClickException(f"{name}: {cited} does not exist")
        if old == new:
            continue
        differing += 1
        if check:
            lines = (old.splitlines(), new.splitlines())
            click.echo("\n".join(difflib.unified_diff(*lines, name, "baselines", "", "", 0, "")))
        else:
            path.write_text(new, encoding="utf-8")
            click.echo(f"updated {name}")
    if check and differing:
        raise click.ClickException(
            f"{differing} pages differ from the baselines: run `make docs-figures`"
        )


def pages(root: Path) -> Iterator[Path]:
    """The pages that may quote figures."""
    for pattern in PAGES:
        yield from sorted(root.glob(pattern))


if __name__ == "__main__":
    main()

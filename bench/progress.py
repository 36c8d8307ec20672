"""Shows how far a measurement has come."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


def progress_bars(console: Console) -> Progress:
    """Bars that are drawn seldom: the client's CPU counts as a part of each request."""
    return Progress(
        TextColumn("{task.description:<32}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        refresh_per_second=1,
    )

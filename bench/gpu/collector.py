"""Configures Python's garbage collector as in a replica."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_of_a_replica() -> Iterator[None]:
    """Freezes all existing objects, as Serve does in a replica, and unfreezes them at the end.

    Libraries report objects that are still frozen at exit as leaks.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()

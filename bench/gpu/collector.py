"""Python's collector of cycles, as it is in a replica."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_of_a_replica() -> Iterator[None]:
    """Has it look through nothing that was loaded before, as Serve does in a replica.

    At the end it does again: what is still frozen when Python ends, libraries take for leaks.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()

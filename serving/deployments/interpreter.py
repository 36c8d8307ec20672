"""Python itself, as a replica wants it: threads that take turns sooner, and fewer collections."""

from __future__ import annotations

import gc
import sys

SWITCH_INTERVAL_S = 0.0005

COLLECT_AFTER = (10_000, 20, 50)
"""Python collects after 700 new objects by default, a few times in every call; what it looks
through then, the models and the index, stays for ever."""


def set_up_interpreter() -> None:
    """Sets Python up for answering questions; call it when all is loaded."""
    _collect_rarely()
    _switch_threads_sooner()


def _switch_threads_sooner() -> None:
    """Lets a model's thread back in between two of its operations.

    It gives the interpreter's lock away for each, and takes it again; by default the event loop
    may keep it for 5 ms then, more than a whole question takes to embed, and the threads that
    make tokens may keep it from the event loop as long.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)


def _collect_rarely() -> None:
    """Leaves what was loaded at the start out of garbage collection, and collects less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)

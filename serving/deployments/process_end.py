"""Ending a process whose device is lost, so that Serve puts another in its place."""

from __future__ import annotations

import logging
import os
import threading

logger = logging.getLogger(__name__)

LAST_REPLIES_S = 0.2
"""What is left for those who wait to be told; they turn to the twin then."""

EXIT_CODE = 70
"""EX_SOFTWARE of sysexits.h, as the operator reads it in Ray's log."""


def end_process_soon() -> None:
    """Ends this process, without any of what else is done at the end of one.

    Not by `ray.actor.exit_actor`: that leaves by the ordinary way, where destructors ask a device
    for what it cannot do any more, and wait. Serve learns of the end of a process when it next asks
    the replica how it is, and replaces it at once; a replica that only said that it is not well
    would have to say so three times.
    """
    logger.critical("this process ends, since its device is lost")
    for handler in logger.manager.root.handlers + logging.getLogger("serving").handlers:
        handler.flush()
    timer = threading.Timer(LAST_REPLIES_S, os._exit, [EXIT_CODE])
    timer.daemon = True
    timer.start()

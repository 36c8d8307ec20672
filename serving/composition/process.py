"""The process of a replica: its settings, no core dumps, and its end when its device is lost."""

from __future__ import annotations

import gc
import logging
import os
import resource
import sys
import threading

from serving.composition.gpu import device_works
from serving.pipeline.inference.device_watch import DeviceWatch, Watch

logger = logging.getLogger(__name__)

SWITCH_INTERVAL_S = 0.0005

COLLECT_AFTER = (10_000, 20, 50)
"""By default Python collects after 700 new objects, a few times in every call, and scans the models
and the index, which are never freed."""


def set_up_interpreter() -> None:
    """Collects garbage and switches threads as suits a server; to be called when all is loaded.

    What was loaded is excluded from collections. A model's thread releases the interpreter lock for
    each operation; by default the event loop may then keep it for 5 ms, longer than embedding a
    question takes, and tokenizer threads may keep it from the event loop as long.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    sys.setswitchinterval(SWITCH_INTERVAL_S)


# ---------------------------------------------------------------- no core dumps

NO_CORE_DUMP = 1
"""In bytes. With 0, Linux writes no file, but still sends the memory to the program that
`kernel.core_pattern` may name, such as apport. With 1 it does neither."""


def write_no_core_dumps() -> None:
    """Keeps texts, keys and passwords out of core dumps, of this process and of its children."""
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    limit = most and NO_CORE_DUMP  # only root may raise a 0
    resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))


# ---------------------------------------------------------------- the end

LAST_REPLIES_S = 0.2
"""Time for the pending replies."""

EXIT_CODE = 70
"""EX_SOFTWARE of sysexits.h; Ray logs it."""


def watch_over(name: str, device: str) -> Watch:
    """Makes a watch that ends this process when the device is lost."""
    return DeviceWatch(name, lambda _: not device_works(device), end_process_soon).over


def end_process_soon() -> None:
    """Ends this process without running its exit handlers.

    `ray.actor.exit_actor` exits the ordinary way, where destructors call the lost device and hang.
    Serve notices that the process is gone at its next health check and replaces it at once; a
    replica that only reports itself unhealthy would have to do so three times.
    """
    logger.critical("process ends: its device is lost")
    for handler in logger.manager.root.handlers + logging.getLogger("serving").handlers:
        handler.flush()
    timer = threading.Timer(LAST_REPLIES_S, os._exit, [EXIT_CODE])
    timer.daemon = True
    timer.start()

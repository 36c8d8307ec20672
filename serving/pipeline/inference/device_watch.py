"""Detects a lost device and discards its results.

A sticky CUDA error poisons its process: every later call to the device fails, and whatever it was
computing is invalid. The code that runs a device wraps each use of it in a watch. Once the device
is lost the watch raises, and calls back so that the process can be replaced.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from serving.domain.errors import DeviceLostError

logger = logging.getLogger(__name__)

LOST = "the device was lost; the replica is being replaced"

Watch = Callable[[], AbstractContextManager[None]]
"""Makes the context in which a device is used: `DeviceWatch.over`, or `nullcontext`."""


class DeviceWatch:
    """Watches what one part of a process does on a device: embedder, index or reranker.

    `is_lost` says whether an error means that the device is unusable. `on_loss` is called once, in
    the thread that detected the loss.
    """

    def __init__(
        self, name: str, is_lost: Callable[[Exception], bool], on_loss: Callable[[], None]
    ) -> None:
        self._name = name
        self._is_lost = is_lost
        self._on_loss = on_loss
        self._lost = False

    @contextmanager
    def over(self) -> Iterator[None]:
        """Raises `DeviceLostError` if the device was lost before, during or alongside a use."""
        self._require_device()
        try:
            yield
        except Exception as error:
            if not (self._lost or self._is_lost(error)):
                raise
            if not self._lost:
                self._lost = True
                logger.critical("device lost", extra={"part": self._name}, exc_info=error)
                self._on_loss()
            raise DeviceLostError(self._name, LOST) from error
        self._require_device()

    def _require_device(self) -> None:
        if self._lost:
            raise DeviceLostError(self._name, LOST)

"""Errors of networks, which the adapters translate into those of the service."""

from __future__ import annotations


class CheckpointError(Exception):
    """A checkpoint does not match the network to be loaded; the message says how.

    It names files without their folder, since clients may see it.
    """


class DeviceMemoryError(Exception):
    """The device is out of memory."""

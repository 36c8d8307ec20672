"""What a network can fail of, for the adapter that runs it to put into the caller's terms."""

from __future__ import annotations


class CheckpointError(Exception):
    """A checkpoint is not of the network that was to be loaded; the message names what is wrong.

    It names files without their folder, since callers may see it.
    """


class DeviceMemoryError(Exception):
    """The device has no memory left for what was asked of it."""


class AttentionError(Exception):
    """Attention cannot be computed in the way that was asked for; the message says why."""

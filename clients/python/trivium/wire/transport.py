"""The blocking client's own part of the transport; see `aio_transport`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import grpc

from trivium.values import Item, Transcript
from trivium.wire.channel import ChannelOptions, with_defaults

Channel = grpc.Channel
Items = Iterable[Item]
Transcripts = Iterable[Transcript]

Each = TypeVar("Each")


def open_channel(
    target: str, credentials: grpc.ChannelCredentials | None, options: ChannelOptions
) -> Channel:
    """Opens a channel; without credentials it is not encrypted."""
    if credentials is None:
        return grpc.insecure_channel(target, with_defaults(target, options))
    return grpc.secure_channel(target, credentials, with_defaults(target, options))


def wait_ready(channel: Channel, timeout: float) -> None:
    """Waits until the channel is connected.

    Raises:
        TimeoutError: It is not, after `timeout` seconds.
    """
    ready = grpc.channel_ready_future(channel)
    try:
        ready.result(timeout=timeout)
    except grpc.FutureTimeoutError:
        raise TimeoutError from None
    finally:
        ready.cancel()


def each(items: Iterable[Each]) -> Iterator[Each]:
    """Iterates over the items."""
    return iter(items)

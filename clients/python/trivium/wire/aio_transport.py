"""The asyncio client's own part of the transport; see `transport`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import TypeVar

import grpc
from grpc import aio

from trivium.values import Item, Transcript
from trivium.wire.channel import ChannelOptions, with_defaults

Channel = aio.Channel
Items = Iterable[Item] | AsyncIterable[Item]
Transcripts = Iterable[Transcript] | AsyncIterable[Transcript]

Each = TypeVar("Each")


def open_channel(
    target: str, credentials: grpc.ChannelCredentials | None, options: ChannelOptions
) -> Channel:
    """Opens a channel; without credentials it is not encrypted.

    Raises:
        RuntimeError: There is no event loop, to which the channel would belong.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            "an AsyncClient belongs to the event loop in which it is made, and none runs here: "
            "make it in a coroutine, such as the main function that asyncio.run() is given"
        ) from None
    if credentials is None:
        return aio.insecure_channel(target, with_defaults(target, options))
    return aio.secure_channel(target, credentials, with_defaults(target, options))


async def wait_ready(channel: Channel, timeout: float) -> None:
    """Waits until the channel is connected.

    Raises:
        TimeoutError: It is not, after `timeout` seconds.
    """
    await asyncio.wait_for(channel.channel_ready(), timeout)


async def each(items: Iterable[Each] | AsyncIterable[Each]) -> AsyncIterator[Each]:
    """Iterates over the items."""
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item

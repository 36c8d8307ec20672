from __future__ import annotations

import asyncio
import http.client

from serving.composition.background import repeated


async def test_an_error_of_any_kind_does_not_end_the_repetition() -> None:
    calls = 0
    third = asyncio.Event()

    async def work() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            third.set()
        raise (OSError, http.client.HTTPException, ValueError)[calls % 3]("no answer")

    async with repeated(work, 0.0, "not read"), asyncio.timeout(10):
        await third.wait()

"""Times the sentence encoder alone: the same encoder and batcher as the service's, one text.

`python -m bench.speed.floors.bare_encoder` reads a text a line, and prints seconds, wall and CPU,
as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence

from serving.composition.models import open_embedder
from serving.config.settings import load_settings
from serving.domain.budget import Deadline
from serving.ports.embedding import Embedder
from serving.telemetry import NoRecorder

WARM_UP = 20


async def measure(texts: Sequence[str]) -> dict[str, object]:
    """Embeds the texts one after another, and says how long each took."""
    async with open_embedder(load_settings(), NoRecorder()) as embedder:
        for text in texts[:WARM_UP]:
            await _timed(embedder, text)
        cpu = time.process_time()
        seconds = [await _timed(embedder, text) for text in texts]
        cpu_s = time.process_time() - cpu
        fingerprint = (await embedder.model()).fingerprint
    return {"seconds": seconds, "cpu_s": cpu_s, "model": fingerprint}


async def _timed(embedder: Embedder, text: str) -> float:
    started = time.perf_counter()
    await embedder.embed_query(text, Deadline.after(10))
    return time.perf_counter() - started


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(sys.stdin.read().splitlines()))))

"""Embedder and vector index as one deployment, which is asked with a question's text.

The question's way is one hop instead of two, and its vector stays on the device that made it.
"""

from __future__ import annotations

from typing import Any

from ray import serve

from serving.config import load_settings
from serving.deployments.components import open_space
from serving.deployments.encoder import EmbedderCalls
from serving.deployments.gpu_share import (
    HEALTH_CHECK_PERIOD_S,
    cap_gpu_memory,
    left_by_lists,
    resources,
)
from serving.deployments.index import IndexCalls
from serving.deployments.interpreter import set_up_interpreter
from serving.deployments.logs import log_through_serve
from serving.deployments.metrics import RayRecorder
from serving.domain.budget import Deadline
from serving.domain.shards import WHOLE, Shard
from serving.ports import IndexAnswer, WantedNeighbours


@serve.deployment(
    name="VectorSpace",
    # The batcher inside is what queues and refuses: Serve's queue would only hide it.
    max_ongoing_requests=1024,
    ray_actor_options=resources(0),
    graceful_shutdown_timeout_s=10,
    health_check_period_s=HEALTH_CHECK_PERIOD_S,
)
class VectorSpace(EmbedderCalls, IndexCalls):
    """Embeds and searches for all replicas of the other deployments."""

    async def __init__(  # type: ignore[misc]  # Serve awaits it
        self, arguments: dict[str, Any], shard: Shard = WHOLE
    ) -> None:
        log_through_serve()
        settings = load_settings(arguments)
        cap_gpu_memory(left_by_lists(settings.serve.gpus.embedder, settings.index))
        self._opened = open_space(settings, RayRecorder(), shard)
        space, self._semantic = await self._opened.__aenter__()
        self._embedder, self._index = space.embedder, space.index
        set_up_interpreter()

    async def __del__(self) -> None:
        if hasattr(self, "_semantic"):
            await self._opened.__aexit__(None, None, None)

    async def search_text(
        self, text: str, wanted: WantedNeighbours, remaining_s: float
    ) -> IndexAnswer:
        """Embeds a question and finds what is nearest to it."""
        return await self._semantic.search(text, wanted, Deadline.after(remaining_s))

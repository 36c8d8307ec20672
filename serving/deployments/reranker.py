"""The reranker as a deployment of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ray import serve

from serving.config import load_settings
from serving.deployments.components import open_reranker
from serving.deployments.gpu_share import HEALTH_CHECK_PERIOD_S, cap_gpu_memory, resources
from serving.deployments.interpreter import set_up_interpreter
from serving.deployments.logs import log_through_serve
from serving.domain.budget import Deadline
from serving.domain.errors import NotReadyError


@serve.deployment(
    name="Reranker",
    # The queue inside is what refuses: Serve's would only hide it.
    max_ongoing_requests=1024,
    ray_actor_options=resources(0),
    graceful_shutdown_timeout_s=10,
    health_check_period_s=HEALTH_CHECK_PERIOD_S,
)
class Reranker:
    """Reranks for all replicas of the ingress."""

    async def __init__(  # type: ignore[misc]  # Serve awaits it
        self, arguments: dict[str, Any]
    ) -> None:
        log_through_serve()
        settings = load_settings(arguments)
        cap_gpu_memory(settings.serve.gpus.reranker)
        self._opened = open_reranker(settings)
        self._reranker = await self._opened.__aenter__()
        set_up_interpreter()

    async def __del__(self) -> None:
        if hasattr(self, "_reranker"):
            await self._opened.__aexit__(None, None, None)

    async def rerank(self, query: str, texts: Sequence[str], remaining_s: float) -> list[float]:
        """The raw logit of each text's relevance, in their order."""
        if self._reranker is None:
            raise NotReadyError("reranker", "no model is named")
        return await self._reranker.rerank(query, texts, Deadline.after(remaining_s))

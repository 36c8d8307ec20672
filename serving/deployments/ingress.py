"""The ingress deployment, which answers all RPCs."""

from __future__ import annotations

import logging
from typing import Any

from ray import serve
from ray.serve.handle import DeploymentHandle
from starlette.types import ASGIApp

from serving.composition.authentication import require_authentication
from serving.composition.gpu_share import cap_gpu_memory, left_by_lists, resources
from serving.composition.service import running_service
from serving.config.settings import RayEnvironment
from serving.deployments.handles import Calls, Remote, SpaceHandles, remote_space
from serving.deployments.ray_recorder import RayRecorder
from serving.deployments.replica import Replica
from serving.deployments.server import read_whole_requests, serve_within_bounds
from serving.http.application import answered_whole, asgi_application
from serving.ports.reranking import Reranker as RerankerPort
from serving.rpc.service import TriviumService

logger = logging.getLogger(__name__)


def warn_if_proxied() -> None:
    """Logs a warning if calls go through Ray's own proxy."""
    if RayEnvironment().ingress == "ray_proxy":
        logger.warning(
            "calls go through Ray's own proxy, which adds 8-10 ms per call instead of 1.2 ms: "
            "start every node with deploy/ray.env in its environment"
        )


@serve.deployment(
    name="Ingress",
    max_ongoing_requests=128,
    max_queued_requests=32,
    ray_actor_options=resources(0),
    graceful_shutdown_timeout_s=10,
    health_check_period_s=5,
)
@serve.ingress()
class Ingress(Replica, TriviumService):
    """Answers all RPCs; components that the placement runs elsewhere are given as handles."""

    async def __init__(  # type: ignore[misc]  # Serve awaits it
        self,
        arguments: dict[str, Any],
        space: SpaceHandles | None = None,
        projector: DeploymentHandle[Any] | None = None,
        reranker: DeploymentHandle[Any] | None = None,
        extraction: DeploymentHandle[Any] | None = None,
    ) -> None:
        self._settings = settings = self._start(arguments)
        require_authentication(settings)
        warn_if_proxied()
        cap_gpu_memory(left_by_lists(settings.serve.gpus.ingress, settings.index))
        # Unused here: the references make Serve deploy them.
        self._projector, self._extraction = projector, extraction
        service = await self._open(
            running_service(
                settings,
                recorder=RayRecorder(),
                space=remote_space(space, settings.embedder.kept_questions),
                reranker=None
                if reranker is None
                else Remote[RerankerPort](Calls(reranker), "reranker").port,
                projecting=projector is None,
            )
        )
        super().__init__(
            service.use_cases,
            service.profiles,
            recorder=service.recorder,
            tracer=service.tracer,
            authenticator=service.authenticator,
            streams=service.streams,
        )
        serve_within_bounds(self, RayEnvironment().ingress)
        sites = settings.http.cors_origins
        read_whole_requests(lambda app: answered_whole(app, self, cors_origins=sites))

    def __serve_build_asgi_app__(self) -> ASGIApp:
        return asgi_application(
            self,
            cors_origins=self._settings.http.cors_origins,
            ui=bool(self._settings.http.ui),
            grpc_port=self._settings.serve.grpc_port,
            dashboard_port=self._settings.serve.dashboard_port,
        )

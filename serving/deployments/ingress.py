"""The ingress: the methods of the API, as Ray Serve calls them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

from grpc_health.v1 import health_pb2
from ray import serve
from ray.serve.handle import DeploymentHandle

from serving.config import RayEnvironment, load_settings
from serving.deployments.components import running_service
from serving.deployments.gpu_share import cap_gpu_memory, left_by_lists, resources
from serving.deployments.handles import SpaceHandles, elsewhere, remote_reranker
from serving.deployments.interpreter import set_up_interpreter
from serving.deployments.logs import log_through_serve
from serving.deployments.metrics import RayRecorder
from serving.rpc.boundary import CallContext
from trivium.v1 import catalog_service_pb2, ingest_service_pb2, retrieval_service_pb2

logger = logging.getLogger(__name__)

NO_HANDLES = SpaceHandles()


def warn_of_the_slow_way_in() -> None:
    """Says in the log, once at the start, when calls come in through Ray's own proxy."""
    if RayEnvironment().ingress == "ray_proxy":
        logger.warning(
            "calls come in through Ray's own proxy, at 8-10 ms a call instead of 1.2: "
            "start every node with deploy/ray.env in its environment"
        )


@serve.deployment(
    name="Fusion",
    max_ongoing_requests=64,
    max_queued_requests=256,
    ray_actor_options=resources(0),
    graceful_shutdown_timeout_s=10,
    health_check_period_s=5,
)
class Fusion:
    """Answers all calls; what the placement puts elsewhere comes in as a handle."""

    async def __init__(  # type: ignore[misc]  # Serve awaits it
        self,
        arguments: dict[str, Any],
        space: SpaceHandles = NO_HANDLES,
        previous: SpaceHandles = NO_HANDLES,
        projector: DeploymentHandle[Any] | None = None,
        reranker: DeploymentHandle[Any] | None = None,
    ) -> None:
        log_through_serve()
        warn_of_the_slow_way_in()
        settings = load_settings(arguments)
        cap_gpu_memory(left_by_lists(settings.serve.gpus.fusion, settings.index))
        self._projector = projector  # held, so that Serve deploys it
        self._running = running_service(
            settings,
            recorder=RayRecorder(),
            space=elsewhere(space),
            previous=elsewhere(previous),
            reranker=remote_reranker(reranker),
            projecting=projector is None,
        )
        self._service = await self._running.__aenter__()
        set_up_interpreter()

    async def __del__(self) -> None:
        if hasattr(self, "_service"):
            await self._running.__aexit__(None, None, None)

    def reconfigure(self, user_config: Mapping[str, Any]) -> None:
        """Takes over `{"profiles": {name: fields to change}}`, without a restart."""
        self._service.reconfigure(user_config)

    async def Retrieve(  # noqa: N802 - the name of the RPC
        self,
        request: retrieval_service_pb2.RetrieveRequest,
        grpc_context: CallContext,
    ) -> retrieval_service_pb2.RetrieveResponse:
        """Answers a question."""
        return await self._service.Retrieve(request, grpc_context)

    async def ListProfiles(  # noqa: N802
        self, request: retrieval_service_pb2.ListProfilesRequest, grpc_context: CallContext
    ) -> retrieval_service_pb2.ListProfilesResponse:
        """Lists the ranking profiles."""
        return await self._service.ListProfiles(request, grpc_context)

    async def Compare(  # noqa: N802
        self, request: retrieval_service_pb2.CompareRequest, grpc_context: CallContext
    ) -> retrieval_service_pb2.CompareResponse:
        """Answers a question under two profiles."""
        return await self._service.Compare(request, grpc_context)

    async def ExplainAbsence(  # noqa: N802
        self, request: retrieval_service_pb2.ExplainAbsenceRequest, grpc_context: CallContext
    ) -> retrieval_service_pb2.ExplainAbsenceResponse:
        """Says why an item is not in an answer."""
        return await self._service.ExplainAbsence(request, grpc_context)

    async def Ingest(  # noqa: N802
        self, request: ingest_service_pb2.IngestRequest, grpc_context: CallContext
    ) -> ingest_service_pb2.IngestResponse:
        """Stores a batch."""
        return await self._service.Ingest(request, grpc_context)

    async def IngestStream(  # noqa: N802
        self,
        request: AsyncIterator[ingest_service_pb2.IngestStreamRequest],
        grpc_context: CallContext,
    ) -> ingest_service_pb2.IngestStreamResponse:
        """Stores a stream of batches."""
        return await self._service.IngestStream(request, grpc_context)

    async def Forget(  # noqa: N802
        self, request: ingest_service_pb2.ForgetRequest, grpc_context: CallContext
    ) -> ingest_service_pb2.ForgetResponse:
        """Erases, and gives a receipt."""
        return await self._service.Forget(request, grpc_context)

    async def GetSegments(  # noqa: N802
        self, request: catalog_service_pb2.GetSegmentsRequest, grpc_context: CallContext
    ) -> catalog_service_pb2.GetSegmentsResponse:
        """Reads segments by id."""
        return await self._service.GetSegments(request, grpc_context)

    async def ListSegments(  # noqa: N802
        self, request: catalog_service_pb2.ListSegmentsRequest, grpc_context: CallContext
    ) -> catalog_service_pb2.ListSegmentsResponse:
        """Lists segments in pages."""
        return await self._service.ListSegments(request, grpc_context)

    async def ListFacts(  # noqa: N802
        self, request: catalog_service_pb2.ListFactsRequest, grpc_context: CallContext
    ) -> catalog_service_pb2.ListFactsResponse:
        """Lists facts in pages."""
        return await self._service.ListFacts(request, grpc_context)

    async def GetStats(  # noqa: N802
        self, request: catalog_service_pb2.GetStatsRequest, grpc_context: CallContext
    ) -> catalog_service_pb2.GetStatsResponse:
        """Says how the service is."""
        return await self._service.GetStats(request, grpc_context)

    async def Check(  # noqa: N802
        self, request: health_pb2.HealthCheckRequest, grpc_context: CallContext
    ) -> health_pb2.HealthCheckResponse:
        """Says whether questions can be answered."""
        return await self._service.Check(request, grpc_context)

    async def List(  # noqa: N802
        self, request: health_pb2.HealthListRequest, grpc_context: CallContext
    ) -> health_pb2.HealthListResponse:
        """Says it of all services, which are one."""
        return await self._service.List(request, grpc_context)

    async def Watch(  # noqa: N802
        self, request: health_pb2.HealthCheckRequest, grpc_context: CallContext
    ) -> AsyncIterator[health_pb2.HealthCheckResponse]:
        """Says it again each time it changes."""
        async for health in self._service.Watch(request, grpc_context):
            yield health

"""The service without Ray: the real stores, the real pipeline, a gRPC server in this process.

For what goes wrong: here a test can take a part away and give it back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
from grpc_health.v1 import health_pb2_grpc

from serving.config import load_settings
from serving.deployments.components import Elsewhere, running_service
from serving.ports import Embedder, Reranker, VectorIndex
from serving.rpc import registration
from tests.fake_meaning import FakeEmbedder
from trivium.aio import AsyncClient

TENANT = "acme"


@asynccontextmanager
async def local_service(
    dsn: str,
    neo4j_uri: str,
    *,
    embedder: Embedder | None = None,
    index: VectorIndex | None = None,
    previous_embedder: Embedder | None = None,
    reranker: Reranker | None = None,
) -> AsyncIterator[AsyncClient]:
    """Runs the service over these stores, and yields a client of it."""
    settings = load_settings({"postgres": {"dsn": dsn}, "neo4j": {"uri": neo4j_uri}})
    async with running_service(
        settings,
        space=Elsewhere(embedder or FakeEmbedder(), index),
        previous=Elsewhere(previous_embedder),
        reranker=reranker,
        # Tests take parts away on purpose, for which there is no use in waiting.
        warm_up_s=1,
    ) as service:
        server = grpc.aio.server()
        methods: Any = service  # the base classes of the stubs are for servers of their own
        registration.add_retrieval_service(methods, server)
        registration.add_ingest_service(methods, server)
        registration.add_catalog_service(methods, server)
        health_pb2_grpc.add_HealthServicer_to_server(methods, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            async with AsyncClient(f"127.0.0.1:{port}", tenant=TENANT, timeout=10) as client:
                yield client
        finally:
            await server.stop(grace=1)

"""A gRPC server in this process, without Ray."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
from grpc_health.v1 import health_pb2_grpc

from serving.rpc import registration
from serving.rpc.service import TriviumService


@asynccontextmanager
async def listening(service: TriviumService) -> AsyncIterator[str]:
    """Answers the calls of all services on loopback, and yields the address."""
    server = grpc.aio.server()
    methods: Any = service  # the base classes of the stubs are for servers of their own
    registration.add_retrieval_service(methods, server)
    registration.add_ingest_service(methods, server)
    registration.add_catalog_service(methods, server)
    health_pb2_grpc.add_HealthServicer_to_server(methods, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(grace=1)

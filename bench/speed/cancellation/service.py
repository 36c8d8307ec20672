"""The service in this process: the real stores, the real pipeline, a gRPC server, without Ray."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio

from serving.composition.index import SpaceParts
from serving.composition.service import running_service
from serving.config.settings import load_settings
from serving.ports.embedding import Embedder
from serving.rpc import registration


@asynccontextmanager
async def served(dsn: str, neo4j_uri: str, embedder: Embedder) -> AsyncIterator[str]:
    """Runs the service over these stores, and yields its address."""
    settings = load_settings({"postgres": {"dsn": dsn}, "neo4j": {"uri": neo4j_uri}})
    async with running_service(settings, space=SpaceParts(embedder)) as service:
        server = grpc.aio.server()
        methods: Any = service  # the base classes of the stubs are for servers of their own
        registration.add_retrieval_service(methods, server)
        registration.add_ingest_service(methods, server)
        registration.add_catalog_service(methods, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            await server.stop(grace=1)

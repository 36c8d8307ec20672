"""A bare gRPC server that answers grpc.health.v1: the floor under any call.

`python -m bench.speed.floors.echo_server` prints its address, and serves until its standard input
closes.
"""

from __future__ import annotations

import asyncio
import sys

import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc


class Echo(health_pb2_grpc.HealthServicer):  # type: ignore[misc]  # generated, untyped
    """Says SERVING, at once."""

    async def Check(  # noqa: N802 - the name of the RPC
        self, request: health_pb2.HealthCheckRequest, context: object
    ) -> health_pb2.HealthCheckResponse:
        """Answers."""
        del request, context
        return health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVING)


async def serve() -> None:
    """Serves until standard input closes, which happens when the parent process ends."""
    server = grpc.aio.server()
    health_pb2_grpc.add_HealthServicer_to_server(Echo(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"127.0.0.1:{port}", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(grace=None)


if __name__ == "__main__":
    asyncio.run(serve())

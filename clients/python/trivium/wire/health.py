"""The health check of grpc.health.v1, without a dependency on grpcio-health-checking.

`HealthCheckRequest` is one string and `HealthCheckResponse` one enum, both in
field 1: on the wire they are google.protobuf.StringValue and Int32Value.
"""

from __future__ import annotations

from google.protobuf.wrappers_pb2 import Int32Value, StringValue

from trivium.values import Health

CHECK_METHOD = "/grpc.health.v1.Health/Check"

_STATES = {1: Health.SERVING, 2: Health.NOT_SERVING, 3: Health.SERVICE_UNKNOWN}


def encode_request(service: str) -> bytes:
    """Writes the HealthCheckRequest for a service; empty means the whole server."""
    return StringValue(value=service).SerializeToString()


def decode_response(encoded: bytes) -> Health:
    """Reads the HealthCheckResponse."""
    return _STATES.get(Int32Value.FromString(encoded).value, Health.UNKNOWN)

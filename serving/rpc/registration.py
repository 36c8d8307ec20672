"""Registers the services so that undecodable requests are rejected with INVALID_ARGUMENT.

If a deserializer raises, gRPC answers UNKNOWN with the name of a Python class and no details,
before any method is called. The deserializers registered here do not raise: they pass on
`Malformed` for bytes that cannot be decoded, such as text that is not UTF-8, and the boundary
rejects it like any other invalid request. Ray Serve imports these functions by their path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import DecodeError

from serving.domain.errors import InvalidRequestError, Violation
from trivium.v1 import (
    admin_service_pb2,
    admin_service_pb2_grpc,
    catalog_service_pb2,
    catalog_service_pb2_grpc,
    ingest_service_pb2,
    ingest_service_pb2_grpc,
    retrieval_service_pb2,
    retrieval_service_pb2_grpc,
)

METHODS: Mapping[str, MethodDescriptor] = {
    method.name: method
    for protos in (
        retrieval_service_pb2,
        ingest_service_pb2,
        catalog_service_pb2,
        admin_service_pb2,
    )
    for service in protos.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
"""All RPCs by name; the names are unique over all services."""

Handlers = Mapping[str, Any]
"""The methods of a service; `grpc.RpcMethodHandler` takes no type parameters at run time."""


@dataclass(frozen=True, slots=True)
class Malformed:
    """A request that could not be decoded. Picklable, since a proxy may have decoded it."""

    why: str = "is not a message of this method, or has text that is not UTF-8"

    def error(self) -> InvalidRequestError:
        """The error of its call."""
        return InvalidRequestError([Violation("request", self.why)])


class Server(Protocol):
    """The part of a server that is used here."""

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """Adds services."""


def _add(register: Callable[[Any, Any], None], servicer: Any, server: Server) -> None:
    # The stubs require the class of grpc, which has no public base.
    register(servicer, _ReadingServer(server))


add_retrieval_service = partial(
    _add, retrieval_service_pb2_grpc.add_RetrievalServiceServicer_to_server
)
add_ingest_service = partial(_add, ingest_service_pb2_grpc.add_IngestServiceServicer_to_server)
add_catalog_service = partial(_add, catalog_service_pb2_grpc.add_CatalogServiceServicer_to_server)
add_admin_service = partial(_add, admin_service_pb2_grpc.add_AdminServiceServicer_to_server)


class _ReadingServer:
    """Registers services with a server, with deserializers that do not raise."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """Adds nothing: the generated functions next register the same methods by name."""

    def add_registered_method_handlers(self, service: str, handlers: Handlers) -> None:
        """Adds the methods of a service."""
        reading = {name: _never_raising(handler) for name, handler in handlers.items()}
        generic = grpc.method_handlers_generic_handler(service, reading)
        # Not by name as well: grpc.aio then takes up calls later, and with more CPU time. The `way`
        # of a call in the summary of `make bench` shows it.
        self._server.add_generic_rpc_handlers((generic,))


def _never_raising(handler: Any) -> Any:
    read: Callable[[bytes], object] = handler.request_deserializer

    def deserialize(encoded: bytes) -> object:
        try:
            return read(encoded)
        except DecodeError:
            return Malformed()

    return handler._replace(request_deserializer=deserialize)

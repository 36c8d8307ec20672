"""Registers the services with a server so that bytes that are no message are refused by us.

Where a deserializer raises, gRPC answers UNKNOWN with the name of a Python class and without
details, before any method of ours is called. So ours never raises: what cannot be read, such as a
string that is not UTF-8, is handed on as `Malformed`, and the boundary refuses it like every other
malformed request. Ray Serve takes these functions by their import path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import grpc
from google.protobuf.message import DecodeError

from serving.domain.errors import InvalidRequestError, Violation
from trivium.v1 import (
    catalog_service_pb2_grpc,
    ingest_service_pb2_grpc,
    retrieval_service_pb2_grpc,
)

Handlers = Mapping[str, Any]
"""The methods of a service; grpc's class of them takes no parameters at run time."""


@dataclass(frozen=True, slots=True)
class Malformed:
    """Stands for a request that could not be read; crosses processes where a proxy read it."""

    def refuse(self) -> NoReturn:
        """Refuses it.

        Raises:
            InvalidRequestError: Always.
        """
        raise InvalidRequestError(
            [Violation("request", "is not a message of this method, or has text that is not UTF-8")]
        )


class Server(Protocol):
    """What the generated functions use of a server."""

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """Adds services."""
        ...

    def add_registered_method_handlers(self, service: str, handlers: Handlers) -> None:
        """Adds the methods of a service, to be found by name."""
        ...


def add_retrieval_service(servicer: Any, server: Server) -> None:
    """Registers `trivium.v1.RetrievalService`."""
    retrieval_service_pb2_grpc.add_RetrievalServiceServicer_to_server(servicer, _reading(server))


def add_ingest_service(servicer: Any, server: Server) -> None:
    """Registers `trivium.v1.IngestService`."""
    ingest_service_pb2_grpc.add_IngestServiceServicer_to_server(servicer, _reading(server))


def add_catalog_service(servicer: Any, server: Server) -> None:
    """Registers `trivium.v1.CatalogService`."""
    catalog_service_pb2_grpc.add_CatalogServiceServicer_to_server(servicer, _reading(server))


def _reading(server: Server) -> Any:
    # The stubs ask for grpc's own class, which has no public base to implement.
    return _ReadingServer(server)


class _ReadingServer:
    """Passes services on to a server, with deserializers that do not raise."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """Adds nothing: the generated functions give the same methods by name next."""

    def add_registered_method_handlers(self, service: str, handlers: Handlers) -> None:
        """Adds the methods of a service."""
        reading = {name: _never_raising(handler) for name, handler in handlers.items()}
        generic = grpc.method_handlers_generic_handler(service, reading)
        self._server.add_generic_rpc_handlers((generic,))
        self._server.add_registered_method_handlers(service, reading)


def _never_raising(handler: Any) -> Any:
    read: Callable[[bytes], object] = handler.request_deserializer

    def deserialize(encoded: bytes) -> object:
        try:
            return read(encoded)
        except DecodeError:
            return Malformed()

    return handler._replace(request_deserializer=deserialize)

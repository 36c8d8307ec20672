"""The service: the RPCs of all services."""

from __future__ import annotations

from serving.rpc.admin_service import AdminService
from serving.rpc.catalog_service import CatalogService
from serving.rpc.health import HealthService
from serving.rpc.ingest_service import IngestService
from serving.rpc.retrieval_service import RetrievalService


class TriviumService(RetrievalService, IngestService, CatalogService, AdminService, HealthService):
    """All RPCs, for gRPC and for Ray Serve, which routes by method name: no two have the same."""

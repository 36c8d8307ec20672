"""The composition root for Ray Serve: which deployments there are, by placement.

`fused` has one deployment; `split` has one for each part that scales by itself. Either is a
Serve application built from arguments, so the same YAML serves a desk and a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ray.serve import Application

from serving.config import Settings, load_settings
from serving.deployments.encoder import Embedder
from serving.deployments.index import VectorIndex
from serving.deployments.ingress import Fusion
from serving.deployments.projector import Projector
from serving.deployments.reranker import Reranker

APPLICATION = "trivium"
IMPORT_PATH = "serving.deployments.app:build"
SERVICERS = [
    "serving.rpc.registration.add_retrieval_service",
    "serving.rpc.registration.add_ingest_service",
    "serving.rpc.registration.add_catalog_service",
    "grpc_health.v1.health_pb2_grpc.add_HealthServicer_to_server",
]
REQUEST_TIMEOUT_S = 3600.0
"""The longest any call may take, whatever its deadline: that of a long ingest stream."""


def build(arguments: dict[str, Any]) -> Application:
    """Builds the application, as `serve deploy` asks for it.

    Args:
        arguments: The settings' tree, as in the settings file. Each replica reads its own
            environment again, so secrets need not stand here.
    """
    settings = load_settings(arguments)
    ingress = Fusion.options(  # type: ignore[attr-defined]
        num_replicas=settings.serve.replicas,
        max_ongoing_requests=settings.serve.max_ongoing_requests,
        max_queued_requests=settings.serve.max_queued_requests,
    )
    if settings.serve.placement == "fused":
        return ingress.bind(arguments)  # type: ignore[no-any-return]
    embedder, index = _space(arguments)
    previous_embedder, previous_index = _previous_space(settings, arguments)
    return ingress.bind(  # type: ignore[no-any-return]
        arguments,
        embedder=embedder,
        index=index,
        projector=Projector.bind(  # type: ignore[attr-defined]
            arguments, embedder, previous_embedder
        ),
        previous_embedder=previous_embedder,
        previous_index=previous_index,
        reranker=_reranker(settings, arguments),
    )


def _space(arguments: dict[str, Any], prefix: str = "") -> tuple[Application, Application]:
    """An embedder, and the index of what it embeds."""
    embedder = Embedder.options(  # type: ignore[attr-defined]
        name=f"{prefix}Embedder"
    ).bind(arguments)
    index = VectorIndex.options(  # type: ignore[attr-defined]
        name=f"{prefix}VectorIndex"
    ).bind(arguments, embedder)
    return embedder, index


def _previous_space(
    settings: Settings, arguments: dict[str, Any]
) -> tuple[Application | None, Application | None]:
    """The same for the model before, if one is named: they go when it is named no longer."""
    if settings.embedder.previous is None:
        return None, None
    embedder = {**arguments.get("embedder", {}), **settings.embedder.previous.overrides()}
    return _space({**arguments, "embedder": embedder}, prefix="Previous")


def _reranker(settings: Settings, arguments: dict[str, Any]) -> Application | None:
    """The reranker, if a model is named."""
    if settings.reranker.model is None:
        return None
    return Reranker.bind(arguments)  # type: ignore[attr-defined, no-any-return]


def serve_config(settings: Settings, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Writes the Serve config that deploys the application."""
    return {
        "proxy_location": "EveryNode",
        "http_options": {"host": "0.0.0.0", "port": settings.serve.http_port},
        "grpc_options": {
            "port": settings.serve.grpc_port,
            "request_timeout_s": REQUEST_TIMEOUT_S,
            "grpc_servicer_functions": SERVICERS,
        },
        "logging_config": {"encoding": "JSON", "log_level": "INFO", "enable_access_log": False},
        "applications": [
            {
                "name": APPLICATION,
                "route_prefix": "/",
                "import_path": IMPORT_PATH,
                "args": dict(arguments),
                "deployments": [{"name": "Fusion", "user_config": {"profiles": {}}}],
            }
        ],
    }

"""The Serve application: its deployments, by placement.

`single` has one deployment; `split` has one for each part that scales independently; `gpu` has
embedder and index in one. The application is built from arguments, so the same YAML works on a desk
and on a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ray.serve import Application

from serving.composition.authentication import require_authentication
from serving.composition.gpu_share import resources
from serving.config.settings import Settings, load_settings
from serving.deployments import ingress, parts
from serving.deployments.handles import SpaceHandles
from serving.domain.shards import WHOLE, Shard, all_shards

APPLICATION = "trivium"
IMPORT_PATH = "serving.deployments.app:build"
SERVICERS = [
    "serving.rpc.registration.add_retrieval_service",
    "serving.rpc.registration.add_ingest_service",
    "serving.rpc.registration.add_catalog_service",
    "serving.rpc.registration.add_admin_service",
    "grpc_health.v1.health_pb2_grpc.add_HealthServicer_to_server",
]
REQUEST_TIMEOUT_S = 3600.0
"""The longest that any call may take: that of a long ingest stream."""

INGRESS: Any = ingress.Ingress
PARTS: Any = parts
"""Deployments, which mypy takes for classes."""


def build(arguments: dict[str, Any]) -> Application:
    """Builds the application for `serve deploy`, from settings as in the settings file.

    Each replica also reads its own environment, so secrets need not be given here.
    """
    settings = load_settings(arguments)
    require_authentication(settings)
    gpus = settings.serve.gpus
    entry = INGRESS.options(
        num_replicas=settings.serve.replicas,
        max_ongoing_requests=settings.serve.max_ongoing_requests,
        max_queued_requests=settings.serve.max_queued_requests,
        ray_actor_options=resources(gpus.ingress),
    )
    others: dict[str, Any] = {}
    if settings.extraction.api is not None:
        others["extraction"] = PARTS.Extraction.bind(arguments)
    if settings.serve.placement != "single":
        others["space"] = space = _space(settings, arguments)
        others["projector"] = PARTS.Projector.bind(arguments, space.embedder)
        others["reranker"] = None
        if settings.reranker.model is not None:
            reranker = PARTS.Reranker.options(ray_actor_options=resources(gpus.reranker))
            others["reranker"] = reranker.bind(arguments)
    application: Application = entry.bind(arguments, **others)
    return application


def _space(settings: Settings, arguments: dict[str, Any]) -> SpaceHandles:
    """Binds an embedder and the index of its vectors.

    In the placement `gpu` each shard has its own embedder, so that a question's vector stays on the
    device where it is searched; documents are embedded by the first shard.
    """
    on_gpu = resources(settings.serve.gpus.embedder)
    shards = all_shards(settings.index.shards)
    if settings.serve.placement == "gpu":
        space = PARTS.VectorSpace.options(ray_actor_options=on_gpu)
        both = [
            space.options(name=f"VectorSpace{_suffix(shard)}").bind(arguments, shard)
            for shard in shards
        ]
        return SpaceHandles(both[0], both, searches_text=True)
    embedder = PARTS.Embedder.options(ray_actor_options=on_gpu).bind(arguments)
    index = PARTS.VectorIndex.options(ray_actor_options=resources(settings.serve.gpus.index))
    indexes = [
        index.options(name=f"VectorIndex{_suffix(shard)}").bind(arguments, embedder, shard)
        for shard in shards
    ]
    return SpaceHandles(embedder, indexes)


def _suffix(shard: Shard) -> str:
    """Returns the suffix of a shard's deployments, which names the number of shards too.

    So after a change of that number the old deployments answer until the new ones are ready.
    """
    return "" if shard == WHOLE else f"-{shard.number}-of-{shard.count}"


def serve_config(settings: Settings, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the Serve config that deploys the application."""
    return {
        "proxy_location": "EveryNode",
        "http_options": {"host": "0.0.0.0", "port": settings.serve.http_port},
        "grpc_options": {
            "port": settings.serve.grpc_port,
            "request_timeout_s": REQUEST_TIMEOUT_S,
            "grpc_servicer_functions": SERVICERS,
            **({} if settings.serve.reflection else {"enable_reflection": False}),
        },
        "logging_config": {"encoding": "JSON", "log_level": "INFO", "enable_access_log": False},
        "applications": [
            {
                "name": APPLICATION,
                "route_prefix": "/",
                "import_path": IMPORT_PATH,
                "args": dict(arguments),
                "deployments": [{"name": "Ingress", "user_config": {"profiles": {}}}],
            }
        ],
    }

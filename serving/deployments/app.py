"""The composition root for Ray Serve: which deployments there are, by placement.

`fused` has one deployment; `split` has one for each part that scales by itself; `gpu` has
embedder and index in one. Each is a Serve application built from arguments, so the same YAML
serves a desk and a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ray.serve import Application

from serving.config import Settings, load_settings
from serving.deployments.encoder import Embedder
from serving.deployments.gpu_share import resources
from serving.deployments.handles import SpaceHandles
from serving.deployments.index import VectorIndex
from serving.deployments.ingress import Fusion
from serving.deployments.projector import Projector
from serving.deployments.reranker import Reranker
from serving.deployments.twins import EmbedderTwin, VectorIndexTwin
from serving.deployments.vector_space import VectorSpace
from serving.domain.shards import WHOLE, Shard, all_shards

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
    gpus = settings.serve.gpus
    ingress = Fusion.options(  # type: ignore[attr-defined]
        num_replicas=settings.serve.replicas,
        max_ongoing_requests=settings.serve.max_ongoing_requests,
        max_queued_requests=settings.serve.max_queued_requests,
        ray_actor_options=resources(gpus.fusion),
    )
    if settings.serve.placement == "fused":
        return ingress.bind(arguments)  # type: ignore[no-any-return]
    space = _with_twins(_space(settings, arguments), settings, arguments)
    previous = _previous_space(settings, arguments)
    return ingress.bind(  # type: ignore[no-any-return]
        arguments,
        space=space,
        previous=previous,
        projector=Projector.bind(  # type: ignore[attr-defined]
            arguments, space.embedder, previous.embedder
        ),
        reranker=_reranker(settings, arguments),
    )


def _space(settings: Settings, arguments: dict[str, Any], prefix: str = "") -> SpaceHandles:
    """An embedder and the index of what it embeds, as applications that become handles.

    In the placement `gpu` each shard has an embedder of its own beside it, so that a question's
    vector stays where it is searched; documents are embedded by the first.
    """
    on_gpu = resources(settings.serve.gpus.embedder)
    shards = all_shards(settings.index.shards)
    if settings.serve.placement == "gpu":
        both = [
            VectorSpace.options(  # type: ignore[attr-defined]
                name=f"{prefix}VectorSpace{_suffix(shard)}", ray_actor_options=on_gpu
            ).bind(arguments, shard)
            for shard in shards
        ]
        return SpaceHandles(embedder=both[0], index=both, semantic=both)
    embedder = Embedder.options(  # type: ignore[attr-defined]
        name=f"{prefix}Embedder", ray_actor_options=on_gpu
    ).bind(arguments)
    index = [
        VectorIndex.options(  # type: ignore[attr-defined]
            name=f"{prefix}VectorIndex{_suffix(shard)}",
            ray_actor_options=resources(settings.serve.gpus.index),
        ).bind(arguments, embedder, shard)
        for shard in shards
    ]
    return SpaceHandles(embedder=embedder, index=index)


def _with_twins(space: SpaceHandles, settings: Settings, arguments: dict[str, Any]) -> SpaceHandles:
    """The space with the twins that the settings ask for.

    Each shard has its own: a lost device takes one shard's rows, and what stands in for it needs
    the memory and the time for no more than these.
    """
    embedder_twin, index_twins = None, []
    if settings.embedder.twin != "off":
        embedder_twin = EmbedderTwin.bind(arguments, space.embedder)  # type: ignore[attr-defined]
    if settings.index.twin != "off":
        index_twins = [
            VectorIndexTwin.options(  # type: ignore[attr-defined]
                name=f"VectorIndexTwin{_suffix(shard)}"
            ).bind(arguments, space.embedder, shard)
            for shard in all_shards(settings.index.shards)
        ]
    return replace(space, embedder_twin=embedder_twin, index_twins=index_twins)


def _suffix(shard: Shard) -> str:
    """What tells the deployments of shards apart: another number of shards is another name.

    So the deployments of former shards answer until those of the new ones are there.
    """
    return "" if shard == WHOLE else f"-{shard.number}-of-{shard.count}"


def _previous_space(settings: Settings, arguments: dict[str, Any]) -> SpaceHandles:
    """The same for the model before, if one is named: they go when it is named no longer.

    They have no twins, since they are there for a while only.
    """
    if settings.embedder.previous is None:
        return SpaceHandles()
    embedder = {**arguments.get("embedder", {}), **settings.embedder.previous.overrides()}
    return _space(settings, {**arguments, "embedder": embedder}, prefix="Previous")


def _reranker(settings: Settings, arguments: dict[str, Any]) -> Application | None:
    """The reranker, if a model is named."""
    if settings.reranker.model is None:
        return None
    return Reranker.options(  # type: ignore[attr-defined, no-any-return]
        ray_actor_options=resources(settings.serve.gpus.reranker)
    ).bind(arguments)


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

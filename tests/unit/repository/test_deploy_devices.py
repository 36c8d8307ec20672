"""Which part of each Serve config in `deploy/` runs on which device, and whether it fits there."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ray.serve._private.build_app import build_app

from bench.gpu.networks.random_weights import PUBLISHED, parameters
from serving.composition.gpu_share import left_by_lists
from serving.composition.index import SpaceParts
from serving.config.settings import Settings, load_settings
from serving.deployments import handles, ingress, parts, replica
from serving.deployments.app import build

DEPLOY = Path(__file__).parents[3] / "deploy"
SHIPPED = sorted(path.name for path in DEPLOY.glob("serve.*.yaml"))

EMBEDDER, INDEX, RERANKER = "embedder", "index", "reranker"

MODELS_ON_GPUS: Mapping[str, Mapping[str, str]] = {
    "Fusion": {},
    "Projector": {},
    "VectorSpace": {EMBEDDER: "cuda", INDEX: "cuda"},
    "Reranker": {RERANKER: "cuda"},
}

PLACED: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "serve.single.yaml": {"Fusion": {EMBEDDER: "cpu", INDEX: "cpu"}},
    "serve.split.yaml": {
        "Fusion": {},
        "Projector": {},
        "Embedder": {EMBEDDER: "cpu"},
        "VectorIndex": {INDEX: "cpu"},
    },
    "serve.gpu-small.yaml": {"Fusion": {EMBEDDER: "cuda", INDEX: "cpu", RERANKER: "cuda"}},
    "serve.gpu-big.yaml": MODELS_ON_GPUS,
    "serve.blackwell.yaml": MODELS_ON_GPUS,
    "serve.gpus.yaml": MODELS_ON_GPUS,
}
"""The parts of each deployment, with the device of each."""

ON_GPU = [name for name, its in PLACED.items() if "VectorSpace" in its]

SMALLEST_GIB = {"serve.gpu-big.yaml": 48, "serve.gpus.yaml": 48, "serve.blackwell.yaml": 95}
"""The memory of the smallest device that the head of each file names."""

MILLIONS = {"serve.gpu-big.yaml": 1.25, "serve.gpus.yaml": 3.1, "serve.blackwell.yaml": 2.85}
"""The rows that fit, as the head of each file says."""

GIB = 2**30
PASS_GIB = 1.3
"""Of a forward pass and the recorded graphs (docs/gpu.md)."""

PADDING = 1.2
"""Lists are allocated in powers of two, or in multiples of 32 rows: at most so much more."""


def arguments_of(name: str) -> dict[str, Any]:
    [application] = yaml.safe_load((DEPLOY / name).read_text())["applications"]
    return {**application["args"], "auth": {"allow_anonymous": True}}


# ---------------------------------------------------------------- where each part runs


class Opened:
    """Stands for what a replica opens, and notes the device of each part that would be in it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.parts: dict[str, str] = {}
        self.cap = 1.0
        for module in (ingress, parts):
            monkeypatch.setattr(module, "cap_gpu_memory", self._capped)
        # Both would change this process for the tests after this one.
        monkeypatch.setattr(replica, "set_up_interpreter", lambda: None)
        monkeypatch.setattr(replica, "log_through_serve", lambda: None)
        monkeypatch.setattr(parts, "open_embedder", self._opens(EMBEDDER))
        monkeypatch.setattr(parts, "open_index", self._opens(INDEX))
        monkeypatch.setattr(parts, "open_space", self._opens(EMBEDDER, INDEX))
        monkeypatch.setattr(parts, "open_reranker", self._opens(RERANKER))
        monkeypatch.setattr(parts, "running_projector", self._opens())
        monkeypatch.setattr(ingress, "running_service", self._runs)
        # Handles connect only in a cluster.
        monkeypatch.setattr(handles.Remote, "__init__", lambda *_: None)

    def _capped(self, share: float) -> None:
        self.cap = share

    def _opens(self, *parts: str) -> Any:
        @asynccontextmanager
        async def opened(settings: Settings, *_: object) -> AsyncIterator[SimpleNamespace]:
            self._note(settings, *parts)
            yield SimpleNamespace(embedder=None, index=None, text_search=None)

        return opened

    @asynccontextmanager
    async def _runs(
        self, settings: Settings, *, space: SpaceParts, reranker: object, **_: object
    ) -> AsyncIterator[SimpleNamespace]:
        here = [EMBEDDER] * (space.embedder is None) + [INDEX] * (space.index is None)
        if settings.reranker.model is not None and reranker is None:
            here.append(RERANKER)
        self._note(settings, *here)
        yield SimpleNamespace(
            use_cases=SimpleNamespace(),
            profiles={},
            recorder=None,
            tracer=None,
            access=None,
            streams=None,
        )

    def _note(self, settings: Settings, *parts: str) -> None:
        self.parts |= {part: getattr(settings, part).device for part in parts}


async def placed(name: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Opened]:
    """What a replica of each deployment opens, by deployment."""
    found = {}
    for each in build_app(build(arguments_of(name)), name="trivium").deployments:
        found[each.name] = Opened(monkeypatch)
        # Serve awaits `__init__` and `__del__`; Python would only call the latter.
        deployment: Any = each
        deployed = deployment.func_or_class
        held: object = object.__new__(type("Held", (deployed,), {"__del__": lambda _: None}))
        await deployed.__init__(held, *deployment.init_args, **deployment.init_kwargs)
    return found


@pytest.mark.parametrize("name", SHIPPED)
async def test_parts_run_on_the_device_of_the_config(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = await placed(name, monkeypatch)
    deployments = build_app(build(arguments_of(name)), name="trivium").deployments
    shares = {each.name: (each.ray_actor_options or {})["num_gpus"] for each in deployments}

    assert {deployment: its.parts for deployment, its in opened.items()} == PLACED[name]
    # Only parts on a GPU have a share of it.
    assert {each for each, share in shares.items() if share} == {
        deployment for deployment, its in opened.items() if "cuda" in its.parts.values()
    }
    assert all(opened[each].cap <= share for each, share in shares.items() if share)


# ---------------------------------------------------------------- memory


def shared_by(name: str) -> tuple[float, float]:
    """The GiB of the smallest device that cuVS and torch may take in `VectorSpace`."""
    settings = load_settings(arguments_of(name))
    share, gib = settings.serve.gpus.embedder, SMALLEST_GIB[name]
    lists = share * settings.index.lists_share
    # A whole GPU is not capped, but lists take their part of it.
    torch = min(left_by_lists(share, settings.index), share - lists)
    return lists * gib, torch * gib


@pytest.mark.parametrize("name", ON_GPU)
def test_rows_in_head_of_config_fit_smallest_device(name: str) -> None:
    settings = load_settings(arguments_of(name))
    assert (settings.index.device, settings.index.kind) == ("cuda", "auto")
    size = settings.embedder.model.rpartition("-")[2]
    row_gib = MILLIONS[name] * 1e6 * 2 * (settings.embedder.dimension or 0) / GIB
    weights_gib = 2 * parameters(PUBLISHED[size]) / GIB

    lists_gib, torch_gib = shared_by(name)

    assert 2 * PADDING * row_gib <= lists_gib, "the lists, and those of a rebuild"
    assert weights_gib + PASS_GIB + row_gib <= torch_gib, "the weights, a pass and the vectors"


@pytest.mark.parametrize("name", ON_GPU)
def test_the_head_of_a_config_names_the_weights_of_its_model(name: str) -> None:
    head = (DEPLOY / name).read_text().partition("proxy_location")[0]
    size = load_settings(arguments_of(name)).embedder.model.rpartition("-")[2]
    weights_gib = 2 * parameters(PUBLISHED[size]) / GIB

    assert re.search(rf"weights of the {size} +{weights_gib:.1f}\b", head)
    assert f"{SMALLEST_GIB[name]}" in head

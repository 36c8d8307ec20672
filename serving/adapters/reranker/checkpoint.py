"""A reranker's checkpoint folder: finding it, its kind, and its window."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from serving.domain.errors import DependencyError

LONGEST_WINDOW = 1024
"""The limit in tokens of question and text; 8192 would take too long for a request."""

FILES = ["*.json", "*.safetensors", "*.txt", "*.model"]
"""The files downloaded from the hub. Other weight formats are excluded: they could run code."""

OTHER_RUNTIMES = ["onnx/*", "openvino/*"]


class Kind(StrEnum):
    """The output by which a checkpoint expresses relevance."""

    ONE_LOGIT = "one_logit"
    """An encoder with one output: ms-marco-MiniLM, bge-reranker."""
    YES_OR_NO = "yes_or_no"
    """A language model whose next token answers "yes" or "no": Qwen3-Reranker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankerCheckpoint:
    """A reranker's folder; its weights are not loaded.

    `window` is in tokens of question and text together, special ones included.
    """

    folder: Path
    kind: Kind
    window: int

    @property
    def config(self) -> Mapping[str, Any]:
        return _read_json(self.folder / "config.json")


def open_checkpoint(model: str, *, download: bool = False) -> RerankerCheckpoint:
    """Finds a checkpoint and reads its kind and window.

    The model is a folder or a Hugging Face id; without `download` that is only read from the hub's
    cache.

    Raises:
        DependencyError: The checkpoint does not exist, lacks files, or is of an unknown kind.
            The reason names no path, since clients see it.
    """
    folder = _find_folder(model, download)
    if not any(folder.glob("*.safetensors")):
        raise _refused("the checkpoint has no safetensors")
    config = _read_json(folder / "config.json")
    window = min(_positions(config), _tokenizer_limit(folder), LONGEST_WINDOW)
    return RerankerCheckpoint(folder=folder, kind=_kind(folder, config), window=window)


def _refused(why: str) -> DependencyError:
    return DependencyError("reranker", why)


def _find_folder(model: str, download: bool) -> Path:
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder
    # Imported late: a folder does not need it.
    from huggingface_hub import snapshot_download

    try:
        return Path(
            snapshot_download(
                model,
                allow_patterns=FILES,
                ignore_patterns=OTHER_RUNTIMES,
                local_files_only=not download,
            )
        )
    except Exception as error:
        # The type of error that the hub's client raises without a network varies.
        why = f"the model is no folder and not available from the hub ({type(error).__name__})"
        raise _refused(why) from error


def _kind(folder: Path, config: Mapping[str, Any]) -> Kind:
    model_type = config.get("model_type")
    architecture = (config.get("architectures") or [""])[0]
    if architecture == "Qwen3ForCausalLM" and not _is_embedder(folder):
        return Kind.YES_OR_NO
    if model_type in ENCODERS and architecture.endswith("ForSequenceClassification"):
        labels = len(config.get("id2label") or TWO_LABELS)
        if labels != 1:
            raise _refused(f"the model has {labels} outputs, but a reranker has one")
        return Kind.ONE_LOGIT
    raise _refused(f"a model of type {model_type!r} ({architecture}) is no known reranker")


ENCODERS = ("bert", "xlm-roberta")

TWO_LABELS = ("LABEL_0", "LABEL_1")
"""The default of transformers where a configuration names no labels."""


def _is_embedder(folder: Path) -> bool:
    """Whether it has a pooling module: Qwen3-Embedding has the same architecture otherwise."""
    modules = folder / "modules.json"
    return modules.is_file() and any(
        str(module["type"]).endswith("Pooling") for module in json.loads(modules.read_text())
    )


def _positions(config: Mapping[str, Any]) -> int:
    positions = int(config["max_position_embeddings"])
    if config["model_type"] == "xlm-roberta":
        # Its positions start after that of the padding token: 514 are for 512 tokens.
        return positions - int(config.get("pad_token_id", 1)) - 1
    return positions


def _tokenizer_limit(folder: Path) -> int:
    settings = folder / "tokenizer_config.json"
    limit = _read_json(settings).get("model_max_length") if settings.is_file() else None
    return int(limit) if limit is not None else LONGEST_WINDOW


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise _refused(f"the checkpoint has no {path.name}")
    return dict(json.loads(path.read_text()))

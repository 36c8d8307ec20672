"""A reranker's folder: where it is, of which kind it is, and how much it reads at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from serving.domain.errors import DependencyError
from serving.models.precision import QUANTIZED

LONGEST_WINDOW = 1024
"""Tokens of question and text, where the model would take more: a caller has no time for 8192."""

FILES = ["*.json", "*.safetensors", "*.txt", "*.model"]
"""What is fetched from the hub: weights in no other format, since those could run code."""

OTHER_RUNTIMES = ["onnx/*", "openvino/*"]


class Kind(StrEnum):
    """How a checkpoint tells relevance."""

    ONE_LOGIT = "one_logit"
    """An encoder with one output: ms-marco-MiniLM, bge-reranker."""
    YES_OR_NO = "yes_or_no"
    """A language model that is asked, and whose next word counts: Qwen3-Reranker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A folder with a reranker, read but not loaded.

    `window` counts tokens of question and text together, special ones included.
    """

    folder: Path
    kind: Kind
    window: int

    @property
    def config(self) -> Mapping[str, Any]:
        """What `config.json` says."""
        return _read_json(self.folder / "config.json")


def open_checkpoint(model: str, *, window: int | None = None, download: bool = False) -> Checkpoint:
    """Finds a checkpoint and reads what it is.

    Args:
        model: A folder, or a Hugging Face id.
        window: The longest window in tokens; None for the model's own, at most `LONGEST_WINDOW`.
        download: Whether an id may be fetched from the hub, not only from its cache.

    Raises:
        DependencyError: There is no such checkpoint, it lacks files, or it is no reranker of a
            known kind. The reason names no path, since callers see it.
        ValueError: `window` exceeds the model's.
    """
    folder = _find_folder(model, download)
    if not any(folder.glob("*.safetensors")):
        raise _refused("the checkpoint has no safetensors")
    config = _read_json(folder / "config.json")
    return Checkpoint(
        folder=folder, kind=_kind(folder, config), window=_window(folder, config, window)
    )


def require_computed(kind: Kind, precision: str, attention: str) -> None:
    """Refuses what a kind of checkpoint is not computed in.

    Raises:
        DependencyError: It is for a Qwen3 alone, and this is none.
    """
    if kind is Kind.YES_OR_NO:
        return
    if precision in QUANTIZED:
        raise _refused(f"precision {precision} is for a Qwen3-Reranker alone, which this is not")
    if attention == "varlen":
        raise _refused("attention varlen is for a Qwen3-Reranker alone, which this is not")


def _refused(why: str) -> DependencyError:
    return DependencyError("reranker", why)


def _find_folder(model: str, download: bool) -> Path:
    folder = Path(model).expanduser()
    return folder if folder.is_dir() else _hub_folder(model, download)


def _hub_folder(model: str, download: bool) -> Path:
    # Here, since a folder needs none of it.
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
        # What the hub's client raises without a network depends on how there is none.
        why = f"the model is no folder and not to be had from the hub ({type(error).__name__})"
        raise _refused(why) from error


def _kind(folder: Path, config: Mapping[str, Any]) -> Kind:
    model_type = config.get("model_type")
    architecture = (config.get("architectures") or [""])[0]
    if architecture == "Qwen3ForCausalLM" and not _is_embedder(folder):
        return Kind.YES_OR_NO
    if model_type in ENCODERS and architecture.endswith("ForSequenceClassification"):
        labels = len(config.get("id2label") or TWO_LABELS)
        if labels != 1:
            raise _refused(f"the model has {labels} outputs where a reranker has one")
        return Kind.ONE_LOGIT
    raise _refused(f"a model of the type {model_type!r} ({architecture}) is no known reranker")


ENCODERS = ("bert", "xlm-roberta")

TWO_LABELS = ("LABEL_0", "LABEL_1")
"""What transformers takes to be meant where a configuration names none."""


def _is_embedder(folder: Path) -> bool:
    """Whether sentence-transformers pools it: Qwen3-Embedding has the reranker's architecture."""
    modules = folder / "modules.json"
    return modules.is_file() and any(
        str(module["type"]).endswith("Pooling") for module in json.loads(modules.read_text())
    )


def _window(folder: Path, config: Mapping[str, Any], wanted: int | None) -> int:
    own = min(_positions(config), _tokenizer_limit(folder))
    if wanted is None:
        return min(own, LONGEST_WINDOW)
    if not 1 <= wanted <= own:
        raise ValueError(f"window must be from 1 to the model's {own}, got {wanted}")
    return wanted


def _positions(config: Mapping[str, Any]) -> int:
    positions = int(config["max_position_embeddings"])
    if config["model_type"] == "xlm-roberta":
        # Its positions begin after that of the padding: 514 are for 512 tokens.
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

"""A sentence encoder's checkpoint folder: finding it, reading it, and its fingerprint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from serving.domain.errors import DependencyError
from serving.ports.embedding import TEXT_FORM, EmbeddingModel

GRAPH_FILE = "onnx/model.onnx"
"""The path of a ready ONNX graph in float32 within a folder."""

WINDOW_OVERLAP = 32
"""The tokens that consecutive windows share."""

MIN_DIMENSIONS = {"qwen3": 32}
"""The shortest prefix that a model was trained for (Matryoshka), by `model_type`."""

LONGEST_WINDOW = 2048
"""The limit for models with longer windows, since one vector blurs long texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderCheckpoint:
    """A folder in the sentence-transformers layout; its weights are not loaded.

    `modules` are the steps from tokens to a vector: "Transformer", "Pooling", "Dense",
    "Normalize". `window` is in tokens, special ones included.
    """

    folder: Path
    model: EmbeddingModel
    modules: tuple[str, ...]
    pooling: str
    window: int
    query_prompt: str = ""
    document_prompt: str = ""

    @property
    def architecture(self) -> Mapping[str, Any]:
        return _read_json(self.folder / "config.json")

    @property
    def graph(self) -> Path | None:
        """The ONNX graph in float32, if the folder has no weights for torch."""
        return self.folder / GRAPH_FILE if has_only_graph(self.folder) else None


def in_precision(model: EmbeddingModel, precision: str) -> EmbeddingModel:
    """The model with all of its arithmetic in a precision.

    If not float32, it is part of the fingerprint, since it moves vectors further than two
    runtimes may differ.
    """
    if precision == "float32":
        return model
    return replace(model, fingerprint=f"{model.fingerprint}-{precision}")


def has_only_graph(folder: Path) -> bool:
    """Whether a folder has an ONNX graph, and no weights for torch."""
    return (folder / GRAPH_FILE).is_file() and not any(_weight_files(folder))


def open_checkpoint(
    model: str, *, dimension: int | None = None, sha256: str | None = None, download: bool = False
) -> EncoderCheckpoint:
    """Finds a checkpoint, verifies its weights, and reads its configuration.

    The model is a folder or a Hugging Face id; without `download` that is only read from the hub's
    cache. Vectors are truncated to `dimension` (Matryoshka); None keeps the model's own. `sha256`
    is the expected hash of the weights.

    Raises:
        DependencyError: The checkpoint does not exist, lacks files, or its weights have another
            hash.
        ValueError: `dimension` exceeds the model's.
    """
    folder = _find_folder(model, download)
    weights = _weights_sha256(folder)
    if sha256 is not None and weights != sha256:
        raise DependencyError(
            "embedder", f"the weights of {model!r} have SHA-256 {weights}, expected {sha256}"
        )
    return _read_checkpoint(folder, weights, dimension)


def _find_folder(model: str, download: bool) -> Path:
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder
    if names_folder(model):
        raise DependencyError("embedder", f"there is no folder {model!r}")
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(model, local_files_only=not download))
    except (OSError, ValueError) as error:
        why = f"the model {model!r} is no folder and not on this machine"
        raise DependencyError("embedder", why) from error


def names_folder(model: str) -> bool:
    """Whether a model is named by a path, and not by a hub id."""
    return model.startswith(("/", "./", "../", "~"))


def _weights_sha256(folder: Path) -> str:
    """The hash of the weights file, or of the hashes of several; without any, of the graph."""
    digests = [_file_sha256(path) for path in _weight_files(folder)]
    if has_only_graph(folder):
        digests = [_file_sha256(folder / GRAPH_FILE)]
    if not digests:
        raise DependencyError(
            "embedder", f"the checkpoint has neither safetensors nor {GRAPH_FILE}"
        )
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def _weight_files(folder: Path) -> Iterator[Path]:
    """The transformer's weights, then those of later modules such as Dense."""
    yield from sorted(folder.glob("*.safetensors"))
    yield from sorted(folder.glob("[0-9]*_*/*.safetensors"))


def _file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_checkpoint(folder: Path, weights: str, dimension: int | None) -> EncoderCheckpoint:
    modules = _read_modules(folder)
    prompts = _read_json(folder / "config_sentence_transformers.json").get("prompts") or {}
    query_prompt = str(prompts.get("query", ""))
    document_prompt = str(prompts.get("document") or prompts.get("passage") or "")
    native = _native_dimension(folder, modules)
    least = MIN_DIMENSIONS.get(_read_json(folder / "config.json").get("model_type", ""), 1)
    if dimension is not None and not least <= dimension <= native:
        raise ValueError(f"dimension must be from {least} to the model's {native}, got {dimension}")
    dimension = dimension or native
    tokenizer = folder / "tokenizer.json"
    if not tokenizer.is_file():
        raise DependencyError("embedder", "the checkpoint has no tokenizer.json")
    window = _window(folder)
    described = {
        "weights": weights,
        "config": _file_sha256(folder / "config.json"),
        "tokenizer": _file_sha256(tokenizer),
        "modules": {name: _read_json(folder / path / "config.json") for path, name in modules},
        "prompts": [query_prompt, document_prompt],
        "dimension": dimension,
        "window": [window, WINDOW_OVERLAP],
        "text_form": TEXT_FORM,
    }
    digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode())
    return EncoderCheckpoint(
        folder=folder,
        model=EmbeddingModel(digest.hexdigest()[:32], dimension),
        modules=tuple(name for _, name in modules),
        pooling=_pooling(folder, modules),
        window=window,
        query_prompt=query_prompt,
        document_prompt=document_prompt,
    )


def _read_modules(folder: Path) -> list[tuple[str, str]]:
    """Path and class name of each module; without a list, mean pooling is assumed."""
    path = folder / "modules.json"
    if not path.is_file():
        return [("", "Transformer"), ("", "Pooling")]
    listed = json.loads(path.read_text())
    return [(str(module["path"]), str(module["type"]).rsplit(".", 1)[-1]) for module in listed]


def _native_dimension(folder: Path, modules: list[tuple[str, str]]) -> int:
    dimension = int(_read_json(folder / "config.json")["hidden_size"])
    for path, name in modules:
        if name == "Dense":
            dimension = int(_read_json(folder / path / "config.json")["out_features"])
    return dimension


def _pooling(folder: Path, modules: list[tuple[str, str]]) -> str:
    """The pooling mode; two formats of the settings file are in use."""
    for path, name in modules:
        if name == "Pooling" and path:
            settings = _read_json(folder / path / "config.json")
            if "pooling_mode" in settings:
                return str(settings["pooling_mode"])
            chosen = [key for key, on in settings.items() if key.startswith("pooling_") and on]
            return "+".join(_POOLING_NAMES.get(key, key) for key in chosen)
    return "mean"


_POOLING_NAMES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_lasttoken": "lasttoken",
}


def _window(folder: Path) -> int:
    """The window in tokens; the model's own by the rule of sentence-transformers."""
    own = _read_json(folder / "sentence_bert_config.json").get("max_seq_length")
    if own is None:
        positions = _read_json(folder / "config.json").get("max_position_embeddings")
        tokenizer = _read_json(folder / "tokenizer_config.json").get("model_max_length")
        own = min(limit for limit in (positions, tokenizer, LONGEST_WINDOW) if limit is not None)
    return min(int(own), LONGEST_WINDOW)


def _read_json(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text())) if path.is_file() else {}

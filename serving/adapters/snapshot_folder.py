"""Snapshots of a vector index as folders of files.

A snapshot is a folder with the engine's files and a manifest that says what they are and has a
SHA-256 of each. It is written beside its place and moved there when it is whole, so that one
without a manifest, or half of one, is never found.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from serving.domain.consistency import Snapshot
from serving.domain.shards import Shard
from serving.domain.text import TextForm
from serving.ports import (
    DamagedSnapshotError,
    EmbeddingModel,
    FeedPosition,
    IndexEngine,
    SnapshotLabel,
)

logger = logging.getLogger(__name__)

FORMAT = 1
MANIFEST = "manifest.json"
ASIDE, UNFINISHED = "set-aside-", "unfinished-"
KEPT = 2

STALE_S = 24 * 3600.0
"""Older snapshots of other models and shares go: they hold vectors of what may be erased."""


class SnapshotFolder:
    """The port `IndexSnapshots`.

    Several processes may use one folder: each writes snapshots under names of its own.

    Args:
        root: For snapshots of all models and shares.
        shard: The share of all rows that this one is of.
        clock: Tells the seconds since 1970.
    """

    def __init__(self, root: Path, shard: Shard, *, clock: Callable[[], float] = time.time) -> None:
        self._root = root
        self._shard = shard
        self._clock = clock

    def save(self, engine: IndexEngine, label: SnapshotLabel) -> None:
        """Writes what the engine holds, and gives up older snapshots.

        Raises:
            OSError: It cannot be written; those there are stay.
        """
        home = self._home(label.model)
        unfinished = home / f"{UNFINISHED}{uuid.uuid4().hex}"
        unfinished.mkdir(parents=True, mode=0o700)
        try:
            engine.save(unfinished)
            (unfinished / MANIFEST).write_text(json.dumps(self._manifest(label, unfinished)))
            for path in (*unfinished.iterdir(), unfinished):
                _sync(path)
            unfinished.rename(home / f"{self._clock():017.6f}-{label.epoch}-{uuid.uuid4().hex[:8]}")
            _sync(home)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
        for old in list(_newest_first(home))[KEPT:]:
            shutil.rmtree(old, ignore_errors=True)
        self._give_up_stale()

    def restore(self, engine: IndexEngine, model: EmbeddingModel) -> SnapshotLabel | None:
        """Fills the engine with the newest snapshot that is whole; None if there is none.

        One that is damaged, or says that it is another's, is set aside under another name.
        """
        for folder in _newest_first(self._home(model)):
            try:
                label, shard = _label(folder)
                if (label.model, shard) != (model, self._shard):
                    raise DamagedSnapshotError("it is of another model or share")
                engine.restore(folder)
            except DamagedSnapshotError as error:
                logger.warning(
                    "index sets a snapshot aside",
                    extra={"snapshot": folder.name, "reason": str(error)},
                )
                folder.rename(folder.with_name(ASIDE + folder.name))
            else:
                return label
        return None

    def _manifest(self, label: SnapshotLabel, folder: Path) -> dict[str, Any]:
        position = label.position
        return {
            "format": FORMAT,
            "model": label.model.fingerprint,
            "dimension": label.model.dimension,
            "text_form": label.model.text_form,
            "shard": [self._shard.number, self._shard.count],
            "epoch": label.epoch,
            "log": {
                "epoch": position.epoch,
                "log": str(position.log),
                "embedded": str(position.embedded),
                "complete": position.complete,
            },
            "files": {path.name: _sha256(path) for path in sorted(folder.iterdir())},
        }

    def _home(self, model: EmbeddingModel) -> Path:
        digest = hashlib.sha256(f"{model.fingerprint} {model.dimension}".encode()).hexdigest()
        return self._root / f"{digest[:16]}-{self._shard.number}-of-{self._shard.count}"

    def _give_up_stale(self) -> None:
        oldest = self._clock() - STALE_S
        for folder in self._root.glob("*/*"):
            if folder.stat().st_mtime < oldest:
                shutil.rmtree(folder, ignore_errors=True)


def _newest_first(home: Path) -> Iterator[Path]:
    """The whole snapshots of a home."""
    names = sorted(home.iterdir(), reverse=True) if home.is_dir() else []
    return (path for path in names if not path.name.startswith((ASIDE, UNFINISHED)))


def _label(folder: Path) -> tuple[SnapshotLabel, Shard]:
    """What a snapshot is of, and which share, once its files are what they were.

    Raises:
        DamagedSnapshotError: They are not, or the manifest is of another version.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        if manifest["format"] != FORMAT:
            raise DamagedSnapshotError(f"it is of format {manifest['format']}, not {FORMAT}")
        for name, digest in manifest["files"].items():
            if _sha256(folder / name) != digest:
                raise DamagedSnapshotError(f"{name} has changed")
        log = manifest["log"]
        shard = Shard(*manifest["shard"])
        label = SnapshotLabel(
            model=EmbeddingModel(
                manifest["model"], manifest["dimension"], TextForm(manifest["text_form"])
            ),
            position=FeedPosition(
                log["epoch"],
                Snapshot.parse(log["log"]),
                Snapshot.parse(log["embedded"]),
                log["complete"],
            ),
            epoch=int(manifest["epoch"]),
        )
        return label, shard
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedSnapshotError(f"{MANIFEST}: {error}") from error


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Snapshots of a vector index as folders of files.

A snapshot is a folder with the engine's files and a manifest that describes them and has a SHA-256
of each. It is written under a temporary name and renamed when complete, so that an incomplete
snapshot is never found.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from serving.domain.consistency import ConsistencyToken, Snapshot
from serving.domain.items.text import TextForm
from serving.domain.shards import Shard
from serving.ports.embedding import EmbeddingModel
from serving.ports.index_engine import (
    DamagedSnapshotError,
    FeedPosition,
    IndexEngine,
    SnapshotLabel,
)

logger = logging.getLogger(__name__)

FORMAT = 1
MANIFEST = "manifest.json"
REJECTED, UNFINISHED = "rejected-", "unfinished-"
KEPT = 2

STALE_S = 24 * 3600.0
"""Older snapshots of any model or shard are deleted: they may contain erased data."""


class SnapshotFolder:
    """`IndexSnapshots` in a folder, which several processes may share: names are unique.

    Args:
        root: The folder of the snapshots of all models and shards.
        shard: The shard whose snapshots are saved and restored.
        clock: Returns the seconds since 1970.
    """

    def __init__(self, root: Path, shard: Shard, *, clock: Callable[[], float] = time.time) -> None:
        self._root = root
        self._shard = shard
        self._clock = clock
        self._naming = threading.Lock()

    def save(self, engine: IndexEngine, label: SnapshotLabel) -> None:
        """Writes a snapshot of the engine, and deletes older snapshots.

        Raises:
            OSError: The write failed; existing snapshots stay.
        """
        home = self._home(label.model)
        unfinished = home / f"{UNFINISHED}{uuid.uuid4().hex}"
        for folder in (self._root, home, unfinished):  # whose parents would be open to others
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            engine.save(unfinished)
            (unfinished / MANIFEST).write_text(json.dumps(self._manifest(label, unfinished)))
            for path in (*unfinished.iterdir(), unfinished):
                _sync(path)
            name = f"{self._time_after(home):017.6f}-{label.epoch}-{uuid.uuid4().hex[:8]}"
            with self._naming:  # so that `delete_outdated` finds it under one of its names
                unfinished.rename(home / name)
            _sync(home)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
        for old in list(_newest_first(home))[KEPT:]:
            shutil.rmtree(old, ignore_errors=True)
        self._delete_stale()

    def restore(self, engine: IndexEngine, model: EmbeddingModel) -> SnapshotLabel | None:
        """Restores the newest valid snapshot; None if there is none.

        A damaged snapshot, or one of another model or shard, is renamed and ignored.
        """
        for folder in _newest_first(self._home(model)):
            try:
                label, shard = _label(folder)
                if (label.model, shard) != (model, self._shard):
                    raise DamagedSnapshotError("it is of another model or shard")
                engine.restore(folder)
            except DamagedSnapshotError as error:
                logger.warning(
                    "index snapshot rejected",
                    extra={"snapshot": folder.name, "reason": str(error)},
                )
                # Another replica, or an erasure, may have deleted it meanwhile.
                with contextlib.suppress(FileNotFoundError):
                    folder.rename(folder.with_name(REJECTED + folder.name))
            else:
                return label
        return None

    def delete_outdated(self, write: ConsistencyToken) -> None:
        """Deletes what is not from a position that includes the write, in the whole root.

        Unfinished and rejected snapshots do not say what they hold, so all of them go; a process
        that is writing one fails to, and writes the next in time.

        Raises:
            OSError: Some are left.
        """
        with self._naming:
            for folder in self._outdated(write):
                shutil.rmtree(folder, ignore_errors=True)
        if left := self.outdated_count(write):
            raise OSError(f"{left} snapshots in {self._root} cannot be deleted")

    def outdated_count(self, write: ConsistencyToken) -> int:
        return len(self._outdated(write))

    def _outdated(self, write: ConsistencyToken) -> list[Path]:
        return [path for path in self._root.glob("*/*") if not _includes(path, write)]

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

    def _time_after(self, home: Path) -> float:
        """The time; or, if the clock was set back, one after that of the newest snapshot."""
        newest = next(_newest_first(home), None)
        earliest = 0.0 if newest is None else float(newest.name.split("-")[0]) + 1e-6
        return max(self._clock(), earliest)

    def _delete_stale(self) -> None:
        oldest = self._clock() - STALE_S
        for folder in self._root.glob("*/*"):
            if folder.stat().st_mtime < oldest:
                shutil.rmtree(folder, ignore_errors=True)


def _newest_first(home: Path) -> Iterator[Path]:
    """The complete snapshots in a folder, newest first."""
    names = sorted(home.iterdir(), reverse=True) if home.is_dir() else []
    return (path for path in names if not path.name.startswith((REJECTED, UNFINISHED)))


def _includes(folder: Path, write: ConsistencyToken) -> bool:
    """Whether a snapshot certainly is from a position that includes the write."""
    if folder.name.startswith((REJECTED, UNFINISHED)):
        return False
    try:
        log = json.loads((folder / MANIFEST).read_text())["log"]
        return bool(log["epoch"] == write.epoch) and write.seen_by(Snapshot.parse(log["log"]))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _label(folder: Path) -> tuple[SnapshotLabel, Shard]:
    """The label and the shard of a snapshot, after checking its files.

    Raises:
        DamagedSnapshotError: A file has changed, or the manifest has another format.
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

"""Snapshots of an index in folders."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from serving.adapters.snapshot_folder import MANIFEST, SnapshotFolder
from serving.domain.consistency import NOTHING_SEEN, ConsistencyToken, Snapshot
from serving.domain.items.records import segment_id
from serving.domain.shards import WHOLE, Shard
from serving.ports.embedding import EmbeddingModel
from serving.ports.index_engine import (
    DamagedSnapshotError,
    FeedPosition,
    IndexEngine,
    SnapshotLabel,
)
from tests.fakes.meaning import FAKE_MODEL, InMemoryIndex, segment_row, unit
from tests.support.builders import TENANT, segment

POSITION = FeedPosition("log", Snapshot.parse("10:20:12,15"), Snapshot.parse("9:9:"), complete=True)
LABEL = SnapshotLabel(FAKE_MODEL, POSITION, epoch=4)
OTHER_MODEL = EmbeddingModel("other", FAKE_MODEL.dimension)


def engine_of(*ids: str) -> InMemoryIndex:
    engine = InMemoryIndex()
    engine.apply([segment_row(segment(id_), unit(1)) for id_ in ids], [])
    return engine


def holds(engine: IndexEngine, *ids: str) -> bool:
    items = [segment_id(id_) for id_ in ids]
    return engine.vector_count == len(ids) == engine.count(TENANT, items)


class Clock:
    """A clock that advances at each reading."""

    def __init__(self, step_s: float = 1.0) -> None:
        self.now_s = 1.7e9
        self.step_s = step_s

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


@pytest.fixture
def snapshots(tmp_path: Path) -> SnapshotFolder:
    return SnapshotFolder(tmp_path, WHOLE, clock=Clock())


def test_the_newest_snapshot_comes_back_with_what_it_is_of(snapshots: SnapshotFolder) -> None:
    snapshots.save(engine_of("a"), replace(LABEL, epoch=3))
    snapshots.save(engine_of("a", "b"), LABEL)
    empty = InMemoryIndex()

    assert snapshots.restore(empty, FAKE_MODEL) == LABEL
    assert holds(empty, "a", "b")


def test_without_a_snapshot_there_is_none(snapshots: SnapshotFolder) -> None:
    empty = InMemoryIndex()

    assert snapshots.restore(empty, FAKE_MODEL) is None
    assert holds(empty)


def test_those_of_another_model_or_share_are_not_taken(tmp_path: Path) -> None:
    half = Shard(0, 2)
    SnapshotFolder(tmp_path, half).save(engine_of("a"), LABEL)

    assert SnapshotFolder(tmp_path, WHOLE).restore(InMemoryIndex(), FAKE_MODEL) is None
    assert SnapshotFolder(tmp_path, half).restore(InMemoryIndex(), OTHER_MODEL) is None


def cut(folder: Path) -> None:
    rows = folder / "rows"
    rows.write_bytes(rows.read_bytes()[:-3])


def without_rows(folder: Path) -> None:
    (folder / "rows").unlink()


def without_manifest(folder: Path) -> None:
    (folder / MANIFEST).unlink()


def changed(**fields: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        manifest = json.loads((folder / MANIFEST).read_text())
        (folder / MANIFEST).write_text(json.dumps(manifest | fields))

    return change


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (cut, "rows has changed"),
        (without_rows, "No such file"),
        (without_manifest, "No such file"),
        (changed(format=2), "it is of format 2, not 1"),
        (changed(model="other"), "it is of another model or shard"),
        (changed(dimension=8), "it is of another model or shard"),
        (changed(shard=[0, 2]), "it is of another model or shard"),
        (changed(shard=[5, 2]), "there is no shard 5 of 2"),
        (changed(log={}), "'epoch'"),
        (changed(epoch="x"), "invalid literal"),
    ],
)
def test_a_damaged_or_foreign_one_is_dead_lettered_and_the_one_before_is_taken(
    snapshots: SnapshotFolder,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    damage: Callable[[Path], None],
    why: str,
) -> None:
    snapshots.save(engine_of("a"), LABEL)
    snapshots.save(engine_of("a", "b"), LABEL)
    newest = max(tmp_path.glob("*/*"))
    damage(newest)
    empty = InMemoryIndex()

    assert snapshots.restore(empty, FAKE_MODEL) == LABEL

    assert holds(empty, "a")
    assert why in str(caplog.records[-1].__dict__["reason"])
    assert not newest.exists()
    assert newest.with_name(f"rejected-{newest.name}").is_dir()


def test_one_that_is_deleted_while_it_is_read_is_passed_over(
    snapshots: SnapshotFolder, tmp_path: Path
) -> None:
    snapshots.save(engine_of("a"), LABEL)
    snapshots.save(engine_of("a", "b"), LABEL)
    newest = max(tmp_path.glob("*/*"))

    class Deleting(InMemoryIndex):
        def restore(self, folder: Path) -> None:
            if folder == newest:
                shutil.rmtree(folder)
                raise DamagedSnapshotError("No such file")
            super().restore(folder)

    filled = Deleting()

    assert snapshots.restore(filled, FAKE_MODEL) == LABEL
    assert holds(filled, "a")


def test_two_are_kept_and_those_of_other_shares_go_when_they_are_a_day_old(tmp_path: Path) -> None:
    half = Shard(0, 2)
    SnapshotFolder(tmp_path, half).save(engine_of("a"), LABEL)
    now = SnapshotFolder(tmp_path, WHOLE)
    for _ in range(4):
        now.save(engine_of("a"), LABEL)
    assert len(list(tmp_path.glob("*-0-of-1/*"))) == 2
    assert len(list(tmp_path.glob("*-0-of-2/*"))) == 1

    later = SnapshotFolder(tmp_path, WHOLE, clock=lambda: 4e9)
    later.save(engine_of("a"), LABEL)

    assert not list(tmp_path.glob("*-0-of-2/*"))


def test_the_last_one_is_the_newest_even_if_the_clock_was_set_back(tmp_path: Path) -> None:
    snapshots = SnapshotFolder(tmp_path, WHOLE, clock=Clock(-3600))
    for names in ("a", "ab", "abc"):
        snapshots.save(engine_of(*names), LABEL)
    empty = InMemoryIndex()

    snapshots.restore(empty, FAKE_MODEL)

    assert holds(empty, *"abc")


class FullDisk(InMemoryIndex):
    """An engine whose rows exceed the disk."""

    def save(self, folder: Path) -> None:
        super().save(folder)
        raise OSError("no space left on device")


def test_one_that_cannot_be_written_leaves_those_there_are(
    snapshots: SnapshotFolder, tmp_path: Path
) -> None:
    snapshots.save(engine_of("a"), LABEL)
    before = sorted(tmp_path.rglob("*"))

    with pytest.raises(OSError, match="no space"):
        snapshots.save(FullDisk(), LABEL)

    assert sorted(tmp_path.rglob("*")) == before


def test_one_that_was_never_finished_is_not_taken(
    snapshots: SnapshotFolder, tmp_path: Path
) -> None:
    snapshots.save(engine_of("a"), LABEL)
    (home,) = tmp_path.iterdir()
    (home / "unfinished-1").mkdir()

    assert snapshots.restore(InMemoryIndex(), FAKE_MODEL) == LABEL
    assert (home / "unfinished-1").is_dir()


def test_a_position_before_everything_is_kept_too(snapshots: SnapshotFolder) -> None:
    label = replace(LABEL, position=FeedPosition("log", NOTHING_SEEN, NOTHING_SEEN, False))
    snapshots.save(engine_of(), label)

    assert snapshots.restore(InMemoryIndex(), FAKE_MODEL) == label


# ---------------------------------------------------------------- erasures

ERASURE = ConsistencyToken.of("log", [19])
"""Included in `POSITION`."""

LATER_ERASURE = ConsistencyToken.of("log", [15])
"""In progress at `POSITION`, and committed since."""


@pytest.mark.parametrize(
    "damage", [None, without_manifest, changed(log={}), changed(log={"epoch": "log", "log": "?"})]
)
def test_snapshots_of_all_models_and_shards_from_before_an_erasure_are_deleted(
    tmp_path: Path, damage: Callable[[Path], None] | None
) -> None:
    clean = SnapshotFolder(tmp_path, WHOLE)
    clean.save(engine_of("a"), LABEL)
    (kept,) = tmp_path.glob("*/*")
    before = replace(LABEL, position=replace(POSITION, log=Snapshot.parse("10:19:")))
    of_other_log = replace(LABEL, position=replace(POSITION, epoch="another log"))
    for shard, label in [
        (WHOLE, before),
        (Shard(0, 2), before),
        (WHOLE, replace(before, model=OTHER_MODEL)),
        (Shard(1, 2), of_other_log),
    ]:
        SnapshotFolder(tmp_path, shard).save(engine_of("erased"), label)
    for prefix in ("rejected-", "unfinished-"):
        kept.parent.joinpath(f"{prefix}1").mkdir()
        kept.parent.joinpath(f"{prefix}1", "rows").write_bytes(b"erased")
    if damage is not None:
        damage(kept)
    assert clean.outdated_count(ERASURE) == (6 if damage is None else 7)

    clean.delete_outdated(ERASURE)

    assert clean.outdated_count(ERASURE) == 0
    assert list(tmp_path.glob("*/*")) == ([kept] if damage is None else [])
    assert clean.outdated_count(LATER_ERASURE) == (1 if damage is None else 0)


def test_a_snapshot_that_is_being_written_during_an_erasure_is_given_up(
    snapshots: SnapshotFolder, tmp_path: Path
) -> None:
    class ErasedMeanwhile(InMemoryIndex):
        def save(self, folder: Path) -> None:
            super().save(folder)
            snapshots.delete_outdated(ERASURE)

    with pytest.raises(OSError, match="No such file"):
        snapshots.save(ErasedMeanwhile(), LABEL)

    assert not list(tmp_path.glob("*/*"))


def test_snapshots_that_cannot_be_deleted_are_reported(
    snapshots: SnapshotFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshots.save(engine_of("a"), LABEL)
    monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)

    with pytest.raises(OSError, match=r"1 snapshots in .* cannot be deleted"):
        snapshots.delete_outdated(LATER_ERASURE)

    assert snapshots.outdated_count(LATER_ERASURE) == 1

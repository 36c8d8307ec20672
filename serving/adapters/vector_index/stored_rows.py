"""The rows of an index as files: written beside searches and changes, read into an empty one.

Columns are arrays of one zip archive, which checks them by CRC-32; what is text among them is
JSON. Lists are files of their library beside it, and are made anew where that is another one, or
of another version.
"""

from __future__ import annotations

import json
import logging
import zipfile
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from serving.adapters.vector_index.columns import (
    CLOSING_WIDTH,
    RESTS_ON_WIDTH,
    Columns,
    Numbers,
    as_numpy,
    as_table,
)
from serving.adapters.vector_index.errors import DeviceLostError, ListsError
from serving.adapters.vector_index.inverted_lists import ListsLibrary
from serving.adapters.vector_index.memory import Memory
from serving.adapters.vector_index.shelf import Shelf
from serving.adapters.vector_index.trained import Calibration, Trained
from serving.adapters.vector_index.view import View
from serving.domain.index_policy import CurvePoint
from serving.domain.records import ItemId, ItemKind, TenantName
from serving.ports import DamagedSnapshotError

logger = logging.getLogger(__name__)

FILE = "rows.npz"
SHELVES = ("segments", "facts", "witnesses")

Arrays: TypeAlias = "Mapping[str, NDArray[Any]]"


@dataclass(frozen=True, slots=True)
class StoredTenant:
    """The shelves of a tenant as they were, by the names of `SHELVES`."""

    tenant: TenantName
    numbers: Numbers
    shelves: Mapping[str, Shelf]


# ---------------------------------------------------------------- writing


def save(memories: Mapping[TenantName, Memory], library: str, folder: Path) -> None:
    """Writes what searches see of each tenant; changes may go on, other lists may not.

    Args:
        memories: Of all tenants.
        library: What made their lists, by its name.
        folder: An empty one.

    Raises:
        OSError: The files cannot be written.
    """
    with zipfile.ZipFile(folder / FILE, "w") as archive:
        about: list[dict[str, Any]] = []
        for place, (tenant, memory) in enumerate(memories.items()):
            names = list(islice(memory.numbers, memory.number_count))
            _write(archive, f"{place}/names", _as_bytes(names))
            views = {name: getattr(memory, name) for name in SHELVES}
            for name, view in views.items():
                _write_view(archive, f"{place}/{name}", view)
            trained = {
                name: _save_lists(view.trained, view.covered, folder / f"lists-{place}-{name}")
                for name, view in views.items()
                if view.trained is not None
            }
            about.append({"tenant": tenant, "trained": trained})
        _write(archive, "about", _as_bytes({"library": library, "tenants": about}))


def _write(archive: zipfile.ZipFile, name: str, values: NDArray[Any]) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
        np.lib.format.write_array(file, np.ascontiguousarray(values), allow_pickle=False)


def _as_bytes(value: object) -> NDArray[np.uint8]:
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def _write_view(archive: zipfile.ZipFile, place: str, view: View) -> None:
    columns, count = view.columns, view.count
    # What is below the count never changes; of what grows, only that is taken.
    arrays: dict[str, NDArray[Any]] = {
        "vectors": view.vectors.cpu().numpy(),
        "alive": view.alive,
        "importance": columns.importance[:count],
        "numbers": columns.numbers[:count],
        "rests_on": _below(as_table(columns.rests_on, RESTS_ON_WIDTH), count),
        "closings": _below(as_table(columns.closings, CLOSING_WIDTH), count),
        "items": _as_bytes(columns.items[:count]),
        "evidence": _as_bytes(columns.evidence[:count]),
    }
    arrays |= {f"times/{name}": view.time(name) for name in columns.times}
    postings = {term: as_numpy(slots) for term, slots in list(columns.postings.items())}
    postings = {term: slots[slots < count] for term, slots in postings.items()}
    arrays["terms"] = _as_bytes([[term, len(slots)] for term, slots in postings.items()])
    arrays["postings"] = np.concatenate([np.zeros(0, np.int64), *postings.values()])
    for name, values in arrays.items():
        _write(archive, f"{place}/{name}", values)


def _below(table: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    return table[table[:, 0] < count]


def _save_lists(trained: Trained, covered: int, path: Path) -> dict[str, Any]:
    trained.lists.save(path)
    calibration = trained.calibration
    return {
        "file": path.name,
        "covered": covered,
        "rows": trained.rows,
        "skew": trained.skew,
        "n_probes": calibration.n_probes,
        "curve": [[point.n_probes, point.recall, point.share] for point in calibration.curve],
    }


# ---------------------------------------------------------------- reading


def load(
    folder: Path, dimension: int, device: torch.device, library: ListsLibrary | None, now_s: float
) -> Iterator[StoredTenant]:
    """Reads what `save` wrote, tenant by tenant.

    Args:
        folder: Where the files are.
        dimension: Of all vectors.
        device: Where vectors are to be kept.
        library: What reads lists; None leaves them out.
        now_s: The time of the index's clock, from when lists count as old as they are.

    Raises:
        DamagedSnapshotError: They are cut short, changed or of another form.
    """
    try:
        # Opened here: numpy leaves a file open that turns out to be no archive.
        with (folder / FILE).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            about = _from_bytes(arrays["about"])
            same = library if library is not None and about["library"] == library.name else None
            for place, each in enumerate(about["tenants"]):
                numbers = Numbers(
                    (_item(name), number)
                    for number, name in enumerate(_from_bytes(arrays[f"{place}/names"]))
                )
                shelves = {}
                for name in SHELVES:
                    columns, alive = _columns(arrays, f"{place}/{name}", device)
                    _require(columns.vectors.shape[1] in (0, dimension), "the dimension")
                    stored = each["trained"].get(name)
                    trained = _load_lists(folder, stored, same, now_s) if stored else None
                    covered = stored["covered"] if trained is not None else 0
                    shelves[name] = Shelf.restored(columns, numbers, alive, trained, covered)
                yield StoredTenant(TenantName(each["tenant"]), numbers, shelves)
    except (OSError, EOFError, KeyError, ValueError, TypeError, zipfile.BadZipFile) as error:
        raise DamagedSnapshotError(f"{FILE}: {error}") from error


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(f"{what} does not fit")


def _from_bytes(values: NDArray[np.uint8]) -> Any:
    return json.loads(values.tobytes())


def _item(name: Sequence[str]) -> ItemId:
    kind, id_ = name
    return ItemId(ItemKind(kind), id_)


def _columns(arrays: Arrays, place: str, device: torch.device) -> tuple[Columns, NDArray[np.bool_]]:
    """The columns of a shelf and which of its rows live."""
    vectors, alive = arrays[f"{place}/vectors"], arrays[f"{place}/alive"]
    count, dimension = vectors.shape
    result = Columns(count, dimension, device)
    result.vectors[:] = torch.from_numpy(vectors).to(device)
    result.importance = arrays[f"{place}/importance"]
    result.numbers = arrays[f"{place}/numbers"]
    result.times = {name: arrays[f"{place}/times/{name}"] for name in result.times}
    for name, values in (("importance", result.importance), ("numbers", result.numbers)):
        _require(len(values) == count, name)
    for name, values in result.times.items():
        _require(len(values) == count, name)
    result.items = [_item(name) for name in _from_bytes(arrays[f"{place}/items"])]
    result.evidence = [tuple(ids) for ids in _from_bytes(arrays[f"{place}/evidence"])]
    _require(len(result.items) == len(result.evidence) == len(alive) == count, "items")
    result.rests_on = array("q", arrays[f"{place}/rests_on"].tobytes())
    result.closings = array("q", arrays[f"{place}/closings"].tobytes())
    start, postings = 0, arrays[f"{place}/postings"]
    for term, length in _from_bytes(arrays[f"{place}/terms"]):
        result.postings[term] = array("q", postings[start : start + length].tobytes())
        start += length
    _require(start == len(postings), "postings")
    result.note_latest()
    return result, alive


def _load_lists(
    folder: Path, stored: Mapping[str, Any], library: ListsLibrary | None, now_s: float
) -> Trained | None:
    """The lists of a shelf; None if they have to be made anew."""
    if library is None:
        return None
    try:
        lists = library.load(folder / stored["file"])
    except DeviceLostError:
        raise
    except (ListsError, OSError) as error:
        logger.warning("index makes its lists anew", extra={"reason": str(error)})
        return None
    curve = tuple(CurvePoint(*point) for point in stored["curve"])
    return Trained(
        lists, Calibration(stored["n_probes"], curve), stored["rows"], stored["skew"], now_s
    )

"""Saves the rows of an index to files, during searches and changes, and loads them.

Columns are arrays in one zip archive, which protects them by CRC-32; text is stored as JSON. Lists
are not saved, and are built again. Of dead rows only their places are written: erased data must
not return to a disk.
"""

from __future__ import annotations

import json
import zipfile
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from serving.adapters.vector_index import arrays
from serving.adapters.vector_index.rows.columns import (
    CLOSING_WIDTH,
    RESTS_ON_WIDTH,
    Columns,
    ItemNumbers,
    as_numpy,
    as_table,
)
from serving.adapters.vector_index.rows.instants import BEFORE_ALL
from serving.adapters.vector_index.rows.partition import Partition
from serving.adapters.vector_index.rows.tenant_view import TenantView
from serving.adapters.vector_index.rows.view import PartitionView
from serving.domain.items.records import ItemId, ItemKind, TenantName
from serving.ports.index_engine import DamagedSnapshotError

FILE = "rows.npz"
PARTITIONS = ("segments", "facts", "witnesses")

Arrays: TypeAlias = "Mapping[str, NDArray[Any]]"


@dataclass(frozen=True, slots=True)
class StoredTenant:
    """The partitions of a tenant, by the names in `PARTITIONS`."""

    tenant: TenantName
    numbers: ItemNumbers
    partitions: Mapping[str, Partition]


# ---------------------------------------------------------------- writing


def save(views: Mapping[TenantName, TenantView], folder: Path) -> None:
    """Writes the views of all tenants; rows may change meanwhile.

    Args:
        views: By tenant.
        folder: An empty folder.

    Raises:
        OSError: The files cannot be written.
    """
    with zipfile.ZipFile(folder / FILE, "w") as archive:
        about: list[dict[str, Any]] = []
        for place, (tenant, of_tenant) in enumerate(views.items()):
            partitions = {name: getattr(of_tenant, name) for name in PARTITIONS}
            _write(archive, f"{place}/names", _as_bytes(_live_items(of_tenant, partitions)))
            for name, view in partitions.items():
                _write_view(archive, f"{place}/{name}", view)
            about.append({"tenant": tenant})
        _write(archive, "about", _as_bytes({"tenants": about}))


def _write(archive: zipfile.ZipFile, name: str, values: NDArray[Any]) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
        np.lib.format.write_array(file, np.ascontiguousarray(values), allow_pickle=False)


def _as_bytes(value: object) -> NDArray[np.uint8]:
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def _live_items(
    tenant: TenantView, partitions: Mapping[str, PartitionView]
) -> list[tuple[str, str]]:
    """The items by number; those that no live row names are replaced by a place holder."""
    used = np.zeros(tenant.number_count, np.bool_)
    for view in partitions.values():
        used[view.columns.numbers[: view.count][view.alive]] = True
        used[_of_live_rows(as_table(view.columns.rests_on, RESTS_ON_WIDTH), view.alive)[:, 1]] = (
            True
        )
    items = islice(tenant.numbers, tenant.number_count)
    return [
        (item.kind, item.id) if is_used else (ItemKind.SEGMENT, _nothing(number))
        for number, (item, is_used) in enumerate(zip(items, used.tolist(), strict=True))
    ]


def _nothing(number: int) -> str:
    """What stands for a text that only dead rows have: distinct, and in no text of PostgreSQL."""
    return f"\0{number}"


def _write_view(archive: zipfile.ZipFile, place: str, view: PartitionView) -> None:
    columns, count, alive = view.columns, view.count, view.alive
    ends = as_numpy(columns.mention_ends)[:count]
    mentions = np.array(columns.mentions[: int(ends[-1]) if count else 0], np.int32)
    speakers = np.array(columns.speakers[:count], np.int32)
    # Rows below the count never change; growing columns are cut there.
    contents: dict[str, NDArray[Any]] = {
        "vectors": _blanked(arrays.to_host(view.vectors), alive, 0),
        "alive": alive,
        "importance": _blanked(columns.importance[:count], alive, 0),
        "numbers": columns.numbers[:count],
        "rests_on": _of_live_rows(as_table(columns.rests_on, RESTS_ON_WIDTH), alive),
        "closings": _of_live_rows(as_table(columns.closings, CLOSING_WIDTH), alive),
        "items": _as_bytes(_of_live(columns.items[:count], alive, (ItemKind.SEGMENT, ""))),
        "evidence": _as_bytes(_of_live(columns.evidence[:count], alive, ())),
        "names": _as_bytes(_live_names(columns.names, mentions, ends, speakers, alive)),
        "mentions": mentions,
        "mention_ends": ends,
        "speakers": speakers,
    }
    for name in columns.times:
        contents[f"times/{name}"] = _blanked(view.time(name), alive, BEFORE_ALL)
    postings = {
        term: slots
        for term, all_slots in list(columns.postings.items())
        if (slots := _live_slots(as_numpy(all_slots), alive)).size
    }
    contents["terms"] = _as_bytes([[term, len(slots)] for term, slots in postings.items()])
    contents["postings"] = np.concatenate([np.zeros(0, np.int64), *postings.values()])
    for name, values in contents.items():
        _write(archive, f"{place}/{name}", values)


def _live_slots(slots: NDArray[np.int64], alive: NDArray[np.bool_]) -> NDArray[np.int64]:
    slots = slots[slots < len(alive)]
    return slots[alive[slots]]


def _of_live_rows(table: NDArray[np.int64], alive: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The lines of a table whose first column is a live row."""
    table = table[table[:, 0] < len(alive)]
    return table[alive[table[:, 0]]]


def _of_live(values: Sequence[Any], alive: NDArray[np.bool_], blank: Any) -> list[Any]:
    return [value if lives else blank for value, lives in zip(values, alive.tolist(), strict=True)]


def _blanked(values: NDArray[Any], alive: NDArray[np.bool_], blank: int) -> NDArray[Any]:
    """The values with those of dead rows replaced; copied only if there are any."""
    if alive.all():
        return values
    values = values.copy()
    values[~alive] = blank
    return values


def _live_names(
    names: Sequence[str],
    mentions: NDArray[np.int32],
    ends: NDArray[np.int64],
    speakers: NDArray[np.int32],
    alive: NDArray[np.bool_],
) -> list[str]:
    """The names by number, those that no live row has replaced by place holders."""
    of_live_rows = np.repeat(alive, np.diff(ends, prepend=0))
    used = {*mentions[of_live_rows].tolist(), *speakers[alive].tolist()}
    return [name if number in used else _nothing(number) for number, name in enumerate(list(names))]


# ---------------------------------------------------------------- reading


def load(folder: Path, dimension: int, device: str) -> Iterator[StoredTenant]:
    """Reads what `save` wrote, tenant by tenant.

    Args:
        folder: The folder of the files.
        dimension: Of all vectors.
        device: Where to store the vectors.

    Raises:
        DamagedSnapshotError: The files are truncated, changed, or of another dimension.
    """
    try:
        # Opened here: NumPy does not close a file that turns out to be no archive.
        with (folder / FILE).open("rb") as file, np.load(file, allow_pickle=False) as stored_arrays:
            about = _from_bytes(stored_arrays["about"])
            for place, each in enumerate(about["tenants"]):
                numbers = ItemNumbers(
                    (_item(name), number)
                    for number, name in enumerate(_from_bytes(stored_arrays[f"{place}/names"]))
                )
                partitions = {}
                for name in PARTITIONS:
                    columns, alive = _columns(stored_arrays, f"{place}/{name}", device)
                    _require(columns.vectors.shape[1] in (0, dimension), "the dimension")
                    partitions[name] = Partition.restored(columns, numbers, alive)
                yield StoredTenant(TenantName(each["tenant"]), numbers, partitions)
    except (OSError, EOFError, KeyError, ValueError, TypeError, zipfile.BadZipFile) as error:
        raise DamagedSnapshotError(f"{FILE}: {error}") from error


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(f"{what} does not match")


def _from_bytes(values: NDArray[np.uint8]) -> Any:
    return json.loads(values.tobytes())


def _item(name: Sequence[str]) -> ItemId:
    kind, id_ = name
    return ItemId(ItemKind(kind), id_)


def _columns(contents: Arrays, place: str, device: str) -> tuple[Columns, NDArray[np.bool_]]:
    """The columns of a partition, and which of its rows are alive."""
    vectors, alive = contents[f"{place}/vectors"], contents[f"{place}/alive"]
    count, dimension = vectors.shape
    result = Columns(count, dimension, device)
    result.vectors[:] = arrays.to_device(vectors, device)
    result.importance = contents[f"{place}/importance"]
    result.numbers = contents[f"{place}/numbers"]
    result.times = {name: contents[f"{place}/times/{name}"] for name in result.times}
    fixed = {"importance": result.importance, "numbers": result.numbers, **result.times}
    for name, values in fixed.items():
        _require(len(values) == count, name)
    result.items = [_item(name) for name in _from_bytes(contents[f"{place}/items"])]
    result.evidence = [tuple(ids) for ids in _from_bytes(contents[f"{place}/evidence"])]
    _require(len(result.items) == len(result.evidence) == len(alive) == count, "items")
    names = {name: contents[f"{place}/{name}"] for name in ("mentions", "mention_ends", "speakers")}
    result.take_names(_from_bytes(contents[f"{place}/names"]), *names.values())
    _require(len(result.mention_ends) == len(result.speakers) == count, "names")
    result.rests_on = array("q", contents[f"{place}/rests_on"].tobytes())
    result.closings = array("q", contents[f"{place}/closings"].tobytes())
    start, postings = 0, contents[f"{place}/postings"]
    for term, length in _from_bytes(contents[f"{place}/terms"]):
        result.postings[term] = array("q", postings[start : start + length].tobytes())
        start += length
    _require(start == len(postings), "postings")
    result.note_latest()
    return result, alive

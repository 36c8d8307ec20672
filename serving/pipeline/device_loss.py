"""Noticing that a device is lost, where it computes, and keeping its results from everybody.

A sticky error of CUDA poisons its process: whatever is asked of the device afterwards fails, and
what it was computing is of no use. It is noticed around each use of the device, in whichever
thread that is and whoever still waits for it; from then on nothing is computed or answered, and
whoever runs the process is told, who ends it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from serving.domain.errors import DeviceLostError
from serving.domain.records import ItemId, ItemKind, TenantName
from serving.ports import (
    CrossEncoder,
    Device,
    EmbeddingModel,
    IndexEngine,
    IndexRow,
    IndexTier,
    Neighbours,
    Pair,
    TextEncoder,
    TokenIds,
    VectorLike,
    Vectors,
    WantedNeighbours,
)

logger = logging.getLogger(__name__)

LOST = "the device was lost; the replica is being replaced"


class DeviceWatch:
    """Watches over what one part of a process does on a device.

    Args:
        name: The part: "embedder", "index" or "reranker".
        is_lost: Whether an error means that the device can do nothing more.
        on_loss: Told in the thread that noticed.
    """

    def __init__(
        self, name: str, is_lost: Callable[[Exception], bool], on_loss: Callable[[], None]
    ) -> None:
        self._name = name
        self._is_lost = is_lost
        self._on_loss = on_loss
        self._lost = False

    @contextmanager
    def over(self) -> Iterator[None]:
        """Watches over one use of the device.

        Raises:
            DeviceLostError: The device is lost, before, by or beside what was done.
        """
        self._refuse_if_lost()
        try:
            yield
        except Exception as error:
            if self._lost or self._is_lost(error):
                self._lose(error)
                raise self._error() from error
            raise
        self._refuse_if_lost()

    def _lose(self, error: Exception) -> None:
        if not self._lost:
            self._lost = True
            logger.critical("the device is lost", extra={"part": self._name}, exc_info=error)
            self._on_loss()

    def _refuse_if_lost(self) -> None:
        if self._lost:
            raise self._error()

    def _error(self) -> DeviceLostError:
        return DeviceLostError(self._name, LOST)


class WatchedEncoder:
    """A `TextEncoder` under watch."""

    def __init__(self, encoder: TextEncoder, watch: DeviceWatch) -> None:
        self._encoder = encoder
        self._watch = watch

    def model(self) -> EmbeddingModel:
        """The model that makes the vectors."""
        return self._encoder.model()

    def device(self) -> Device:
        """What computes it."""
        return self._encoder.device()

    def tokenize_query(self, text: str) -> TokenIds:
        """Tokenizes a question with its prompt."""
        return self._encoder.tokenize_query(text)

    def tokenize_document(self, text: str) -> list[TokenIds]:
        """Tokenizes a text into at least one window."""
        return self._encoder.tokenize_document(text)

    def encode(self, windows: Sequence[TokenIds]) -> Vectors:
        """Makes one row per window, in their order.

        Raises:
            DeviceLostError: The device is lost.
        """
        with self._watch.over():
            return self._encoder.encode(windows)

    def encode_queries(self, windows: Sequence[TokenIds]) -> Sequence[VectorLike | None]:
        """Makes the same rows, which stay on the device.

        Raises:
            DeviceLostError: The device is lost.
        """
        with self._watch.over():
            return self._encoder.encode_queries(windows)


class WatchedCrossEncoder:
    """A `CrossEncoder` under watch."""

    def __init__(self, cross_encoder: CrossEncoder, watch: DeviceWatch) -> None:
        self._cross_encoder = cross_encoder
        self._watch = watch

    def device(self) -> Device:
        """What computes it."""
        return self._cross_encoder.device()

    def tokenize(self, query: str, texts: Sequence[str]) -> list[Pair]:
        """Makes one row of each text."""
        return self._cross_encoder.tokenize(query, texts)

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        """The raw logit of each text's relevance, in the order of the pairs.

        Raises:
            DeviceLostError: The device is lost.
        """
        with self._watch.over():
            return self._cross_encoder.score(pairs)


class WatchedEngine:
    """An `IndexEngine` under watch; all that it does beside counting raises `DeviceLostError`."""

    def __init__(self, engine: IndexEngine, watch: DeviceWatch) -> None:
        self._engine = engine
        self._watch = watch

    def apply(self, rows: Sequence[IndexRow], removed: Sequence[tuple[TenantName, ItemId]]) -> None:
        """Puts rows in the place of those of the same name, and removes others."""
        with self._watch.over():
            self._engine.apply(rows, removed)

    def search(self, vector: VectorLike, wanted: WantedNeighbours) -> Neighbours:
        """Finds the wanted neighbours of a vector."""
        with self._watch.over():
            return self._engine.search(vector, wanted)

    def scan_size(self, tenant: TenantName, kind: ItemKind) -> int:
        """How many vectors a search of the tenant reads at most."""
        return self._engine.scan_size(tenant, kind)

    def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        """How many of the items it holds."""
        return self._engine.count(tenant, items)

    @property
    def vector_count(self) -> int:
        """How many vectors it holds."""
        return self._engine.vector_count

    def save(self, folder: Path) -> None:
        """Writes all rows into an empty folder."""
        with self._watch.over():
            self._engine.save(folder)

    def restore(self, folder: Path) -> None:
        """Takes over what was saved."""
        with self._watch.over():
            self._engine.restore(folder)

    @property
    def generation(self) -> int:
        """How often rows were put into another shape."""
        return self._engine.generation

    def tiers(self, tenant: TenantName | None = None) -> list[IndexTier]:
        """How rows are searched: those of one tenant, or of all."""
        return self._engine.tiers(tenant)

    def maintain(self) -> None:
        """Puts rows into another shape where that is due."""
        with self._watch.over():
            self._engine.maintain()

    def close(self) -> None:
        """Ends maintenance."""
        self._engine.close()

"""Embeds entries with the service's encoder, and searches them exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from bench.quality.forms.texts import Entry
from serving.domain.items.records import segment_id
from serving.domain.ranking.ranked_list import Candidate
from serving.ports.embedding import Embedder, Vector

BATCH_TEXTS = 256
"""Texts embedded between two steps of the progress bar."""

Advance = Callable[[int], None]


class EmbeddedEntries:
    """Entries with their vectors.

    Args:
        entries: What was embedded; at least one.
        vectors: float32 (windows, dimension), of unit length: those of the first entry, then those
            of the next.
        counts: How many windows each entry has, at least one.
    """

    def __init__(
        self, entries: Sequence[Entry], vectors: npt.NDArray[np.float32], counts: Sequence[int]
    ) -> None:
        self._entries = entries
        self._vectors = vectors
        self._starts = np.cumsum([0, *counts[:-1]])

    def nearest(self, question: Vector, depth: int) -> list[Candidate]:
        """The segments of the entries that are most like a question, each once, best first.

        An entry is as like as its best window, and gives way to its segments in their order;
        a segment counts where it comes first.
        """
        likeness = np.maximum.reduceat(self._vectors @ question, self._starts)
        found: dict[str, float] = {}
        for place in np.argsort(-likeness, kind="stable")[:depth]:
            for id_ in self._entries[place].segments:
                found.setdefault(id_, float(likeness[place]))
        return [Candidate(segment_id(id_), score) for id_, score in found.items()][:depth]


async def embed(embedder: Embedder, entries: Sequence[Entry], advance: Advance) -> EmbeddedEntries:
    """Embeds entries as the service embeds documents.

    Args:
        embedder: The service's.
        entries: At least one.
        advance: Called with the number of texts done.
    """
    rows: list[npt.NDArray[np.float32]] = []
    for start in range(0, len(entries), BATCH_TEXTS):
        batch = [entry.text for entry in entries[start : start + BATCH_TEXTS]]
        rows += await embedder.embed_documents(batch)
        advance(len(batch))
    return EmbeddedEntries(entries, np.concatenate(rows), [len(windows) for windows in rows])

"""Putting the rows of a shelf into new lists, beside the searches and writes that go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch

from serving.adapters.vector_index.calibration import calibrated, held_out, trial
from serving.adapters.vector_index.columns import Columns, Numbers
from serving.adapters.vector_index.errors import OutOfMemoryError
from serving.adapters.vector_index.inverted_lists import InvertedLists, ListsLibrary
from serving.adapters.vector_index.shelf import FIRST_CAPACITY, Asked, Shelf
from serving.adapters.vector_index.trained import Trained, skew_of
from serving.adapters.vector_index.view import View
from serving.domain.index_policy import IndexPolicy, training_rows
from serving.models.device_vector import tensor_of

HELD_OUT = 128

FILLED_AT_ONCE = 16_384

SPARE = 8
"""One row in so many more is made room for, which came while the others were put into lists."""

PAUSE_S = 0.0005
"""A loop in Python keeps others waiting for up to 5 ms each time, unless it sleeps."""


class StoppedError(Exception):
    """The index was closed while its rows were put into lists."""


@dataclass(slots=True)
class Progress:
    """How far a rebuild is: read by others while it is written."""

    phase: str = "copying"
    share: float = 0.0
    stopped: bool = False

    def check(self) -> None:
        """Raises `StoppedError` if nobody wants the result any more."""
        if self.stopped:
            raise StoppedError

    def pause(self) -> None:
        """Lets others have the interpreter."""
        self.check()
        time.sleep(PAUSE_S)

    def enter(self, phase: str) -> None:
        """Begins the next part."""
        self.check()
        self.phase, self.share = phase, 0.0

    def __str__(self) -> str:
        return f"{self.phase} {int(100 * self.share)} %"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuild:
    """What a rebuild needs beside rows.

    Args:
        library: What makes lists.
        policy: How many, and how good.
        seed: Of the order of rows; the same rows are put into the same lists.
        clock: Seconds, of the index.
    """

    library: ListsLibrary
    policy: IndexPolicy
    seed: int
    clock: Callable[[], float]

    def run(
        self, view: View, numbers: Numbers, asked: Iterable[Asked], n_lists: int, done: Progress
    ) -> Shelf:
        """Copies the living rows and puts them into lists; into none if `n_lists` is 0.

        Raises:
            OutOfMemoryError: There is no room for another copy.
            ListsError: The library failed; nothing is left of what it made.
            StoppedError: `done` says that it is not wanted.
        """
        kept = np.flatnonzero(view.alive)
        room = max(FIRST_CAPACITY, len(kept) + len(kept) // SPARE)
        with _in_memory(f"another copy of {len(kept):,} rows"):
            columns = view.columns.copied(kept, view.count, room, done.pause)
        trained = self._trained(columns, asked, n_lists, done) if n_lists else None
        return Shelf(columns, numbers, trained, done.pause)

    def _trained(
        self, columns: Columns, asked: Iterable[Asked], n_lists: int, done: Progress
    ) -> Trained:
        count = len(columns)
        vectors = columns.vectors[:count]
        held, others = held_out(count, HELD_OUT, np.random.default_rng(self.seed))
        sample = others[: training_rows(n_lists, count)]
        done.enter("training")
        lists = self.library.train(vectors[_index(sample, vectors)], min(n_lists, len(sample)))
        try:
            self._fill(lists, vectors, done)
            return self._calibrated(lists, vectors, held, asked, done)
        except BaseException:
            lists.close()
            raise

    def _fill(self, lists: InvertedLists, vectors: torch.Tensor, done: Progress) -> None:
        done.enter("filling")
        for start in range(0, len(vectors), FILLED_AT_ONCE):
            end = min(start + FILLED_AT_ONCE, len(vectors))
            lists.extend(vectors[start:end], torch.arange(start, end, device=vectors.device))
            done.share = end / len(vectors)
            done.pause()

    def _calibrated(
        self,
        lists: InvertedLists,
        vectors: torch.Tensor,
        held: np.ndarray,
        asked: Iterable[Asked],
        done: Progress,
    ) -> Trained:
        """Asks with rows that are hidden meanwhile, and with what was asked in earnest."""
        done.enter("calibrating")
        hidden = np.ones(len(vectors), np.bool_)
        hidden[held] = False
        questions = [tensor_of(each.vector, vectors.device) for each in asked]
        trials = [trial(vectors, vectors[_index(held, vectors)].float(), hidden, done.pause)]
        if questions:
            queries = torch.stack(questions)
            everything = np.ones(len(vectors), np.bool_)
            trials.append(trial(vectors, queries, everything, done.pause))
        calibration = calibrated(
            lists,
            vectors,
            [each for each in trials if each is not None],
            self.policy.recall_target,
            done.pause,
        )
        skew = skew_of(lists.list_sizes().tolist())
        return Trained(lists, calibration, len(vectors), skew, self.clock())


@contextmanager
def _in_memory(what: str) -> Iterator[None]:
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise OutOfMemoryError(what) from error
    except RuntimeError as error:
        if "allocate memory" in str(error):  # torch has no class for it on a CPU
            raise OutOfMemoryError(what) from error
        raise


def _index(slots: np.ndarray, like: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(slots).to(like.device)

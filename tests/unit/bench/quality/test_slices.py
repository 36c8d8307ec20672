"""The shipped slices are whole, small, and attributed."""

from __future__ import annotations

import pytest

from bench.harness.collection import read_collection
from bench.quality import slices

ROOT = slices.EXPECTED.parent
MAX_BYTES = 2 << 20


@pytest.mark.parametrize(
    ("name", "questions", "segments"),
    [("musique", 52, 350), ("2wiki", 46, 800), ("sample", 40, 163)],
)
def test_shipped_slice_is_whole(name: str, questions: int, segments: int) -> None:
    slice_ = read_collection(ROOT / name)

    assert slice_.problems == []
    assert len(slice_.judged) == len(slice_.queries) == questions
    assert (slice_.segment_count, len(slice_.memories)) == (segments, 1)
    assert slice_.fact_count > 0


def test_slices_are_small_and_attributed() -> None:
    files = [path for path in ROOT.rglob("*") if path.is_file() and not path.is_symlink()]
    notice = (ROOT / "NOTICE").read_text()

    assert sum(path.stat().st_size for path in files) <= MAX_BYTES
    for owed in ("MuSiQue", "Trivedi", "CC BY 4.0", "2WikiMultihopQA", "Apache", "HippoRAG", "MIT"):
        assert owed in notice

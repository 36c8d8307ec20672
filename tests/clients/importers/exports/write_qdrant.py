# /// script
# requires-python = ">=3.11"
# dependencies = ["qdrant-client==1.20.0"]
# ///
"""Writes `qdrant.jsonl`: the records that `QdrantClient.scroll` returns, as JSON lines."""

from __future__ import annotations

from pathlib import Path

from qdrant_client import QdrantClient, models  # type: ignore[import-not-found]

POINTS = [
    models.PointStruct(
        id=1,
        vector=[0.1, 0.2],
        payload={
            "text": "The garage code is 4711.",
            "timestamp": "2026-05-20T09:30:00Z",
            "speaker": "Nora",
            "floor": 2,
            "tags": ["house", "code"],
        },
    ),
    models.PointStruct(
        id="00000000-0000-4000-8000-000000000002",
        vector=[0.3, 0.4],
        payload={
            "page_content": "The boiler was serviced in April.",
            "metadata": {"source": "letter.pdf", "page": 3},
        },
    ),
    models.PointStruct(id=3, vector=[0.5, 0.6], payload={"floor": 1}),
]


def main() -> None:
    """Stores points and scrolls through them."""
    client = QdrantClient(":memory:")
    size = models.VectorParams(size=2, distance=models.Distance.COSINE)
    client.create_collection("notes", vectors_config=size)
    client.upsert("notes", POINTS)
    records, offset = client.scroll("notes", limit=2, with_vectors=True)
    more, _ = client.scroll("notes", limit=2, with_vectors=True, offset=offset)
    text = "".join(f"{each.model_dump_json()}\n" for each in (*records, *more))
    Path(__file__).with_name("qdrant.jsonl").write_text(text, encoding="utf-8")


main()

# /// script
# requires-python = ">=3.11"
# dependencies = ["mem0ai==2.2.1"]
# ///
"""Writes `mem0.json` as mem0 writes it: what `Memory.get_all` returns, as JSON."""

from __future__ import annotations

import itertools
import json
import os
import tempfile
import uuid
from pathlib import Path
from typing import Any

SETTINGS = {
    "MEM0_TELEMETRY": "False",
    "MEM0_DIR": tempfile.mkdtemp(),
    "OPENAI_API_KEY": "unused",
}
os.environ.update(SETTINGS)  # noqa: TID251 - those of mem0

from mem0 import Memory  # type: ignore[import-not-found]  # noqa: E402

MEMORIES: list[dict[str, Any]] = [
    {
        "messages": [{"role": "user", "name": "nora", "content": "Nora moved to Lisbon in May."}],
        "run_id": "call-1",
        "metadata": {
            "created_at": "2026-05-20T09:30:00+00:00",
            "source": "phone",
            "confidence": 0.9,
            "tags": ["home", "travel"],
        },
    },
    {
        "messages": [{"role": "user", "content": "The wedding is on the eighth of November."}],
        "metadata": {"created_at": "2026-05-21T10:00:00+00:00"},
        "expiration_date": "2099-11-09",
    },
]


def main() -> None:
    """Adds memories as they are, without a language model, and changes one of them."""
    numbers = itertools.count(101)
    uuid.uuid4 = lambda: uuid.UUID(int=next(numbers), version=4)
    config = {
        "vector_store": {
            "provider": "qdrant",
            "config": {"path": tempfile.mkdtemp(), "embedding_model_dims": 4},
        }
    }
    memory = Memory.from_config(config)
    memory.embedding_model.embed = lambda text, *_, **__: [len(text) / 100, 0.1, 0.2, 0.3]
    ids = []
    for given in MEMORIES:
        added = memory.add(**given, user_id="nora", agent_id="concierge", infer=False)
        ids.append(added["results"][0]["id"])
    memory.update(ids[1], data="The wedding was moved to the ninth of November.")
    exported = memory.get_all(filters={"user_id": "nora"}, top_k=1000, show_expired=True)
    exported["results"].sort(key=lambda each: each["created_at"])
    for each in exported["results"]:
        # That of the change is the time of this run.
        if each["updated_at"] != each["created_at"]:
            each["updated_at"] = "2026-06-01T08:00:00+00:00"
    text = json.dumps(exported, indent=2, ensure_ascii=False)
    Path(__file__).with_name("mem0.json").write_text(text + "\n", encoding="utf-8")


main()

"""Stored candidates of the legs for questions of each set; `python -m bench.quality.heads`.

It is stored, so that tests run the steps between fusion and the answer on it without a service.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import click

from bench.harness import options
from bench.harness.collection import Collection, Query
from bench.harness.connections import connected
from bench.harness.service import running
from bench.quality import memories, session, slices
from bench.reports.recording import ended_by_message
from trivium.values import Retrieval

HERE = Path(__file__).parent
HEADS = HERE / "heads.jsonl"
FOLDERS = (*slices.FOLDERS, *memories.FOLDERS, HERE / "changes", HERE / "updates")
QUESTIONS = 2
"""Of each set."""
MOST = 30
"""Candidates of each question."""
TIMEOUT_S = 30.0


async def ask(address: str | None) -> list[dict[str, Any]]:
    """Asks a service some questions of each set; without an address, one that is started for it."""
    heads = []
    async with running(address) as target, connected(target.address, 1) as connections:
        for collection in session.read_sets(FOLDERS, None, skip_unreadable=False):
            stored = await session.store(connections, collection)
            for query in collection.judged[:QUESTIONS]:
                answer = await stored.ask(
                    query,
                    timeout=TIMEOUT_S,
                    limit=MOST,
                    explain=True,
                    profile_overrides={"adjacent": 0, "current_first": False},
                )
                heads.append(_head(collection, query, answer))
    return heads


def _head(collection: Collection, query: Query, answer: Retrieval) -> dict[str, Any]:
    rows = {row.id: row for row in collection.segments}
    return {
        "set": collection.name,
        "question": query.text,
        "as_of": query.as_of and query.as_of.isoformat(),
        "found": [
            {
                "id": hit.id,
                "speaker": rows[hit.id].speaker,
                "text": hit.text,
                "said": (time := rows[hit.id].event_time) and time.isoformat(),
                "terms": {
                    term.leg: [term.rank, round(term.leg_score, 6)]
                    for term in (hit.ledger.leg_terms if hit.ledger else ())
                },
            }
            for hit in answer.hits
        ],
    }


@click.command(context_settings=options.HELP)
@options.address
def main(address: str | None) -> None:
    """Store what the legs of a service find for some questions of each shipped set."""
    with ended_by_message(OSError, ValueError):
        heads = asyncio.run(ask(address))
        lines = (json.dumps(head, ensure_ascii=False) + "\n" for head in heads)
        HEADS.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()

"""The blocks of the diary's questions in the diary's `README.md`; `python -m bench.quality.blocks`.

With `--ask`, a service is asked first, and what it found is stored with the diary. The blocks are
made of what is stored, so that a test without a service finds every change of their form.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC
from pathlib import Path

import click

from bench.harness import options
from bench.harness.collection import as_stored, read_collection
from bench.harness.connections import connected
from bench.harness.service import running
from bench.quality import session
from bench.reports.recording import ended_by_message
from serving.domain.briefing import briefing
from serving.domain.items.records import Segment, TenantName, segment_id
from serving.domain.questions.query import Query, Scope
from serving.pipeline.writes.ingest import mentions_of
from trivium import values

DIARY = Path(__file__).parent / "diary"
HITS = DIARY / "hits.jsonl"
PAGE = DIARY / "README.md"
BEGIN = "<!-- diary -->\n"
END = "<!-- end of the diary -->\n"

Found = Mapping[str, tuple[list[str], list[str]]]
"""For each question, the ids of the hits, best first, and those of them that are outdated."""


async def ask(address: str | None) -> Found:
    """Asks a service all questions; without an address, one that is started for it."""
    diary = read_collection(DIARY)
    async with running(address) as target, connected(target.address, 1) as connections:
        stored = await session.store(connections, diary)
        answers = {query.id: await stored.ask(query) for query in diary.judged}
    return {
        id_: (
            [hit.id for hit in answer.hits],
            [hit.id for hit in answer.hits if hit.outdated_by is not None],
        )
        for id_, answer in answers.items()
    }


def stored() -> Found:
    """The answers of the service when it was last asked."""
    lines = map(json.loads, HITS.read_text(encoding="utf-8").splitlines())
    return {each["id"]: (each["hits"], each["outdated"]) for each in lines}


def store(found: Found) -> None:
    """Writes what was found to the diary."""
    lines = (
        json.dumps({"id": id_, "hits": hits, "outdated": outdated})
        for id_, (hits, outdated) in found.items()
    )
    HITS.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def blocks(found: Found) -> dict[str, str]:
    """The block of each question, by its id."""
    diary = read_collection(DIARY)
    rows = {turn.id: _as_stored(turn) for turn in diary.segments}
    made = {}
    for query in diary.judged:
        hits, outdated = found[query.id]
        assert query.as_of is not None, "the diary's questions have a time; this is a bug"
        scope = Scope(tenant=TenantName(query.tenant), as_of=query.as_of)
        made[query.id] = briefing(
            [rows[id_] for id_ in hits],
            Query(scope=scope, text=query.text),
            outdated={segment_id(id_) for id_ in outdated},
        )
    return made


def section(found: Found) -> str:
    """The section of the page: each question with its block."""
    made = blocks(found)
    return "\n".join(
        f"**{query.text}**\n\n```\n{made[query.id]}\n```\n"
        for query in read_collection(DIARY).judged
    )


def page() -> str:
    """The whole page, with the section as it has to be."""
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{section(stored())}\n{END}{tail}"


def _as_stored(turn: values.Segment) -> Segment:
    assert turn.event_time is not None, "a turn of the diary has a time; this is a bug"
    said = turn.event_time.astimezone(UTC)
    mentions = mentions_of(turn.text, said)
    return replace(as_stored(turn), event_time=said, mentions=mentions)


@click.command(context_settings=options.HELP)
@click.option("--ask", "asks", is_flag=True, help="Ask a service first, and store what it found.")
@options.address
def main(asks: bool, address: str | None) -> None:
    """Write the blocks of the diary's questions into the README of the diary."""
    with ended_by_message(OSError, ValueError):
        if asks:
            store(asyncio.run(ask(address)))
        PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()

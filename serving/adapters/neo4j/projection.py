"""Applying changes to the graph within a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString, cast

import neo4j

from serving.adapters.neo4j import statements
from serving.adapters.neo4j.rows import Row, fact_row, removed_rows, segment_row
from serving.domain.items.records import ItemKind
from serving.ports.graph import GraphChanges

ROWS_PER_STATEMENT = 500


async def write_changes(transaction: neo4j.AsyncTransaction, changes: GraphChanges) -> None:
    """Removes items, writes items, then deletes nodes that are no longer referenced.

    The nodes that the items reference before the change are the candidates for deletion.
    """
    segments = [segment_row(*change) for change in changes.segments]
    facts = [fact_row(*change) for change in changes.facts]
    removed_segments = removed_rows(changes.removed, ItemKind.SEGMENT)
    removed_facts = removed_rows(changes.removed, ItemKind.FACT)

    changed = {"segments": [*segments, *removed_segments], "facts": [*facts, *removed_facts]}
    names = {
        kind: [{"tenant": row["tenant"], "id": row["id"]} for row in rows]
        for kind, rows in changed.items()
    }
    result = await transaction.run(statements.REFERENCED, given=names)
    record = await result.single(strict=True)
    referenced = cast(list[str], record[0])

    await _run_in_chunks(transaction, statements.REMOVE_FACTS, removed_facts)
    await _run_in_chunks(transaction, statements.REMOVE_SEGMENTS, removed_segments)
    await _run_in_chunks(transaction, statements.WRITE_SEGMENTS, segments)
    await _run_in_chunks(transaction, statements.WRITE_FACTS, facts)
    result = await transaction.run(statements.DELETE_UNREFERENCED, given={"referenced": referenced})
    await result.consume()


async def _run_in_chunks(
    transaction: neo4j.AsyncTransaction, statement: LiteralString, rows: Sequence[Row]
) -> None:
    for start in range(0, len(rows), ROWS_PER_STATEMENT):
        result = await transaction.run(
            statement, given={"rows": rows[start : start + ROWS_PER_STATEMENT]}
        )
        await result.consume()

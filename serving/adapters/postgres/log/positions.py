"""Positions in the change log, and what it has beyond one."""

from __future__ import annotations

from serving.adapters.postgres.connection.statements import LOG_EPOCH, Connection
from serving.adapters.postgres.log.current_items import Name
from serving.adapters.postgres.log.entries import all_beyond
from serving.domain.consistency import NOTHING_SEEN, Snapshot
from serving.domain.items.records import ItemId, ItemKind, TenantName
from serving.ports.change_log import Projection
from serving.ports.index_engine import FeedLostError, FeedPosition
from serving.ports.resident_feed import LogPosition

MAX_CHANGES = 100_000
"""A reader further behind begins again, in parts, instead of reading one huge delta."""


def covers(position: Snapshot, other: Snapshot) -> bool:
    """Whether `position` includes every transaction that `other` does."""
    return position.xmax >= other.xmax and not any(
        other.includes(xid) for xid in position.in_progress
    )


async def read_position(connection: Connection) -> tuple[LogPosition, Snapshot]:
    """The position of this snapshot, and that up to which the log is compacted.

    It ends with the newest transaction of the log, which survives a crash (`Snapshot.up_to`).
    """
    epoch, log, newest, compacted = await connection.fetch_row(
        f"""
        SELECT {LOG_EPOCH}, pg_current_snapshot()::text,
               (SELECT coalesce(max(xid), '0') FROM change_log)::text::int8, compacted
          FROM meta
        """
    )
    settled = Snapshot.parse(compacted)
    return LogPosition(epoch, Snapshot.parse(log).up_to(max(newest, settled.xmax - 1))), settled


async def read_progress(
    connection: Connection, projection: Projection, model_id: int
) -> tuple[Snapshot, bool]:
    """The projection's position, and whether its model was the last to be complete."""
    position, complete = await connection.fetch_row(
        """
        SELECT position, complete_model IS NOT DISTINCT FROM %(model_id)s::int2
          FROM meta LEFT JOIN projection_state
            ON projection = %(projection)s::text AND model_id = %(model_id)s::int2
        """,
        {"projection": projection, "model_id": model_id},
    )
    return (Snapshot.parse(position) if position else NOTHING_SEEN), complete


async def changes_beyond(
    connection: Connection, position: LogPosition | FeedPosition, where: str = "true"
) -> tuple[LogPosition, list[Name]]:
    """The position of this snapshot, and the items of the log since a former position.

    They are those of the rows of the log that meet a condition.

    Raises:
        FeedLostError: The position is of another epoch, or too old.
    """
    reached, compacted = await read_position(connection)
    if position.epoch != reached.epoch:
        raise FeedLostError("the log has another epoch")
    if not covers(position.log, compacted):
        raise FeedLostError("the log is compacted beyond the position")
    rows = await connection.fetch_all(
        f"""
        SELECT DISTINCT coalesce(log.erased_tenant, tenant.name), log.kind,
               coalesce(log.erased_id, segment.id, fact.id)
          FROM ({all_beyond("%(position)s::pg_snapshot", "*", where=where)}) AS log
          LEFT JOIN tenant ON tenant.id = log.tenant_id
          LEFT JOIN segment ON segment.key = log.key
          LEFT JOIN fact ON fact.key = log.key
         WHERE coalesce(log.erased_id, segment.id, fact.id) IS NOT NULL
         LIMIT %(most)s::int8
        """,
        {"position": str(position.log), "most": MAX_CHANGES + 1},
    )
    if len(rows) > MAX_CHANGES:
        raise FeedLostError(f"more than {MAX_CHANGES} changes are pending")
    return reached, [
        (TenantName(tenant), ItemId(ItemKind(kind), id_)) for tenant, kind, id_ in rows
    ]

"""The numbers of the embedding models."""

from __future__ import annotations

from serving.adapters.postgres.connection.pool import Connection
from serving.ports.embedding import EmbeddingModel

NO_MODEL = 0
"""The model number of a projection without a model."""


async def find_model(connection: Connection, model: EmbeddingModel) -> int:
    """The model's number; `NO_MODEL` if nothing is stored for it yet.

    Raises:
        ValueError: The stored model of this fingerprint has another dimension.
    """
    cursor = await connection.execute(
        "SELECT id, dimension FROM embedding_model WHERE fingerprint = %s::text",
        [model.fingerprint],
    )
    row = await cursor.fetchone()
    if row is None:
        return NO_MODEL
    if row[1] != model.dimension:
        raise ValueError(
            f"model {model.fingerprint!r} has dimension {row[1]}, not {model.dimension}"
        )
    return int(row[0])


async def find_or_make_model(connection: Connection, model: EmbeddingModel) -> int:
    """The model's number, assigned now if it has none.

    Raises:
        ValueError: The stored model of this fingerprint has another dimension.
    """
    if not await find_model(connection, model):
        await connection.execute(
            "INSERT INTO embedding_model (fingerprint, dimension) VALUES (%s, %s) "
            "ON CONFLICT DO NOTHING",
            [model.fingerprint, model.dimension],
        )
    return await find_model(connection, model)

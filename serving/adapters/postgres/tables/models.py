"""The numbers of the embedding models."""

from __future__ import annotations

from serving.adapters.postgres.connection.statements import Connection
from serving.ports.embedding import EmbeddingModel

NO_MODEL = 0
"""The model number of a projection without a model."""


async def find_model(connection: Connection, model: EmbeddingModel | None) -> int:
    """The model's number; `NO_MODEL` for none, and if nothing is stored for it yet.

    Raises ValueError if the stored model of this fingerprint has another dimension.
    """
    if model is None:
        return NO_MODEL
    found = await connection.fetch_all(
        "SELECT id, dimension FROM embedding_model WHERE fingerprint = %s::text",
        [model.fingerprint],
    )
    if not found:
        return NO_MODEL
    [(id_, dimension)] = found
    if dimension != model.dimension:
        known = f"model {model.fingerprint!r} has dimension {dimension}"
        raise ValueError(f"{known}, not {model.dimension}")
    return int(id_)


async def find_or_make_model(connection: Connection, model: EmbeddingModel | None) -> int:
    """The model's number, assigned now if it has none; else as `find_model`."""
    number = await find_model(connection, model)
    if number or model is None:
        return number
    await connection.execute(
        "INSERT INTO embedding_model (fingerprint, dimension) VALUES (%s, %s) "
        "ON CONFLICT DO NOTHING",
        [model.fingerprint, model.dimension],
    )
    return await find_model(connection, model)

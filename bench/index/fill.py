"""Measures how long an index takes from PostgreSQL to its first answer.

`python -m bench.index.fill --rows 100000 --dimension 1024` starts a PostgreSQL of its own, puts
rows with random vectors straight into its tables, and then opens an index over them as a replica
of the service does.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import psycopg

from bench.harness.results import Result, append_record, run_folder
from bench.reports.environment import about_device, describe
from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.migration import migrate
from serving.composition.index_engine import engine_maker
from serving.config.settings import IndexSettings
from serving.desk.embedded_postgres import EmbeddedPostgres
from serving.domain.budget import Deadline
from serving.pipeline.index.log_following import LogFollowingIndex
from serving.ports.embedding import EmbeddingModel
from serving.ports.index_engine import IndexEngine

PATIENCE_S = 3600.0
COPIED_AT_ONCE = 10_000

UNLOGGED = {"fsync": "off", "full_page_writes": "off", "max_wal_size": "8GB"}
"""Only what is read is measured."""

_SEGMENTS = """
INSERT INTO segment (tenant_id, id, text, title, kind, speaker, session, event_time, importance,
                     sensitive, labels, entities, entity, content_hash, text_hash, tags, tsv, dl)
SELECT %(tenant)s, number::text, 'a text', '', 'turn', 'Ann', 's', now(), 0.5,
       false, '{}', '{}', '', '', decode('00', 'hex'), ARRAY['k:turn', 's:ann', 'c:s'], '', 0
  FROM generate_series(1, %(rows)s) AS number
"""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rows", default=100_000, show_default=True, type=click.IntRange(min=1))
@click.option("--dimension", default=1024, show_default=True, type=click.IntRange(8, 4000))
@click.option("--device", default="cpu", show_default=True, help="Of the index.")
@click.option("--out", type=click.Path(path_type=Path), help="A folder for the results.")
def main(rows: int, dimension: int, device: str, out: Path | None) -> None:
    """Measure how long an index takes from PostgreSQL to its first answer."""
    settings = IndexSettings.model_validate({"device": device})
    model = EmbeddingModel("bench", dimension)
    with tempfile.TemporaryDirectory(prefix="trivium-bench-") as folder:
        Path(folder).chmod(0o755)  # the server runs under another account if we are root
        with EmbeddedPostgres(Path(folder) / "server", settings=UNLOGGED) as dsn:
            click.echo(f"storing {rows:,} rows of {dimension}")
            asyncio.run(migrate(dsn))
            store(dsn, model, rows)
            seconds = asyncio.run(filled(dsn, model, engine_maker(settings, dimension), rows))
    result = Result(
        scenario="index from PostgreSQL to serving",
        parameters={"rows": rows, "dimension": dimension, "device": device},
        n=1,
        throughput_per_s=round(rows / seconds),
        measured={
            "seconds": round(seconds, 2),
            "seconds_for_a_million": round(1e6 * seconds / rows, 1),
        },
    )
    out = out or run_folder("index-fill")
    out.mkdir(parents=True, exist_ok=True)
    append_record(out, result.as_record({**describe(), "device": about_device(device)}))
    click.echo(f"{seconds:.1f} s, {rows / seconds:,.0f} rows/s; written to {out}")


def store(dsn: str, model: EmbeddingModel, rows: int) -> None:
    """Puts rows and vectors into the tables, without the work of the service's own write path."""
    with psycopg.connect(dsn) as connection:
        tenant = _one(
            connection,
            "INSERT INTO tenant (name, text_search_config) VALUES ('bench', 'simple') RETURNING id",
        )
        connection.execute(_SEGMENTS, {"tenant": tenant, "rows": rows})
        model_id = _one(
            connection,
            "INSERT INTO embedding_model (fingerprint, dimension) VALUES (%s, %s) RETURNING id",
            model.fingerprint,
            model.dimension,
        )
        random = np.random.default_rng(0)
        keys = [key for (key,) in connection.execute("SELECT key FROM segment ORDER BY key")]
        columns = "model_id, key, window_no, text_hash, vector"
        with connection.cursor().copy(f"COPY embedding ({columns}) FROM STDIN BINARY") as copy:
            copy.set_types(("int2", "int8", "int2", "bytea", "bytea"))
            for start in range(0, len(keys), COPIED_AT_ONCE):
                some = keys[start : start + COPIED_AT_ONCE]
                vectors = random.standard_normal((len(some), model.dimension), dtype=np.float32)
                vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
                for key, vector in zip(some, vectors.astype("<f2"), strict=True):
                    copy.write_row((model_id, key, 0, b"\0", vector.tobytes()))
        connection.execute("UPDATE meta SET complete_model = %s", [model_id])


def _one(connection: psycopg.Connection, statement: str, *values: object) -> int:
    row = connection.execute(statement, values).fetchone()
    assert row is not None, "RETURNING has a row; this is a bug"
    return int(row[0])


async def filled(
    dsn: str, model: EmbeddingModel, make_engine: Callable[[], IndexEngine], rows: int
) -> float:
    """The seconds until an index answers that has nothing yet."""
    async with Postgres(dsn) as postgres:
        started = time.perf_counter()
        async with LogFollowingIndex(postgres.feed, model, make_engine) as index:
            assert await index.ready(Deadline.after(PATIENCE_S)), "it is not filled in an hour"
            seconds = time.perf_counter() - started
            assert (await index.status()).vector_count == rows, "rows are missing; this is a bug"
    return seconds


if __name__ == "__main__":
    main()

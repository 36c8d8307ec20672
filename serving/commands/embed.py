"""`python -m serving embed`: embeds all rows by a model that the service does not use yet."""

from __future__ import annotations

import asyncio

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.migration import migrate
from serving.commands.database import address_of_postgres, brief_errors
from serving.commands.following import follow
from serving.composition.models import open_embedder
from serving.config.settings import Settings
from serving.pipeline.writes.projector import EmbeddingWork
from serving.telemetry import NoRecorder


def run(settings: Settings) -> None:
    """Embeds until no row lacks a vector of the model of the settings, and shows the progress.

    Raises:
        click.ClickException: The model cannot be had, or PostgreSQL cannot be reached.
    """

    async def work(dsn: str) -> None:
        await migrate(dsn)
        async with Postgres(dsn) as postgres, open_embedder(settings, NoRecorder()) as embedder:
            model = await embedder.model()

            async def progress() -> str:
                share = await postgres.feed.embedded_share(model)
                return f"{int(100 * share)} % of the rows are embedded by {settings.embedder.model}"

            # Not in use: the service may still answer by another model.
            embedding = EmbeddingWork(postgres.change_log, embedder)
            await follow(postgres, embedding, progress, in_use=False)

    with brief_errors(), address_of_postgres(settings) as dsn:
        asyncio.run(work(dsn))

"""Projections of the change log: embeddings, the graph, and facts read out of turns."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from serving import telemetry
from serving.adapters.neo4j import Neo4jGraph
from serving.adapters.openai_api import ApiExtractor
from serving.adapters.postgres.assembly import Postgres
from serving.composition.background import in_background, measured_repeatedly
from serving.composition.stores import open_graph, open_postgres
from serving.config.settings import ExtractionSettings, Settings
from serving.pipeline.writes.extraction import Extracted, ExtractionLimits, ExtractionWork
from serving.pipeline.writes.projector import EmbeddingWork, GraphWork, Projector
from serving.ports.change_log import ChangeLog, Projection
from serving.ports.embedding import Embedder, EmbeddingModel
from serving.telemetry import Recorder

Report = Callable[[Extracted], None]


@asynccontextmanager
async def running_projector(
    settings: Settings, embedder: Embedder, recorder: Recorder
) -> AsyncIterator[None]:
    """Runs both projections, as leader or as standby."""
    async with (
        open_postgres(settings) as postgres,
        open_graph(settings) as graph,
        projecting(postgres, embedder, graph, recorder),
    ):
        yield


@asynccontextmanager
async def projecting(
    postgres: Postgres, embedder: Embedder, graph: Neo4jGraph, recorder: Recorder
) -> AsyncIterator[None]:
    """Projects changes into embeddings and the graph."""
    log = postgres.change_log

    async def measure() -> None:
        await _measure(log, await embedder.model(), {"embedding", "graph"}, recorder)

    async with (
        measured_repeatedly(measure),
        in_background(Projector(log, EmbeddingWork(log, embedder)).run()),
        in_background(Projector(log, GraphWork(log, graph)).run()),
    ):
        yield


async def _measure(
    log: ChangeLog,
    model: EmbeddingModel | None,
    projections: Collection[Projection],
    recorder: Recorder,
) -> None:
    for status in await log.status(model):
        if status.projection in projections:
            labels = {"projection": status.projection}
            recorder.record(telemetry.PROJECTION_LAG, status.lag_s, labels)
            recorder.record(telemetry.PROJECTION_PENDING, status.pending, labels)
            recorder.record(telemetry.DEAD_LETTERS, status.dead_letter_count, labels)


@asynccontextmanager
async def running_extraction(settings: Settings, recorder: Recorder) -> AsyncIterator[None]:
    """Reads facts out of turns, as leader or as standby."""

    def report(extracted: Extracted) -> None:
        outcome = extracted.unusable or "read"
        recorder.record(telemetry.EXTRACTION_TURNS, extracted.turns, {"outcome": outcome})
        for name, count in extracted.facts.items():
            recorder.record(telemetry.EXTRACTION_FACTS, count, {"outcome": name})
        tokens = {"sent": extracted.sent_tokens, "received": extracted.received_tokens}
        for direction, count in tokens.items():
            recorder.record(telemetry.EXTRACTION_TOKENS, count, {"direction": direction})

    async with (
        open_postgres(settings) as postgres,
        extraction_work(settings.extraction, postgres, report) as work,
    ):
        log = postgres.change_log

        async def measure() -> None:
            await _measure(log, None, {work.projection}, recorder)

        async with measured_repeatedly(measure), in_background(Projector(log, work).run()):
            yield


@asynccontextmanager
async def extraction_work(
    settings: ExtractionSettings, postgres: Postgres, report: Report
) -> AsyncIterator[ExtractionWork]:
    """Opens the extractor that the settings name; there is one."""
    api = settings.api
    assert api is not None, "extraction is on without an extractor; this is a bug"
    limits = {"timeout_s": api.timeout.total_seconds(), "max_tokens": api.max_tokens}
    async with ApiExtractor.opened(api.url, api.model, api.secret(), **limits) as extractor:
        yield ExtractionWork(
            postgres.change_log,
            postgres.store,
            postgres.extractions,
            extractor,
            now=lambda: datetime.now(UTC),
            limits=ExtractionLimits(
                turns=settings.turns, before=settings.before, sessions=settings.sessions
            ),
            report=report,
        )

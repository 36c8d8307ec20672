"""The composition root: settings into adapters, adapters into use cases.

Knows no Ray, so that the same service runs in a test, in one replica, or in several.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from serving.adapters.capitalised_entities import CapitalisedEntities
from serving.adapters.encoder.backend import choose_backend, choose_precision, require_attention
from serving.adapters.encoder.checkpoint import MINILM, Checkpoint, open_checkpoint
from serving.adapters.english_dates import EnglishDates
from serving.adapters.neo4j import Neo4jGraph
from serving.adapters.neo4j.graph import Neo4jSettings
from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.dsn import parses
from serving.adapters.postgres.migrations import SchemaTooNewError, migrate
from serving.adapters.reranker.checkpoint import open_checkpoint as open_reranker_checkpoint
from serving.adapters.snapshot_folder import SnapshotFolder
from serving.config import IndexSettings, RayEnvironment, RerankerSettings, Settings
from serving.deployments.gpu_share import share_of_index
from serving.deployments.index_engine import engine_maker, tier_figures
from serving.deployments.watches import watch_over
from serving.domain.budget import Deadline
from serving.domain.errors import TriviumError, UnavailableError
from serving.domain.profile import Profile
from serving.domain.query import Query, Scope
from serving.domain.records import TenantName
from serving.domain.shards import WHOLE, Shard
from serving.pipeline.absence import AbsenceExplainer
from serving.pipeline.asking import Legs, LegState
from serving.pipeline.batching import BatchedEmbedder, BatchLimits
from serving.pipeline.device_loss import WatchedCrossEncoder, WatchedEncoder, WatchedEngine
from serving.pipeline.embedding_queues import LaneName
from serving.pipeline.forget import Eraser
from serving.pipeline.ingest import Ingestor
from serving.pipeline.keeping import Keeper
from serving.pipeline.legs import (
    DENSE,
    FACTS,
    GRAPH,
    LEXICAL,
    RELATED,
    TEMPORAL,
    DenseLeg,
    FactsLeg,
    GraphLeg,
    LexicalLeg,
    RelatedLeg,
    TemporalLeg,
)
from serving.pipeline.overview import About, Observer
from serving.pipeline.project import EmbeddingWork, GraphWork, Projector
from serving.pipeline.reranking import QueuedReranker
from serving.pipeline.retrieve import Retriever
from serving.pipeline.semantic import EmbeddedSearch
from serving.pipeline.spaces import OpenSpace, VectorSpace, VectorSpaces
from serving.pipeline.tailing import TailedIndex
from serving.ports import (
    CrossEncoder,
    Embedder,
    IndexEngine,
    Reranker,
    SemanticSearch,
    TextEncoder,
    VectorIndex,
)
from serving.profiles import DEFAULT_PROFILE, ProfileBook
from serving.rpc.service import TriviumService, UseCases, now_utc
from serving.telemetry import (
    EMBEDDING_BATCH,
    EMBEDDING_WAITING,
    INDEX_EPOCH,
    INDEX_LAG,
    INDEX_VECTORS,
    PROJECTION_LAG,
    PROJECTION_PENDING,
    NoRecorder,
    Recorder,
)

logger = logging.getLogger(__name__)

MEASURE_EVERY_S = 5.0
RETRY_S = 0.5
WARM_UP_S = 15.0
NOBODY = TenantName("")
"""No caller's tenant: requests must name one."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What of a vector space runs outside of this process; what is None runs inside."""

    embedder: Embedder | None = None
    index: VectorIndex | None = None
    semantic: SemanticSearch | None = None


ALL_INSIDE = Elsewhere()


@asynccontextmanager
async def running_service(
    settings: Settings,
    *,
    recorder: Recorder | None = None,
    space: Elsewhere = ALL_INSIDE,
    previous: Elsewhere = ALL_INSIDE,
    reranker: Reranker | None = None,
    projecting: bool = True,
    warm_up_s: float = WARM_UP_S,
) -> AsyncIterator[TriviumService]:
    """Runs the service; what is not given from elsewhere runs inside.

    Starts without PostgreSQL or Neo4j being there, and heals when they come.

    Args:
        settings: The settings.
        recorder: Where measurements go.
        space: What embeds and searches elsewhere.
        previous: The same of the model before, while it is needed.
        reranker: A reranker that runs elsewhere.
        projecting: Whether the projector runs inside too.
        warm_up_s: How long to wait for every leg's first answer.
    """
    recorder = recorder or NoRecorder()
    async with AsyncExitStack() as stack:
        postgres = await _opened_postgres(stack, settings)
        graph = await _opened_graph(stack, settings)
        opened = await stack.enter_async_context(_space(settings, postgres, recorder, space))
        spaces = VectorSpaces(opened, _previous_space(settings, postgres, previous, projecting))
        await stack.enter_async_context(_task(spaces.hand_over()))
        if projecting:
            await stack.enter_async_context(_projecting(postgres, opened.embedder, graph, recorder))
        if reranker is None:
            reranker = await stack.enter_async_context(open_reranker(settings))
        use_cases = _use_cases(settings, postgres, graph, spaces, reranker)
        profiles = ProfileBook.load(settings.retrieval.profiles)
        profiles.log_notes()
        await _warm_up(use_cases.retriever, profiles[DEFAULT_PROFILE], Deadline.after(warm_up_s))
        yield TriviumService(use_cases, profiles, recorder=recorder)


async def _warm_up(retriever: Retriever, profile: Profile, give_up: Deadline) -> None:
    """Asks a question of nobody's memory until every leg has answered, or time is up.

    A store's first question is its slowest by far (Neo4j plans its statement in seconds), and
    no caller should pay for it. What is missing stays missing: the service starts all the same.
    """
    scope = Scope(tenant=NOBODY, as_of=now_utc())
    query = Query(scope=scope, text="Who said hello to whom, and when?")
    while not give_up.passed:
        try:
            answer = await retriever.retrieve(query, profile, give_up)
        except TriviumError as error:
            logger.info("warming up", extra={"reason": str(error)})
        else:
            if all(report.state is LegState.OK for report in answer.reports):
                return
        await asyncio.sleep(RETRY_S)


@asynccontextmanager
async def open_embedder(settings: Settings, recorder: Recorder) -> AsyncIterator[BatchedEmbedder]:
    """Loads the encoder and batches what it is given."""
    encoder = WatchedEncoder(
        await asyncio.to_thread(_encoder, settings),
        watch_over("embedder", settings.embedder.device),
    )
    limits = BatchLimits.for_device(encoder.device(), waiting_queries=settings.embedder.max_waiting)

    def on_batch(lane: LaneName, windows: int) -> None:
        recorder.record(EMBEDDING_BATCH, windows, {"lane": lane})

    async with BatchedEmbedder(encoder, limits, on_batch) as embedder:

        async def measure() -> None:
            recorder.record(EMBEDDING_WAITING, embedder.waiting_queries, {"lane": "query"})
            recorder.record(EMBEDDING_WAITING, embedder.waiting_documents, {"lane": "bulk"})

        async with _repeated(measure):
            yield embedder


@asynccontextmanager
async def open_index(
    settings: Settings, embedder: Embedder, recorder: Recorder, shard: Shard = WHOLE
) -> AsyncIterator[VectorIndex]:
    """Runs a vector index, or one share of it, that follows PostgreSQL by itself."""
    async with AsyncExitStack() as stack:
        postgres = await _opened_postgres(stack, settings)
        yield await stack.enter_async_context(
            _index_over(settings, postgres, embedder, recorder, shard)
        )


@asynccontextmanager
async def open_space(
    settings: Settings, recorder: Recorder, shard: Shard = WHOLE
) -> AsyncIterator[tuple[VectorSpace, SemanticSearch]]:
    """Runs an embedder and the index, or one share of it, and what asks both in one call."""
    async with AsyncExitStack() as stack:
        postgres = await _opened_postgres(stack, settings)
        embedder = await stack.enter_async_context(open_embedder(settings, recorder))
        index = await stack.enter_async_context(
            _index_over(settings, postgres, embedder, recorder, shard)
        )
        yield VectorSpace(embedder, index), EmbeddedSearch(embedder, index)


@asynccontextmanager
async def open_reranker(settings: Settings) -> AsyncIterator[QueuedReranker | None]:
    """Runs a reranker if the settings name a model. Starts without the model being there."""
    reranker = settings.reranker
    if reranker.model is None:
        yield None
        return
    async with QueuedReranker(
        partial(_cross_encoder, reranker.model, reranker),
        load_at_start=reranker.load == "start",
        most_waiting=reranker.max_waiting,
    ) as queued:
        yield queued


def _cross_encoder(model: str, reranker: RerankerSettings) -> CrossEncoder:
    """Loads the model of the reranker; takes seconds, a download minutes."""
    checkpoint = open_reranker_checkpoint(model, download=True)
    from serving.adapters.reranker.torch_cross_encoder import TorchCrossEncoder, choose_precision

    cross_encoder = TorchCrossEncoder(
        checkpoint,
        device=reranker.device,
        precision=choose_precision(reranker.precision, reranker.device),
        attention=reranker.attention,
        threads=reranker.threads,
    )
    return WatchedCrossEncoder(cross_encoder, watch_over("reranker", reranker.device))


@asynccontextmanager
async def running_projector(
    settings: Settings,
    embedder: Embedder,
    previous_embedder: Embedder | None,
    recorder: Recorder,
) -> AsyncIterator[None]:
    """Runs both projections, as leader or as standby."""
    async with AsyncExitStack() as stack:
        postgres = await _opened_postgres(stack, settings)
        graph = await _opened_graph(stack, settings)
        await stack.enter_async_context(_projecting(postgres, embedder, graph, recorder))
        if previous_embedder is not None:
            await stack.enter_async_context(_kept_up(postgres, previous_embedder))
        yield


async def _opened_postgres(stack: AsyncExitStack, settings: Settings) -> Postgres:
    if settings.postgres.dsn is None:
        raise ValueError("postgres.dsn is not set: name a PostgreSQL with TRIVIUM_POSTGRES__DSN")
    dsn = settings.postgres.dsn.get_secret_value()
    if not parses(dsn):
        raise ValueError("postgres.dsn does not parse: see TRIVIUM_POSTGRES__DSN")
    postgres = Postgres(
        dsn,
        work_connections=settings.postgres.write_connections,
        search_connections=settings.postgres.search_connections,
        search_timeout_s=settings.postgres.search_timeout.total_seconds(),
    )
    await stack.enter_async_context(postgres)
    await stack.enter_async_context(_task(_migrate_when_reachable(dsn)))
    return postgres


async def _migrate_when_reachable(dsn: str) -> None:
    while True:
        try:
            return await migrate(dsn)
        except UnavailableError as error:
            logger.warning("the schema waits", extra={"reason": str(error)})
            await asyncio.sleep(RETRY_S)
        except SchemaTooNewError as error:
            logger.error("the schema is too new", extra={"reason": str(error)})
            return


async def _opened_graph(stack: AsyncExitStack, settings: Settings) -> Neo4jGraph:
    if settings.neo4j.uri is None:
        raise ValueError("neo4j.uri is not set: name a Neo4j with TRIVIUM_NEO4J__URI")
    password = settings.neo4j.password
    graph = Neo4jGraph(
        Neo4jSettings(
            uri=settings.neo4j.uri,
            user=settings.neo4j.user if password else "",
            password=password.get_secret_value() if password else "",
            database=settings.neo4j.database,
        )
    )
    stack.push_async_callback(graph.close)
    return graph


def checkpoint_of(settings: Settings) -> Checkpoint:
    """Finds the encoder's files, or fetches them."""
    embedder = settings.embedder
    return open_checkpoint(
        embedder.model,
        dimension=embedder.dimension,
        text_form=embedder.text_form,
        download=embedder.model != MINILM,
    )


def _encoder(settings: Settings) -> TextEncoder:
    """Loads the encoder; takes seconds, and imports only what the backend needs."""
    embedder = settings.embedder
    checkpoint = checkpoint_of(settings)
    backend = choose_backend(embedder.backend, embedder.device, checkpoint, embedder.precision)
    precision = choose_precision(embedder.precision, embedder.device, backend)
    require_attention(embedder.attention, backend)
    match backend:
        case "onnx":
            from serving.adapters.encoder.onnx_encoder import OnnxEncoder

            return OnnxEncoder(checkpoint, settings.cache_dir, threads=embedder.threads)
        case "bfloat16":
            from serving.adapters.encoder.bert_encoder import BertEncoder

            return BertEncoder(checkpoint, settings.cache_dir, threads=embedder.threads)
        case "qwen3":
            from serving.adapters.encoder.qwen3_encoder import Qwen3Encoder

            return Qwen3Encoder(
                checkpoint,
                device=embedder.device,
                precision=precision,
                attention=embedder.attention,
                threads=embedder.threads,
            )
        case _:
            from serving.adapters.encoder.torch_encoder import TorchEncoder

            return TorchEncoder(
                checkpoint, device=embedder.device, precision=precision, threads=embedder.threads
            )


@asynccontextmanager
async def _space(
    settings: Settings, postgres: Postgres, recorder: Recorder, elsewhere: Elsewhere
) -> AsyncIterator[VectorSpace]:
    """Opens what of the space does not run elsewhere."""
    embedder, index = elsewhere.embedder, elsewhere.index
    async with AsyncExitStack() as stack:
        if embedder is None:
            embedder = await stack.enter_async_context(open_embedder(settings, recorder))
        if index is None:
            index = await stack.enter_async_context(
                _index_over(settings, postgres, embedder, recorder)
            )
        yield VectorSpace(embedder, index, elsewhere.semantic)


def _previous_space(
    settings: Settings, postgres: Postgres, elsewhere: Elsewhere, projecting: bool
) -> OpenSpace | None:
    if settings.embedder.previous is None and elsewhere.embedder is None:
        return None
    before = _settings_of_previous(settings)

    @asynccontextmanager
    async def opened() -> AsyncIterator[VectorSpace]:
        async with AsyncExitStack() as stack:
            # Not measured: its figures would be taken for those of the model in use.
            space = await stack.enter_async_context(
                _space(before, postgres, NoRecorder(), elsewhere)
            )
            if projecting:
                await stack.enter_async_context(_kept_up(postgres, space.embedder))
            yield space

    return opened


def _settings_of_previous(settings: Settings) -> Settings:
    """The settings under which the model before is loaded; as they are if none is named."""
    embedder = settings.embedder
    if embedder.previous is None:
        return settings
    before = embedder.model_copy(update=embedder.previous.overrides())
    return settings.model_copy(update={"embedder": before})


@asynccontextmanager
async def _index_over(
    settings: Settings,
    postgres: Postgres,
    embedder: Embedder,
    recorder: Recorder,
    shard: Shard = WHOLE,
) -> AsyncIterator[TailedIndex]:
    model = await embedder.model()
    watch = watch_over("index", settings.index.device)
    make_unwatched = await asyncio.to_thread(
        engine_maker,
        settings.index,
        model.dimension,
        gpu_share=share_of_index(settings) or 1.0,
    )

    def make_engine() -> IndexEngine:
        return WatchedEngine(make_unwatched(), watch)

    feed, keeper = postgres.feed_of(shard), _keeper(settings.index, shard)
    async with TailedIndex(feed, model, make_engine, keeper=keeper) as index:

        async def measure() -> None:
            status = await index.status()
            recorder.record(INDEX_VECTORS, status.vector_count)
            recorder.record(INDEX_EPOCH, status.epoch)
            for metric, value, labels in tier_figures(index.tiers()):
                recorder.record(metric, value, labels)
            if (lag_s := await index.lag_s()) is not None:
                recorder.record(INDEX_LAG, lag_s)

        async with _repeated(measure):
            yield index


def _keeper(settings: IndexSettings, shard: Shard) -> Keeper | None:
    if settings.snapshots is None:
        return None
    return Keeper(
        SnapshotFolder(settings.snapshots, shard), every_s=settings.snapshot_every.total_seconds()
    )


@asynccontextmanager
async def _projecting(
    postgres: Postgres, embedder: Embedder, graph: Neo4jGraph, recorder: Recorder
) -> AsyncIterator[None]:
    log = postgres.change_log

    async def measure() -> None:
        for status in await log.status(await embedder.model()):
            of_projection = {"projection": status.projection}
            recorder.record(PROJECTION_LAG, status.lag_s, of_projection)
            recorder.record(PROJECTION_PENDING, status.pending, of_projection)

    async with (
        _repeated(measure),
        _task(Projector(log, EmbeddingWork(log, embedder)).run()),
        _task(Projector(log, GraphWork(log, graph)).run()),
    ):
        yield


def _kept_up(postgres: Postgres, embedder: Embedder) -> AbstractAsyncContextManager[None]:
    """Embeds by the model before what is written while it still answers."""
    log = postgres.change_log
    return _task(Projector(log, EmbeddingWork(log, embedder), in_use=False).run())


def _use_cases(
    settings: Settings,
    postgres: Postgres,
    graph: Neo4jGraph,
    spaces: VectorSpaces,
    reranker: Reranker | None,
) -> UseCases:
    about = About(
        version=importlib.metadata.version("trivium"),
        placement=settings.serve.placement,
        ingress=RayEnvironment().ingress,
        started_at=now_utc(),
    )
    retriever = Retriever(
        legs=_legs(postgres, graph),
        spaces=spaces,
        store=postgres.store,
        access=postgres.access,
        dates=EnglishDates(),
        names=postgres.names,
        reranker=reranker,
    )
    return UseCases(
        retriever=retriever,
        explainer=AbsenceExplainer(retriever, postgres.store, spaces, graph),
        ingestor=Ingestor(postgres.store, CapitalisedEntities()),
        eraser=Eraser(postgres.store, spaces, graph, postgres.consistency),
        observer=Observer(
            about=about,
            catalog=postgres.catalog,
            log=postgres.change_log,
            spaces=spaces,
            graph=graph,
        ),
        store=postgres.store,
        catalog=postgres.catalog,
        embedder=spaces.current.embedder,
    )


def _legs(postgres: Postgres, graph: Neo4jGraph) -> Legs:
    return Legs(
        {
            LEXICAL: LexicalLeg(postgres.lexical),
            DENSE: DenseLeg(postgres.access),
            FACTS: FactsLeg(),
            GRAPH: GraphLeg(graph, postgres.consistency),
            RELATED: RelatedLeg(graph, postgres.consistency),
            TEMPORAL: TemporalLeg(postgres.timeline),
        },
        postgres.consistency,
    )


@asynccontextmanager
async def _task(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Runs a coroutine beside the body, and ends it with the body."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def _repeated(measure: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Calls an async function every few seconds while the body runs, whatever it raises.

    A store may be away, or not have its schema yet; then there is nothing to measure.
    """

    async def repeat() -> None:
        while True:
            try:
                await measure()
            except Exception as error:
                logger.info("not measured", extra={"reason": type(error).__name__})
            await asyncio.sleep(MEASURE_EVERY_S)

    async with _task(repeat()):
        yield

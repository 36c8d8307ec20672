"""The service: adapters and models joined into use cases.

Does not import Ray, so the same service runs in a test, in one replica or in several.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial

from serving.adapters.neo4j import Neo4jGraph
from serving.adapters.postgres.assembly import Postgres
from serving.adapters.resident import TenantsInMemory
from serving.composition.authentication import open_authenticator
from serving.composition.background import repeated
from serving.composition.extras import missing_modules
from serving.composition.index import SpaceParts, complete_space
from serving.composition.models import open_reranker
from serving.composition.projection import projecting as projections
from serving.composition.stores import open_graph, open_postgres
from serving.config.profiles import DEFAULT_PROFILE, ProfileBook
from serving.config.settings import RayEnvironment, Settings, TracesEnvironment
from serving.domain.breaker import FIRST_PAUSE_S, Breaker, all_breakers
from serving.domain.budget import Deadline
from serving.domain.english.dates import EnglishDates
from serving.domain.errors import TriviumError
from serving.domain.items.records import TenantName
from serving.domain.questions.query import Query, Scope
from serving.domain.ranking.profile import Profile
from serving.domain.token_buckets import TokenBuckets
from serving.pipeline.index.vector_space import VectorSpace
from serving.pipeline.retrieval import legs
from serving.pipeline.retrieval.admission import Admission
from serving.pipeline.retrieval.describe import Describer
from serving.pipeline.retrieval.explain_absence import AbsenceExplainer
from serving.pipeline.retrieval.holding import Holding
from serving.pipeline.retrieval.leg_runner import LegRunner
from serving.pipeline.retrieval.retrieve import Retriever
from serving.pipeline.retrieval.steps import RetrievalSteps
from serving.pipeline.retrieval.warm import QUESTION, Warmer
from serving.pipeline.writes.backpressure import Backpressure
from serving.pipeline.writes.expiry import EVERY_S, Lifetimes, Sweeper
from serving.pipeline.writes.forget import Eraser
from serving.pipeline.writes.ingest import Ingestor
from serving.pipeline.writes.patch import Patcher
from serving.pipeline.writes.stats import About, Observer
from serving.pipeline.writes.watch import ChangeWatcher
from serving.pipeline.writes.write_slots import WriteSlots
from serving.ports.reranking import Reranker
from serving.ports.resident_view import ResidentView
from serving.rpc.bounds import OpenStreams
from serving.rpc.pending import PENDING_CALLS
from serving.rpc.service import TriviumService
from serving.rpc.use_cases import UseCases, now_utc
from serving.telemetry import NoRecorder, Recorder, Tracer, breaker_changes

logger = logging.getLogger(__name__)

RETRY_S = 0.5
WARM_UP_S = 15.0
AUDIT_SWEEP_S = 3600.0
RETRIEVALS = 3 / 8
STREAMS = 1 / 4
WRITES = 1 / 4
"""The parts of a replica's concurrent calls that may be retrievals, open streams and writes: so no
retrieval waits in Serve's queue."""

NO_TENANT = TenantName("")
"""A tenant without rows: requests must name one that is not empty."""

NOTHING_GIVEN = SpaceParts()


@asynccontextmanager
async def running_service(
    settings: Settings,
    *,
    recorder: Recorder | None = None,
    space: SpaceParts = NOTHING_GIVEN,
    reranker: Reranker | None = None,
    projecting: bool = True,
    warm_up_s: float = WARM_UP_S,
) -> AsyncIterator[TriviumService]:
    """Runs the service; parts that are not given run in this process.

    It starts even if PostgreSQL or Neo4j is down, and recovers when they are up.
    """
    recorder = recorder or NoRecorder()
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        postgres = await enter(open_postgres(settings))
        graph = await enter(open_graph(settings))
        vectors = await enter(complete_space(settings, postgres, recorder, space))
        if projecting:
            await enter(projections(postgres, vectors.embedder, graph, recorder))
        if reranker is None:
            reranker = await enter(open_reranker(settings))
        breakers = all_breakers(breaker_changes(recorder))
        view = None
        if settings.memory.view_bytes:
            view = TenantsInMemory(postgres.resident_feed, settings.memory.view_bytes)
            await enter(view)
        steps = _steps(postgres, graph, vectors, reranker, breakers, view)
        use_cases = _use_cases(settings, postgres, graph, vectors, steps, breakers, view)
        profiles = ProfileBook.load(settings.retrieval.profiles)
        profiles.log_notes()
        await _warm_up(steps, profiles[DEFAULT_PROFILE], Deadline.after(warm_up_s))
        sweeper = Sweeper(postgres.store, use_cases.eraser, now_utc)
        await enter(repeated(sweeper.sweep, EVERY_S, "expired items not erased"))
        authenticator = await enter(open_authenticator(settings, postgres.api_keys))
        sweep = partial(postgres.audit_log.delete_older, timedelta(days=settings.auth.audit_days))
        # At INFO: PostgreSQL may be down, or not migrated yet.
        await enter(repeated(sweep, AUDIT_SWEEP_S, "audit log not swept", logging.INFO))
        probe = partial(_probe, breakers.values())
        await enter(repeated(probe, FIRST_PAUSE_S, "breakers not probed"))
        yield TriviumService(
            use_cases,
            profiles,
            recorder=recorder,
            tracer=_open_tracer(stack),
            authenticator=authenticator,
            streams=OpenStreams(_share_of_calls(settings, STREAMS)),
        )


def _open_tracer(stack: AsyncExitStack) -> Tracer | None:
    """Sends traces by OTLP over HTTP; None if `OTEL_*` names no address.

    Without the extra `traces` there are none, which the log says: answers matter more.
    """
    if not TracesEnvironment().enabled:
        return None
    if missing_modules("traces"):
        logger.error("no traces: pip install 'trivium-server[traces]'")
        return None
    # Only here, since a service without traces needs neither.
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    from serving.adapters.open_telemetry import OpenTelemetryTracer

    tracer = OpenTelemetryTracer(OTLPSpanExporter())
    stack.callback(tracer.close)
    return tracer


async def _probe(breakers: Iterable[Breaker]) -> None:
    for breaker in breakers:
        breaker.probe_if_due()


async def _warm_up(steps: RetrievalSteps, profile: Profile, give_up: Deadline) -> None:
    """Sends a query for an empty tenant until every leg has answered, or the time is up.

    A store's first query is its slowest by far (Neo4j takes seconds to plan the statement), so no
    caller should wait for it. The service starts even if a leg does not answer.
    """
    scope = Scope(tenant=NO_TENANT, as_of=now_utc())
    # Legs that are required are asked, though there is nothing to look up.
    required = frozenset(leg.name for leg in profile.legs if leg.weight)
    query = Query(scope=scope, text=QUESTION, required=required)
    while not give_up.passed:
        try:
            # Not admitted, since the time of a first query must not count as its usual cost.
            await steps.run(query, profile, give_up, thorough=True)
        except TriviumError as error:
            logger.info("warm-up query failed, retrying", extra={"reason": str(error)})
            await asyncio.sleep(RETRY_S)
        else:
            return


def _steps(
    postgres: Postgres,
    graph: Neo4jGraph,
    space: VectorSpace,
    reranker: Reranker | None,
    breakers: Mapping[str, Breaker],
    view: ResidentView | None,
) -> RetrievalSteps:
    return RetrievalSteps(
        legs=_legs(postgres, graph, _holding(postgres, space)),
        space=space,
        store=postgres.store,
        access=postgres.access,
        read_times=EnglishDates().times,
        names=postgres.names,
        reranker=reranker,
        breakers=breakers,
        view=view,
    )


def _use_cases(
    settings: Settings,
    postgres: Postgres,
    graph: Neo4jGraph,
    space: VectorSpace,
    steps: RetrievalSteps,
    breakers: Mapping[str, Breaker],
    view: ResidentView | None,
) -> UseCases:
    about = About(
        version=importlib.metadata.version("trivium-server"),
        placement=settings.serve.placement,
        ingress=RayEnvironment().ingress,
        started_at=now_utc(),
    )
    retriever = Retriever(steps, postgres.access, admission_of(settings))
    ingestor = Ingestor(
        postgres.store,
        write_slots_of(settings),
        Backpressure(postgres.change_log),
        Lifetimes(settings.retention.lifetimes),
    )
    return UseCases(
        retriever=retriever,
        warmer=Warmer(retriever, postgres.names, view),
        describer=Describer(postgres.store, _holding(postgres, space), breakers),
        explainer=AbsenceExplainer(steps, postgres.store, space, graph),
        ingestor=ingestor,
        patcher=Patcher(postgres.store, ingestor, now_utc),
        eraser=Eraser(postgres.store, postgres.lexical, space, graph, postgres.consistency, view),
        observer=Observer(
            about=about,
            catalog=postgres.catalog,
            log=postgres.change_log,
            space=space,
            graph=graph,
            breakers=tuple(breakers.values()),
        ),
        watcher=ChangeWatcher(postgres.change_feed),
        store=postgres.store,
        catalog=postgres.catalog,
        embedder=space.embedder,
        keys=postgres.api_keys,
        audit_log=postgres.audit_log,
    )


def admission_of(settings: Settings) -> Admission:
    """Makes the admission of a replica's questions."""
    return Admission(
        _share_of_calls(settings, RETRIEVALS),
        sheddable=frozenset(name for name, leg in legs.LEGS.items() if leg.sheddable),
        pending=PENDING_CALLS.count,
        rates=TokenBuckets(settings.serve.tenant_calls_per_second),
    )


def write_slots_of(settings: Settings) -> WriteSlots:
    """Makes the slots of a replica's writes; leaves one of their connections to the projections."""
    return WriteSlots(
        max(2, settings.postgres.write_connections - 1),
        _share_of_calls(settings, WRITES),
        rates=TokenBuckets(settings.serve.tenant_calls_per_second),
    )


def _share_of_calls(settings: Settings, share: float) -> int:
    return max(1, round(share * settings.serve.max_ongoing_requests))


def _holding(postgres: Postgres, space: VectorSpace) -> Holding:
    return Holding(postgres.store, postgres.timeline, space.candidates)


def _legs(postgres: Postgres, graph: Neo4jGraph, holding: Holding) -> LegRunner:
    all_legs = (
        legs.LexicalLeg(postgres.lexical),
        legs.DenseLeg(postgres.access),
        legs.ContextLeg(),
        legs.FactsLeg(),
        legs.GraphLeg(graph, postgres.consistency),
        legs.RelatedLeg(graph, postgres.consistency),
        legs.RepliesLeg(),
        legs.TemporalLeg(postgres.timeline),
        legs.ImportantLeg(postgres.timeline),
        legs.HoldingLeg(holding),
    )
    named = {leg.name: leg for leg in all_legs}
    assert named.keys() == legs.LEGS.keys(), "each of `LEGS` is made here; this is a bug"
    return LegRunner(named, postgres.consistency)

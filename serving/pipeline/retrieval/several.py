"""One answer from several tenants, each of which is searched and ranked by itself.

Scores of one profile are on one scale, so those of a tenant are multiplied by its weight, which is
to multiply the weights of all of its lists in the fusion. What compares items with each other
(repeats, turns next to each other, what holds now) stays within a tenant: what one says does not
outdate what another says. What concerns the answer (diversity, reserved places, the limit) is done
once, for all.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from serving.domain.budget import Deadline
from serving.domain.errors import TriviumError
from serving.domain.questions.query import Query, TenantWeight
from serving.domain.ranking.profile import Profile
from serving.pipeline.retrieval.leg_runner import LegReport, LegState
from serving.pipeline.retrieval.order.answer import OF_THE_ANSWER
from serving.pipeline.retrieval.order.hit import Hit, Stage
from serving.pipeline.retrieval.order.step import StepInput
from serving.pipeline.retrieval.rerank_stage import RerankReport
from serving.pipeline.retrieval.steps import Retrieval, Timings, Traced

Ask = Callable[[Query, Profile, Deadline], Awaitable[Traced]]


async def ask_several(ask: Ask, query: Query, profile: Profile, deadline: Deadline) -> Retrieval:
    """Answers from all tenants of a query that answer in time.

    Raises what `ask` raised for the first of them, if it raised for each.
    """
    started = time.perf_counter()

    async def answer_of(tenant: TenantWeight) -> Traced | TriviumError:
        try:
            return await ask(query.of_tenant(tenant.tenant), profile, deadline)
        except TriviumError as error:
            return error

    answers = await asyncio.gather(*map(answer_of, query.tenants))
    found = [each for each in answers if isinstance(each, Traced)]
    errors = [each for each in answers if isinstance(each, TriviumError)]
    if not found:
        raise errors[0]
    hits: list[Hit] = []
    reports: list[LegReport] = []
    for tenant, answer in zip(query.tenants, answers, strict=True):
        if isinstance(answer, Traced):
            hits += (_weighed(hit, tenant) for hit in answer.ordering.of_tenant())
            ended: Iterable[LegReport] = answer.retrieval.reports
        else:
            ended = _failed(profile, answer)
        reports += (replace(report, tenant=tenant.tenant) for report in ended)
    retrievals = [each.retrieval for each in found]
    return replace(
        retrievals[0],
        hits=_joined(hits, query, profile),
        reports=tuple(reports),
        rerank=_joined_rerank([each.rerank for each in retrievals if each.rerank is not None]),
        timings=Timings(
            total_s=time.perf_counter() - started,
            embedding_s=max(each.timings.embedding_s for each in retrievals),
            loading_s=max(each.timings.loading_s for each in retrievals),
            reranking_s=max(each.timings.reranking_s for each in retrievals),
            ranking_s=max(each.timings.ranking_s for each in retrievals),
        ),
        candidates=sum(each.candidates for each in retrievals),
        folded=sum(each.folded for each in retrievals),
        vanished=sum(each.vanished for each in retrievals),
        index_epoch=max(each.index_epoch for each in retrievals),
        name_corrections=tuple(
            dict.fromkeys(name for each in retrievals for name in each.name_corrections)
        ),
        shed=frozenset[str]().union(*(each.shed for each in retrievals)),
    )


def _weighed(hit: Hit, tenant: TenantWeight) -> Hit:
    ledger = replace(hit.ledger, tenant_weight=tenant.weight)
    return replace(hit, tenant=tenant.tenant, ledger=ledger)


def _failed(profile: Profile, error: TriviumError) -> Iterable[LegReport]:
    """The message about the legs of a tenant that failed."""
    return (
        LegReport(leg=leg.name, state=LegState.FAILED, reason=str(error))
        for leg in profile.legs
        if leg.weight
    )


def _joined(hits: Iterable[Hit], query: Query, profile: Profile) -> tuple[Hit, ...]:
    """The hits of all tenants, best first, by the steps that concern the whole answer."""
    given = StepInput(profile=profile, query=query)
    # Those that were not reranked have scores on another scale.
    ordered = sorted(given.sorted(hits), key=lambda hit: hit.stage not in (None, Stage.RERANKED))
    for step in OF_THE_ANSWER:
        if step.is_in(profile):
            ordered = step.run(ordered, given)
    return tuple(ordered)


def _joined_rerank(reports: list[RerankReport]) -> RerankReport | None:
    """The outcome for all tenants: that of those that were reranked, if one was."""
    if not reports:
        return None
    done = [each for each in reports if each.stage is Stage.RERANKED]
    return replace(
        (done or reports)[0],
        reason="; ".join(dict.fromkeys(each.reason for each in reports if each.reason)),
        hits=sum(each.hits for each in reports),
        elapsed_s=max(each.elapsed_s for each in reports),
    )

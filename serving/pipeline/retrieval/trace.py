"""Answers queries with every intermediate result, to explain and tune them."""

from __future__ import annotations

from serving.domain.budget import Deadline
from serving.domain.questions.query import Query
from serving.domain.ranking.profile import Profile
from serving.pipeline.retrieval.leg_runner import LegResult
from serving.pipeline.retrieval.ordering import Hit, Stage
from serving.pipeline.retrieval.steps import RetrievalSteps, Traced


class Tracer:
    """Runs the steps of an answer in full or in part. It is always admitted.

    Nothing that it shows counts as an access.
    """

    def __init__(self, steps: RetrievalSteps) -> None:
        self._steps = steps

    async def trace(self, query: Query, profile: Profile, deadline: Deadline) -> Traced:
        """Answers a query, reads the rows of all candidates, and keeps what each step did.

        Raises:
            AllLegsFailedError: Every leg that ran failed.
            StoreUnavailableError: The candidates' rows cannot be read.
            BudgetExhaustedError: The time ran out between the legs and the rows.
        """
        return await self._steps.run(query, profile, deadline, thorough=True)

    async def reorder(
        self, traced: Traced, profile: Profile, deadline: Deadline
    ) -> tuple[Hit, ...]:
        """Returns the answer of a trace under a profile with other steps after fusion.

        Legs and rows are not read again; the reranker is called only for hits it has not scored.
        """
        ordering = traced.ordering.with_profile(profile)
        report = traced.retrieval.rerank
        if profile.rerank is None or report is None:
            return ordering.hits()
        if report.stage is not Stage.RERANKED:
            ordering.mark_coarse(report.stage)
        elif (logits := traced.ordering.known_logits(ordering.head())) is not None:
            ordering.add_logits(logits)
        else:
            await self._steps.rerank(traced.query, ordering, deadline)
        return ordering.hits()

    async def run_legs(self, query: Query, profile: Profile, deadline: Deadline) -> list[LegResult]:
        """Runs the legs alone, with corrected names; in the profile's order.

        Raises:
            AllLegsFailedError: Every leg that ran failed.
            StoreUnavailableError: A leg could not reach PostgreSQL.
        """
        query, _ = await self._steps.completed(query, profile, deadline)
        return await self._steps.run_legs(query, profile, deadline)
